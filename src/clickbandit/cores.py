"""How many cores this process may use."""

import os


def cores() -> int:
    """Those it may run on, where the system says so (macOS does not), and otherwise those of the machine."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
