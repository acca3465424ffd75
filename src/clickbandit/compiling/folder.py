"""Where machine code is kept from one start to the next: `$CLICKBANDIT_CACHE`, or `clickbandit` in the user's cache.

A wheel may bring some, in a folder of the same form (see `clickbandit.prebuild`)."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

PREBUILT = Path(__file__).parents[1] / "prebuilt"
"""What the wheel brought, for any processor of its kind; only read."""
_KEEP_UNUSED = 30 * 24 * 3600  # seconds after which code that nobody used is thrown away


def root() -> Path:
    """The folder that holds everything; it need not exist."""
    home = os.environ.get("CLICKBANDIT_CACHE")
    if home:
        return Path(home)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clickbandit"


def folder(name: str) -> Path:
    """A folder for this user alone, made if need be, or an OSError."""
    path = root() / name
    if not path.is_dir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_unused()
    if path.stat().st_uid != os.getuid() or path.stat().st_mode & 0o077:
        raise OSError(f"{path} is accessible to other users, who could inject code")
    os.utime(path)
    return path


def remembered(question: str, answer: Callable[[], bool]) -> bool:
    """A yes to a question about this Python, asked once; a no is asked again at every start."""
    python = f"python-{sys.version_info.major}.{sys.version_info.minor}"
    if (PREBUILT / python / question).exists():
        return True
    try:
        mark = folder(python) / question
    except OSError:
        return answer()
    if mark.exists():
        return True
    yes = answer()
    if yes:
        mark.touch()
    return yes


def _forget_unused() -> None:
    for path in root().iterdir():
        if path.is_dir() and time.time() - path.stat().st_mtime > _KEEP_UNUSED:
            shutil.rmtree(path, ignore_errors=True)
