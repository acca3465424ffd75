"""Run all benchmarks, print what they found, and save it: `python -m benchmarks [--quick] [--only NAME]`.

Times are the best of several, since other work on the machine can only make them longer. Ratios are of two times in
the same run.
"""

import argparse
import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks import fitting, live, page, simulating


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "Python": platform.python_version(),
        "numba": version("numba"),
        "NumPy": version("numpy"),
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a minute rather than ten")
    parser.add_argument("--only", choices=["simulating", "fitting", "live", "page"], help="only one of them")
    parser.add_argument("--out", type=Path, help="save the figures here, as JSON")
    parser.add_argument("--minutes", type=float, help="how long the service makes lists")
    options = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    results: dict[str, object] = {"machine": machine(), "quick": options.quick}
    if options.only in (None, "simulating"):
        results["simulating"] = simulating.main(quick=options.quick)
    if options.only in (None, "fitting"):
        results["fitting holds"] = fitting.main(quick=options.quick)
    if options.only in (None, "live"):
        results["live"] = live.main(quick=options.quick, minutes=options.minutes)
    if options.only in (None, "page"):
        results["page"] = page.main(quick=options.quick)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"written: {options.out}")


if __name__ == "__main__":
    main()
