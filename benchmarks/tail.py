"""Queries that are seldom asked: what ClickTS earns against the order that a page has today, and what a prior costs.

`python -m benchmarks.tail` makes queries (24 items, 6 shown), each with an order that is good, noisy, flat, reversed,
good but for its two best items, which stand last, or poor: good, with attractions of 0.3 of those that other queries
have. What a query starts from is learned from other queries of the same kind, each of which had 1,000 impressions: the
curve of attraction by place, and where users look. Printed are expected clicks against those of the given order.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.intervals import mean_of_strata
from clickbandit.priors import Lesson, Prior, estimate_curve, shared_examination
from clickbandit.simulation.run import Problem, Run

ITEMS, POSITIONS = 24, 6
LOOKS = (100, 1_000, 10_000, 100_000)
"""Impressions of a query at which it is looked at."""
EXAMINATION = (1.0, 0.7, 0.5, 0.38, 0.3, 0.25)
ORDERS = {"good": 0.33, "noisy": 1.6, "flat": np.inf, "reversed": 0.0, "two best last": 0.0, "poor": 0.33}
"""The noise of the logarithm of attraction by which the given order is made."""
TEACHERS, LESSON = 30, 1_000
"""How many other queries there are, and how many impressions each of them had."""


class Case(NamedTuple):
    """A query: the items are numbered as they are given, so the given order is 0, 1, 2 and so on."""

    name: str
    users: ClickModel

    @property
    def given(self) -> float:
        """The expected clicks of the given order."""
        return self.users.reward(list(range(POSITIONS)))


def make_query(model: str, order: str, number: int, seed: int) -> Case:
    """A query of a kind, always the same for a number and a seed."""
    rng = np.random.default_rng([seed, number])
    attraction = np.clip(rng.beta(0.9, 5, ITEMS) * np.exp(rng.normal(0, 0.3)), 0.005, 0.9)
    noise = rng.normal(size=ITEMS)
    satisfaction = rng.uniform(0.2, 0.8, ITEMS)
    if order == "flat":
        items = np.argsort(noise)
    else:
        items = np.argsort(-np.log(attraction) + ORDERS[order] * noise)
    if order == "reversed":
        items = items[::-1]
    elif order == "two best last":
        items = np.roll(items, -2)
    elif order == "poor":
        attraction = 0.3 * attraction
    given, satisfied = attraction[items].tolist(), satisfaction[items].tolist()
    users: dict[str, ClickModel] = {
        "CM": CascadeModel(given),
        "PBM": PositionBasedModel(given, EXAMINATION),
        "DBN": DynamicBayesianModel(given, satisfied, 0.9),
    }
    return Case(f"{order}-{number}", users[model])


# --- what other queries teach -------------------------------------------------------------------------------


@cache
def learn_page(
    model: str, order: str, seed: int, teachers: int = TEACHERS, lesson: int = LESSON
) -> list[Lesson]:
    """The lessons of other queries, which start from the order alone; by place."""
    lessons = []
    for number in range(teachers):
        case = make_query(model, order, number, seed + 1_000)
        problem = problem_of(case, "click-ts", lesson, Prior.from_order(range(ITEMS)))
        run = Run(problem, seed=seed)
        run.advance(lesson)
        teach = problem.policy.live.teach
        assert teach is not None
        told = teach(run.state)
        place = np.argsort(run.numbering)
        lessons.append(
            told._replace(
                clicks=np.take(told.clicks, place).tolist(), examined=np.take(told.examined, place).tolist()
            )
        )
    return lessons


def prior_of(lessons: Sequence[Lesson], strength: float | None = None) -> Prior:
    """What a new query starts from."""
    curve = estimate_curve([one.clicks for one in lessons], [one.examined for one in lessons])
    assert curve is not None
    options: dict[str, Any] = {} if strength is None else {"strength": strength}
    prior = Prior.from_order(range(ITEMS), attraction=curve.mean, **options)
    rows, errors = shared_examination(lessons)
    return Prior(prior.attraction, prior.strength, prior.order, rows, errors)


def problem_of(case: Case, policy: str, steps: int, prior: Prior | None) -> Problem:
    return Problem(
        policy,
        case.users,
        positions=POSITIONS,
        horizon=steps,
        query=case.name,
        against="attraction",
        prior=prior,
    )


# --- what a query earns -------------------------------------------------------------------------------------


class Earned(NamedTuple):
    """By query, run and look: expected clicks over those of the given order, less 1; and the regret."""

    gain: Any
    regret: Any
    optimum: Any
    """By query: what the most attractive items first would gain."""
    lowest: Any
    """By query and run: the least gain at any of some hundred looks from the 20th impression on."""


def earn(cases: Sequence[Case], policy: str, prior: Prior | None, looks: Sequence[int], runs: int) -> Earned:
    """Run a policy on queries."""
    found = []
    ends = np.union1d(looks, np.geomspace(20, looks[-1], 100).astype(int))
    at = np.searchsorted(ends, looks)
    for case in cases:
        problem = problem_of(case, policy, looks[-1], prior)
        lost = np.array(
            [Run(problem, seed=1, run=run).advance_windows(ends)[0].cumsum() for run in range(runs)]
        )
        gained = (problem.best_reward - lost / ends) / case.given - 1
        found.append((gained[:, at], lost[:, at], problem.best_reward / case.given - 1, gained.min(axis=1)))
    return Earned(*map(np.array, zip(*found, strict=True)))


def measure(model: str, order: str, policy: str, prior: str, args: argparse.Namespace) -> dict[str, Any]:
    """One row: the gain at each look with its interval, the worst query's, and what was lost in the end."""
    lessons = learn_page(model, order if order == "noisy" else "good", args.seed) if prior != "none" else []
    strength = None if prior in ("given-order", "none") else float(prior)
    cases = [make_query(model, order, number, args.seed) for number in range(args.queries)]
    looks = [look for look in LOOKS if look <= args.steps]
    earned = earn(cases, policy, prior_of(lessons, strength) if lessons else None, looks, args.runs)
    row: dict[str, Any] = {"model": model, "order": order, "policy": policy, "prior": prior}
    row |= {name: getattr(args, name) for name in ("queries", "runs", "steps", "seed")}
    row["optimum"] = round(100 * earned.optimum.mean(), 1)
    row["gain"] = [
        [round(100 * value, 1) for value in mean_of_strata(earned.gain[:, :, look].tolist())]
        for look in range(len(looks))
    ]
    row["worst"] = (100 * earned.gain.mean(axis=1).min(axis=0)).round(1).tolist()
    row["regret"] = round(float(earned.regret[:, :, -1].mean()))
    row["lowest"] = (100 * earned.lowest).round(2).tolist()
    return row


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a table."""
    heads = [f"{look:,}" for look in LOOKS]
    lines = [
        f"| users | given order | optimum | policy | prior | {' | '.join(heads)} | worst query | regret | below -2% |",
        f"|---|---|--:|---|---|{'--:|' * (len(LOOKS) + 3)}",
    ]
    for row in rows:
        gains = [f"{mean:+.1f} ({low:+.1f} to {high:+.1f})" for mean, low, high in row["gain"]]
        lowest = np.array(row["lowest"])
        cells = [
            row["model"],
            row["order"],
            f"{row['optimum']:+.1f}",
            f"`{row['policy']}`",
            row["prior"],
            *gains,
        ]
        cells += [""] * (len(LOOKS) - len(gains))
        cells += [", ".join(f"{value:+.1f}" for value in row["worst"]), f"{row['regret']:,}"]
        lines.append(f"| {' | '.join([*cells, f'{(lowest < -2).sum()} of {lowest.size}'])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tail", description=__doc__)
    parser.add_argument("--models", default="PBM,CM,DBN")
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--policies", default="click-ts,click-ts within 0.02")
    parser.add_argument("--priors", default="given-order,none", help="also strengths, such as 10,30")
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, help="where finished rows are kept, and the same command resumes"
    )
    args = parser.parse_args()
    rows = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else []
    cells = (getattr(args, name).split(",") for name in ("models", "orders", "policies", "priors"))
    for cell in itertools.product(*cells):
        if cell not in [(row["model"], row["order"], row["policy"], row["prior"]) for row in rows]:
            rows.append(measure(*cell, args))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
            if args.keep:
                args.keep.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
