"""How often the printed intervals hold: `python -m benchmarks.coverage`, which fails if one holds too seldom.

**Watched comparisons.** Simulated services show lists to users of a click law, hold out a share, and are looked at
after every hundredth of their impressions. Without a difference between the arms, whoever sees an interval exclude zero
at any of the looks is misled: a false alarm. With a difference of 5%, and the sequence tightest at the size of a fixed
test planned for it (with 80% power at level 5%), the impressions until it is found are compared with that size.

**`compare` and `simulate`.** Of many simulated runs, whose mean is taken for the truth, a few are drawn again and
again: how often is the truth in the interval of the mean over queries, and of the difference between two policies on
the same users?

**`evaluate`.** Many small logs of the same users, with the scores on all of them together as the truth.

**`value`.** Logs of policies that state propensities and learn meanwhile, on four items of each real query (of the
folder in CLICKBANDIT_SHARED), with two of them as the target, whose clicks are known exactly: `benchmarks.valued`.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas

from benchmarks import Rows
from benchmarks.valued import valued
from clickbandit import CascadeModel, PositionBasedModel, Query, count_log, simulate
from clickbandit.compiling.kernel import FloatArray
from clickbandit.intervals import (
    Interval,
    Sums,
    Units,
    mean_of_strata,
    watched_difference,
    watched_over_shares,
)
from clickbandit.logs.evaluate import Measure, evaluate
from clickbandit.report.statistics import paired_difference
from clickbandit.terminal import print_table

IMPRESSIONS = 50_000
LOOKS = 100
DIFFERENCE = 0.05
POWER = 0.8
LEAST_COVERAGE = 0.93
_NORMAL_95, _NORMAL_80 = 1.959964, 0.841621

# --- watched comparisons ------------------------------------------------------------------------------------


def position_based(probabilities: Sequence[float]) -> FloatArray:
    """How likely 0, 1, 2, ... clicks are where each position is clicked by itself."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, [1 - p, p])
    return law


LAWS = {
    "at most one click, 1% of lists": np.array([0.99, 0.01]),
    "at most one click, 30% of lists": np.array([0.7, 0.3]),
    "at most one click, 97% of lists": np.array([0.03, 0.97]),
    "five positions by themselves": position_based([0.5, 0.25, 0.15, 0.1, 0.05]),
    "five clicks on 10% of lists": np.array([0.9, 0, 0, 0, 0, 0.1]),
}
"""How likely 0, 1, 2, ... clicks on a list are."""

Periods = list[tuple[float, Sums, Sums]]


class Look(NamedTuple):
    """What happens from one look to the next."""

    impressions: int
    share: float
    """Of impressions that are held out."""
    treated: FloatArray
    """The click law."""
    held_out: FloatArray


def fixed(periods: Periods, _tightest_at: float) -> tuple[float, float]:
    """The interval of a test that is looked at once, whatever the share was."""
    (n, *one), (m, *other) = (np.sum([period[arm] for period in periods], axis=0) for arm in (1, 2))
    errors = [max(squares / k - (total / k) ** 2, 0) / k for k, (total, squares) in ((n, one), (m, other))]
    difference, radius = one[0] / n - other[0] / m, _NORMAL_95 * math.sqrt(sum(errors))
    return difference - radius, difference + radius


def watched(periods: Periods, tightest_at: float) -> tuple[float, float]:
    return watched_over_shares(periods, tightest_at=tightest_at)


def first_told(
    looks: Sequence[Look],
    tightest_at: float,
    rng: np.random.Generator,
    interval: Callable[[Periods, float], tuple[float, float]] = watched,
) -> int | None:
    """The number of the first look at which the interval of a simulated service excludes zero, if there is one."""
    arms: dict[float, FloatArray] = {}
    for number, look in enumerate(looks):
        held_out = rng.binomial(look.impressions, look.share)
        counts = arms.setdefault(look.share, np.zeros((2, 3)))
        counts[0] += _sums(look.treated, look.impressions - held_out, rng)
        counts[1] += _sums(look.held_out, held_out, rng)
        low, high = interval([(share, tuple(a), tuple(b)) for share, (a, b) in arms.items()], tightest_at)
        if not low <= 0 <= high:
            return number
    return None


def _sums(law: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    clicks = np.arange(len(law))
    lists = rng.multinomial(n, law)
    return np.array([n, lists @ clicks, lists @ clicks**2], float)


def unchanged(law: FloatArray, share: float) -> list[Look]:
    """A service without a difference."""
    return [Look(IMPRESSIONS // LOOKS, share, law, law)] * LOOKS


def changing(share: float = 0.5, later: float = 0.05) -> list[Look]:
    """A service without a difference, whose share is changed when other users come, who click more."""
    few, many = LAWS["at most one click, 1% of lists"], LAWS["at most one click, 30% of lists"]
    return unchanged(few, share)[: LOOKS // 2] + unchanged(many, later)[: LOOKS // 2]


def improved(law: FloatArray, share: float) -> tuple[list[Look], int]:
    """A service with a difference, looked at until twice the size of a fixed test, and this size."""
    better = law.copy()
    better[1:] *= 1 + DIFFERENCE
    better[0] = 1 - better[1:].sum()
    (mean, variance), (better_mean, better_variance) = _moments(law), _moments(better)
    squared_error = better_variance / (1 - share) + variance / share
    size = math.ceil((_NORMAL_95 + _NORMAL_80) ** 2 * squared_error / (better_mean - mean) ** 2)
    return [Look(math.ceil(size / LOOKS), share, better, law)] * (2 * LOOKS), size


def _moments(law: FloatArray) -> tuple[float, float]:
    clicks = np.arange(len(law))
    return float(law @ clicks), float(law @ clicks**2 - (law @ clicks) ** 2)


def false_alarms(services: int, rng: np.random.Generator) -> Rows:
    kinds = {
        f"{name}, {share:.0%} held out": unchanged(law, share)
        for name, law in LAWS.items()
        for share in (0.05, 0.5)
    }
    kinds["50% held out, then 5% when users click more"] = changing()
    rows = []
    for name, looks in kinds.items():
        found = [
            np.mean([first_told(looks, IMPRESSIONS, rng, interval) is not None for _ in range(services)])
            for interval in (watched, fixed)
        ]
        rows.append({"users": name, "false alarms": found[0], "of a fixed interval": found[1]})
    return rows


VISITS = {
    "all as often": np.ones(5000),
    "some ten times as often": np.random.default_rng(1).pareto(2.5, 5000) + 1,
}
"""Of users, how often each comes, in relation to the others."""


def by_users(services: int, rng: np.random.Generator) -> Rows:
    """Users who come again and again and differ: compared as users, and as if each impression were for itself."""
    rows = []
    for name, visits in VISITS.items():
        told = np.zeros((services, 2), bool)
        for service in range(services):
            found = _users(visits / visits.sum(), rng)
            told[service] = [
                any(not low <= 0 <= high for low, high in column) for column in zip(*found, strict=True)
            ]
        by_user, by_impression = told.mean(axis=0)
        rows.append({"users": name, "false alarms": by_user, "by impression": by_impression})
    return rows


def _users(chances: FloatArray, rng: np.random.Generator) -> list[tuple[tuple[float, float], ...]]:
    """The intervals of a service without a difference, at each look: by user and by impression."""
    held_out = rng.random(len(chances)) < 0.2
    attraction = rng.beta(0.5, 1.5, len(chances))
    seen, clicked = np.zeros((2, len(chances)))
    found = []
    for _ in range(LOOKS):
        new = rng.multinomial(IMPRESSIONS // LOOKS, chances)
        seen += new
        clicked += rng.binomial(new, attraction)
        users = [
            Units(len(n), n.sum(), c.sum(), n @ n, n @ c, c @ c)
            for arm in (~held_out, held_out)
            for n, c in [(seen[arm & (seen > 0)], clicked[arm & (seen > 0)])]
        ]
        impressions = [(arm.impressions, arm.clicks, arm.clicks) for arm in users]
        found.append(
            (
                watched_difference(*users, tightest_at=2 * len(chances)),
                watched_difference(*impressions, tightest_at=IMPRESSIONS),
            )
        )
    return found


def power(services: int, rng: np.random.Generator) -> Rows:
    rows = []
    for name in ("at most one click, 30% of lists", "five positions by themselves"):
        for share in (0.05, 0.5):
            looks, size = improved(LAWS[name], share)
            told = [first_told(looks, size, rng) for _ in range(services)]
            times = [math.inf if look is None else (look + 1) / LOOKS for look in told]
            rows.append(
                {
                    "users": f"{name}, {share:.0%} held out",
                    "fixed test": size,
                    "found within twice that": np.mean(np.isfinite(times)),
                    "median, in times that": float(np.median(times)),
                }
            )
    return rows


# --- simulated runs -----------------------------------------------------------------------------------------

RUNS = 5
"""Of a comparison, on each query."""
QUERIES = {
    "a": CascadeModel([0.5, 0.3, 0.2, 0.1, 0.05]),
    "b": CascadeModel([0.9, 0.5, 0.1, 0.1, 0.1]),
    "c": CascadeModel([0.3, 0.28, 0.2, 0.15, 0.1]),
}
BANK, STEPS = 2000, 3000
POLICIES = ("cts", "cascade-ucb1")


def compared(samples: int, rng: np.random.Generator) -> Rows:
    """How often intervals over a few runs have the mean over a bank of many in them."""
    one, other = (
        np.array([_regret(policy, query, model) for query, model in QUERIES.items()]) for policy in POLICIES
    )
    truths = one.mean(), other.mean(), (other - one).mean()
    covered = np.zeros((samples, 3))
    for sample in range(samples):
        drawn = rng.integers(BANK, size=(len(QUERIES), RUNS))
        mine, others = (np.take_along_axis(bank, drawn, axis=1) for bank in (one, other))
        found = mean_of_strata(mine), mean_of_strata(others), _paired(others, mine)
        covered[sample] = [_has(interval, truth) for interval, truth in zip(found, truths, strict=True)]
    names = [f"regret of {policy}" for policy in POLICIES] + ["their difference"]
    return [{"interval": name, "holds": rate} for name, rate in zip(names, covered.mean(axis=0), strict=True)]


def _regret(policy: str, query: str, model: CascadeModel) -> FloatArray:
    trace = simulate(policy, model, positions=2, steps=STEPS, runs=BANK, query=query, method="step")
    return trace.regret @ trace.window_sizes


def _paired(one: FloatArray, other: FloatArray) -> Interval:
    named = [
        {(str(query), run): float(value) for query, row in enumerate(values) for run, value in enumerate(row)}
        for values in (one, other)
    ]
    found = paired_difference(*named)
    assert found is not None
    return found


def _has(interval: Interval | Measure, truth: float) -> bool:
    return interval.low <= truth <= interval.high


# --- scores of click models ---------------------------------------------------------------------------------

SESSIONS = 1000
"""Of a log."""


def evaluated(logs: int, rng: np.random.Generator) -> Rows:
    """How often the scores on a log have those on all logs together in their intervals."""
    users = PositionBasedModel([0.6, 0.3, 0.2, 0.1], [1, 0.7, 0.4])
    queries = [Query("q", list("abcd"), {"PBM": users, "CM": CascadeModel([0.6, 0.3, 0.2, 0.1])})]
    shown = rng.permuted(np.tile(np.arange(4), (logs * SESSIONS, 1)), axis=1)[:, :3]
    probability = np.asarray(users.attraction)[shown] * np.asarray(users.examination)
    clicks = (rng.random(shown.shape) < probability).astype(int)
    lists = [list(map("abcd".__getitem__, row)) for row in shown.tolist()]
    frame = pandas.DataFrame({"query": ["q"] * len(lists), "list": lists, "clicks": clicks.tolist()})
    true = evaluate(queries, count_log(frame), samples=1)
    measures = ("log_likelihood", "perplexity", "conditional_perplexity")
    covered: dict[str, list[bool]] = {}
    for log in range(logs):
        counts = count_log(frame[log * SESSIONS : (log + 1) * SESSIONS])
        found = evaluate(queries, counts, samples=400, seed=log)
        for model, name in itertools.product(found.models, measures):
            truth = getattr(true.models[model], name).value
            covered.setdefault(f"{name.replace('_', ' ')} of {model}", []).append(
                _has(getattr(found.models[model], name), truth)
            )
        covered.setdefault("lead of PBM", []).append(_has(found.lead, true.lead.value))
    return [{"interval": name, "holds": np.mean(values)} for name, values in covered.items()]


# --- the command --------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=1000, help="services, samples and logs (%(default)s)")
    parser.add_argument(
        "--only", choices=["watched", "compared", "evaluated", "valued"], help="only these intervals"
    )
    options = parser.parse_args()
    times, rng, fine = options.times, np.random.default_rng(1), True
    error = 2 * math.sqrt(0.05 * 0.95 / times)
    if options.only in (None, "watched"):
        alarms, users, found = false_alarms(times, rng), by_users(times, rng), power(times, rng)
        print(f"Watched {LOOKS} times without a difference, {times} services of {IMPRESSIONS:,} impressions:")
        print_table(alarms)
        print("\nUsers who come again, 20% of them held out:")
        print_table(users)
        print(f"\nWatched with a difference of {DIFFERENCE:.0%}:")
        print_table(found)
        fine = all(row["false alarms"] <= 0.05 + error for row in [*alarms, *users])
        fine = fine and all(row["found within twice that"] >= POWER for row in found)
    for name, measure in (("compared", compared), ("evaluated", evaluated), ("valued", valued)):
        if options.only in (None, name):
            rows = measure(times, rng)
            print(f"\n95% intervals, {name} {times} times:")
            print_table(rows)
            fine = fine and all(row["holds"] >= LEAST_COVERAGE - error for row in rows)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
