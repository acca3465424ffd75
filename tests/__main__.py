"""All checks of the project, as `python -m tests`: style, types, the direction of imports, and the tests."""

import subprocess
import sys
from pathlib import Path

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports",),
    ("pytest", "-q", "-n", "2", "--dist", "loadfile"),
)


def main() -> int:
    folder = Path(sys.executable).parent
    failed = []
    for name, *arguments in CHECKS:
        print(f"== {name} {' '.join(arguments)}", flush=True)
        if subprocess.run([folder / name, *arguments], cwd=Path(__file__).parents[1]).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
