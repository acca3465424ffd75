"""How often the gain that `clickbandit audit` promises lies in its interval: `python -m benchmarks.audit`.

It fails if that is for fewer than 90% of queries where users behave as the best-fitting click model says.

Click models are fitted to a real log. Users of each of them are then shown the log's lists as often as the log has
them, and their clicks are audited by the model that fits the real log best. The true gain of each list that the audit
calls better is that of the users' model. With users of another model than the audit's, its intervals need not hold: how
far they are off is what a wrong model costs. Beside it stands the audit by the users' own model. Queries without a
better list promise nothing and are left out.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import Rows
from clickbandit.click_models.base import model_class
from clickbandit.compiling.specialise import specialise
from clickbandit.defaults import CLICK_MODELS
from clickbandit.logs import Counts, Fit, count_log, fit
from clickbandit.logs.audit import JUDGES, Finding, audit, best_model
from clickbandit.terminal import print_table

LEAST_COVERAGE = 0.9


def simulated(counts: Counts, users: Fit, rng: np.random.Generator) -> Counts:
    """The log's lists with the clicks of other users."""
    kind = model_class(users.name)
    by_item = {name: users.parameters[name].tolist() for name in kind.by_item}
    params = kind(**by_item, **users.shared).params
    module = specialise("clickbandit.logs.kernels", model=vars(kind.functions))
    shown = counts.patterns
    sessions = np.bincount(shown.list, shown.sessions).astype(np.int64)
    size = np.diff(shown.start)
    lists, bits = [], []
    for length in np.unique(size).tolist():
        some = np.flatnonzero(size == length)
        pairs = shown.pair[shown.start[some][:, None] + np.arange(length)]
        which = np.repeat(np.arange(len(some)), sessions[some])
        clicks = np.zeros((len(which), length), np.int64)
        module.simulate(params, rng, pairs, which, clicks)
        lists.append(some[which])
        bits.append(clicks @ (1 << np.arange(length)))
    rows = np.stack([np.concatenate(lists), np.concatenate(bits)], axis=1)
    alike, often = np.unique(rows, axis=0, return_counts=True)
    return counts.with_sessions(
        pa.table({"list": alike[:, 0], "clicks": alike[:, 1].astype(np.uint64), "sessions": often})
    )


def true_gain(found: Finding, users: Fit) -> float:
    """What the better list earns more, of users whose law is known."""
    n = len(found.usual)
    law = users.model(found.query, [*found.usual, *found.better])
    return law.reward(range(n, 2 * n)) - law.reward(range(n))


def promises(counts: Counts, users: Fit, model: str, runs: int) -> Iterator[tuple[Finding, float]]:
    """Findings of simulated logs that promise a gain, with the true one."""
    for run in range(runs):
        log = simulated(counts, users, np.random.default_rng(run))
        for found in audit(log, model=model, models=[model], seed=run).findings:
            if found.verdict != "no":
                yield found, true_gain(found, users)


def coverage(made: list[tuple[Finding, float]]) -> float:
    """For which share of promises the true gain lies in the interval."""
    return float(np.mean([found.gain.low <= gain <= found.gain.high for found, gain in made]))


def row(name: str, model: str, made: list[tuple[Finding, float]]) -> dict[str, object]:
    """How promises were kept."""
    sure = [gain > 0 for found, gain in made if found.verdict == "yes"]
    return {
        "users": name,
        "judged by": model,
        "promises": len(made),
        "in the interval": f"{coverage(made):.1%}",
        "promised": f"{np.mean([found.gain.mean for found, _ in made]):.4f}",
        "true": f"{np.mean([gain for _, gain in made]):.4f}",
        "called wrong": len(sure),
        "of these truly": f"{np.mean(sure):.1%}" if sure else "-",
    }


def main() -> int:
    shared = Path(os.environ.get("CLICKBANDIT_SHARED", "../shared"))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.audit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--log", type=Path, default=shared / "logs" / "wscd-train.tsv.gz")
    parser.add_argument("--runs", type=int, default=8, help="logs of each kind of users (%(default)s)")
    parser.add_argument("--users", default=",".join(CLICK_MODELS), help="click models (%(default)s)")
    parser.add_argument("--model", help="of the audit (the one that fits the log best)")
    options = parser.parse_args()
    counts = count_log(options.log)
    best = options.model or best_model(counts, JUDGES)
    rows: Rows = []
    held = {}
    for name in options.users.split(","):
        users = fit(counts, name)
        for judge in dict.fromkeys([best, *({name} & set(JUDGES))]):
            made = list(promises(counts, users, judge, options.runs))
            held[name, judge] = coverage(made)
            rows.append(row(name, judge, made))
            print(f"users of {name}, judged by {judge}: {held[name, judge]:.1%} kept", flush=True)
    print(f"{best} fits {options.log.name} best. {options.runs} logs of each kind of users:")
    print_table(rows)
    return 0 if held.get((best, best), 1) >= LEAST_COVERAGE else 1


if __name__ == "__main__":
    sys.exit(main())
