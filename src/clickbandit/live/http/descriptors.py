"""Open files: each connection is one, and the system says how many a process may have."""

import resource

_OTHERS = 128
"""Those of the store and of other workers, and connections that are accepted before room is made for them."""


def allow(connections: int) -> None:
    """Raise the limit to what so many connections need, as far as the system lets this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = min(connections + _OTHERS, hard)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def room() -> int:
    """How many connections there may be."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft - _OTHERS, soft // 2)
