"""A shop's search log as it really is, and the same log clean: `python -m benchmarks.messy_log`.

Sessions of a position-based model, lists of 24 results and second pages to 48, are written twice: in our own columns,
and with other names, clicks as 0.0 and 1.0, missing values, umlauts, rows that are there twice and clicks without an
impression. Both are read, each in a process of its own. The command prints every cause of a dropped row beside what was
put in, how far the fitted parameters are apart in standard errors, and what reading took; it fails if a row is not
explained, if shared parameters differ by more than an error on average, or if reading takes over twice the CPU time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas

from clickbandit.terminal import print_table

COLUMNS = "impression=search_id,query=search_term,item=sku,position=rank,click=clicked"
QUERIES = ["rote schuhe", "grüne Jacke", "帽子", "shoes, men", 'jeans 32"', "sock"]
PAGE, PAGES, ITEMS = 24, 2, 60
MALFORMED, COPIES, LOST = 0.0025, 0.001, 0.0005
"""Shares of rows: with a missing value, there twice, and clicks without an impression."""


def make(sessions: int, seed: int) -> pandas.DataFrame:
    """A clean log, a row for each result."""
    rng = np.random.default_rng(seed)
    attraction = rng.beta(1, 8, (len(QUERIES), ITEMS))
    examination = 1 / np.arange(1, PAGE * PAGES + 1) ** 0.5
    query = rng.integers(len(QUERIES), size=sessions)
    order = np.argsort(
        -np.log(attraction)[query] + rng.gumbel(0, 0.7, (sessions, ITEMS)) * -1, axis=1, kind="stable"
    )[:, : PAGE * PAGES]
    clicked = rng.random(order.shape) < attraction[query[:, None], order] * examination
    seen = np.where(rng.random(sessions) < 0.3, PAGE * PAGES, PAGE)
    rows = np.flatnonzero((np.arange(PAGE * PAGES) < seen[:, None]).ravel())
    session, place = np.divmod(rows, PAGE * PAGES)
    return pandas.DataFrame(
        {
            "impression": session,
            "query": np.array(QUERIES)[query[session]],
            "position": place + 1,
            "item": np.char.add("sku-", order.ravel()[rows].astype(str)),
            "click": clicked.ravel()[rows].astype(int),
        }
    )


def spoil(clean: pandas.DataFrame, seed: int) -> tuple[pandas.DataFrame, dict[str, int]]:
    """The log as a shop would have it, and how often what was spoiled."""
    rng = np.random.default_rng(seed)
    names = dict(part.split("=") for part in COLUMNS.split(","))
    messy = clean.rename(columns=names).astype({"search_id": str, "rank": str})
    messy["clicked"] = messy["clicked"].map({0: "0.0", 1: "1.0"})
    messy["timestamp"] = "2024-05-01T10:00:00.000+02:00"
    n = len(messy)
    bad = rng.permutation(n)[: int(MALFORMED * n)]
    put = {}
    causes = {"sku": "no item", "search_id": "no impression", "clicked": "no click, yes or no"}
    for part, (column, cause) in zip(np.array_split(bad, 3), causes.items(), strict=True):
        messy.loc[part, column] = ""
        put[cause] = len(part)
    good = np.setdiff1d(np.arange(n), bad)
    copies = messy.loc[rng.choice(good, int(COPIES * n), replace=False)]
    lost = messy.loc[rng.choice(good, int(LOST * n), replace=False)].assign(rank="", clicked="1.0")
    put |= {"rows that are copies": len(copies), "a click on nothing shown (no position)": len(lost)}
    return pandas.concat([messy, copies, lost]).sample(frac=1, random_state=seed), put


def read(path: str, columns: str) -> dict[str, object]:
    """Read and fit; what it took, and what came out."""
    from clickbandit.logs import count_log, fit
    from clickbandit.logs.columns import Columns

    start = time.process_time()
    counts = count_log(path, columns=Columns.parse(columns))
    seconds = time.process_time() - start
    found = fit(counts, "PBM")
    return {
        "seconds": seconds,
        "memory": _most_memory(),
        "reading": counts.reading.as_dict(),
        "examination": found.parameters["examination"].tolist(),
        "errors": found.standard_errors["examination"].tolist(),
        "attraction": found.parameters["attraction"].tolist(),
        "attraction_errors": found.standard_errors["attraction"].tolist(),
    }


def _most_memory() -> float:
    """MiB that this program took at most; getrusage would say what the one took that started it."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def in_process(path: Path, columns: str) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.messy_log", "--read", str(path), columns]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def apart(one: dict[str, object], other: dict[str, object], name: str, errors: str) -> float:
    """How many standard errors the parameters of two fits differ by: the root of the mean square."""
    first, second, error = (np.array(values) for values in (one[name], other[name], one[errors]))
    return float(np.sqrt(np.mean(((first - second) / error) ** 2)))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.messy_log",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sessions", type=int, default=20_000, help="of some 31 rows each (%(default)s)")
    parser.add_argument(
        "--read", nargs=2, metavar=("LOG", "COLUMNS"), help="only read a log, and print what it took"
    )
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read(*options.read)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        clean = make(options.sessions, 1)
        messy, put = spoil(clean, 2)
        clean.to_csv(Path(folder) / "clean.csv", index=False)
        messy.to_csv(Path(folder) / "messy.csv", index=False)
        one, other = (
            in_process(Path(folder) / "clean.csv", ""),
            in_process(Path(folder) / "messy.csv", COLUMNS),
        )
    reading = dict(other["reading"])  # type: ignore[call-overload]
    found = {**reading["causes"], **{name: reading["odd"].get(name, 0) for name in put if "copies" in name}}
    print(f"{len(messy):,} rows of {options.sessions:,} sessions; dropped rows:")
    print_table(
        [
            {"cause": cause, "put in": put.get(cause, 0), "found": found.get(cause, 0)}
            for cause in {**put, **found}
        ]
    )
    print_table(
        [{"also": name, "impressions": n} for name, n in reading["odd"].items() if "impressions" in name]
    )
    shared, items = (
        apart(one, other, "examination", "errors"),
        apart(one, other, "attraction", "attraction_errors"),
    )
    ratio = float(other["seconds"]) / float(one["seconds"])  # type: ignore[arg-type]
    print(
        f"fitted parameters differ by {shared:.2f} standard errors (examination) and {items:.2f} (attraction)"
    )
    print(
        f"reading: {one['seconds']:.1f} s of CPU clean, {other['seconds']:.1f} messy ({ratio:.2f} times), "
        f"{other['memory']:,.0f} MiB at most"
    )
    return 0 if found == put and shared <= 1 and ratio <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
