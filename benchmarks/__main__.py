"""Run all benchmarks, print what they found, and save it."""

import argparse
import platform
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks import Rows, fitting, live, page, rivals, simulating
from clickbandit.cores import cores
from clickbandit.terminal import print_table

METHOD = (
    "Times of steps, leaps and commands are the best of several, since other work on the machine can only make them "
    "longer; threads and viewers are the median of what was measured in turns; ratios are of times in the same run."
)


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": str(cores()),
        "Python": platform.python_version(),
        "numba": version("numba"),
        "NumPy": version("numpy"),
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes: minutes rather than half an hour"
    )
    names = ["simulating", "fitting", "rivals", "live", "page"]
    parser.add_argument("--only", choices=names, help="only one of them")
    parser.add_argument(
        "--rivals",
        metavar="PYTHON",
        help="an interpreter that has the packages of others (benchmarks/rivals.py)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks.md"), help="save the tables here (%(default)s)"
    )
    parser.add_argument("--minutes", type=float, help="how long the service makes lists")
    options = parser.parse_args()
    parts = {
        "simulating": lambda: simulating.main(options.quick),
        "fitting": lambda: fitting.main(options.quick),
        "rivals": lambda: rivals.main(options.quick, options.rivals),
        "live": lambda: live.main(options.quick, options.minutes),
        "page": lambda: page.main(options.quick),
    }
    names = [options.only] if options.only else names
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    saved = f"# Speed\n\n`python -m benchmarks{' --quick' * options.quick}`: {about}. {METHOD}\n"
    print(about)
    for n, name in enumerate(names, 1):
        print(f"\n{name}, {n} of {len(names)}", flush=True)
        for title, rows in parts[name]():
            print(f"\n{title}:")
            print_table(rows)
            saved += f"\n## {title}\n\n{markdown(rows)}"
            options.out.write_text(saved, encoding="utf-8")  # as it comes, for this may be interrupted
    print(f"\nwritten: {options.out}")


def markdown(rows: Rows) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


if __name__ == "__main__":
    main()
