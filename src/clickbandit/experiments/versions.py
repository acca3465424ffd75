"""Which code gives the numbers: results of other code must not be mixed with them."""

import platform
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import clickbandit
from clickbandit.randomness import STREAMS

SOURCES = (
    *("compiling", "bounds.py", "enumeration.py", "policies", "click_models", "simulation", "leaps"),
    *("queries.py", "randomness.py"),
)
"""What is simulated."""


@cache
def versions() -> dict[str, str]:
    """The versions of all that the numbers depend on; `code` is a hash of the sources that are simulated, and `streams`
    says how random numbers are drawn from seeds."""
    package = Path(str(clickbandit.__file__)).parent
    digest = sha256()
    for name in SOURCES:
        path = package / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + file.read_bytes())
    return {
        "clickbandit": version("clickbandit"),
        "code": digest.hexdigest()[:16],
        "numpy": version("numpy"),
        "numba": version("numba"),
        "python": platform.python_version(),
        "streams": str(STREAMS),
    }
