"""What the docs say of policies in numbers: measured one policy at a time, and kept in a file of its own.

`docs/policies/results/NAME.json` has a row for each of a policy's variants on each click model. Ranks, and how many
times the least regret a policy has, depend on all policies and are worked out here from all files.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clickbandit.experiments.comparison import YARDSTICKS, all_policies, choose, plan_comparison
from clickbandit.experiments.folder import Folder
from clickbandit.experiments.plan import Conditions
from clickbandit.experiments.results import load_results
from clickbandit.experiments.run import run
from clickbandit.intervals import Interval
from clickbandit.policies.base import parse_policy, policy_class, policy_names
from clickbandit.progress import progress_bar
from clickbandit.queries import load_queries
from clickbandit.report.many import total_curves
from clickbandit.report.standings import Place, placed, places
from clickbandit.simulation.outcome import TAIL

PROJECT = Path(__file__).parents[1]
QUERIES = PROJECT / "examples" / "queries.json"
RESULTS = PROJECT / "docs" / "policies" / "results"
STEPS, POSITIONS, SEED, POINTS = 1_000_000, 5, 1, 25
STILL = "still"
ENVIRONMENTS: dict[str, tuple[str, int, dict[str, Any]]] = {
    STILL: ("users stay the same", 5, {}),
    "drift": ("taste changes halfway", 2, {"drift": [STEPS // 2]}),
    "delay": ("feedback is 1,000 steps late", 2, {"delay": 1000}),
    "flip": ("a tenth of all clicks and non-clicks are inverted", 2, {"flip": 0.1}),
}
"""What policies are measured in, how many runs there are, and how users differ from those who stay the same."""

Results = dict[str, Any]


def built_in() -> list[str]:
    """The policies of this package, without those that other packages register."""
    return [name for name in policy_names() if policy_class(name).__module__.startswith("clickbandit.")]


def variants(name: str) -> list[str]:
    """What is measured of a policy: itself, and variants that are other algorithms."""
    return [policy for policy in all_policies() if policy.partition(":")[0] == name]


def conditions() -> Results:
    """What the results depend on besides the policy: if it differs now, they are out of date."""
    return {
        "queries": hashlib.sha256(QUERIES.read_bytes()).hexdigest(),
        "steps": STEPS,
        "positions": POSITIONS,
        "seed": SEED,
        "environments": {name: [runs, users] for name, (_, runs, users) in ENVIRONMENTS.items()},
    }


def load() -> dict[str, Results]:
    """The results of each policy that has been measured."""
    files = {name: RESULTS / f"{name}.json" for name in built_in()}
    return {
        name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()
    }


def measure(name: str) -> None:
    """Measure a policy, and write its file. If stopped, the same call resumes."""
    queries = load_queries(QUERIES)
    field = choose(queries, ["all"], None)._replace(policies=variants(name))
    folder = PROJECT / "build" / "docs" / name
    found: dict[tuple[str, str], Results] = {}
    for environment, (_, runs, users) in ENVIRONMENTS.items():
        plan = plan_comparison(
            queries, field, Conditions(STEPS, runs, POSITIONS, SEED, **users), input=QUERIES.name
        )
        with (
            Folder.open(folder / environment, plan) as opened,
            progress_bar(plan.steps, f"{name}, {environment}") as advance,
        ):
            run(opened, progress=advance)
        table = load_results(folder / environment).table
        for place in places(table, queries, POSITIONS):
            row = found.setdefault(
                (place.model, place.policy), {"policy": place.policy, "model": place.model}
            )
            row[environment] = {
                "regret": [round(value, 2) for value in place.regret],
                "near": round(place.near, 3),
                "losing": round(place.losing, 3),
                "runs": [[query, run, round(regret, 2)] for (query, run), regret in place.regrets.items()],
            }
        if environment == STILL:
            steps = dict[int, None]()
            for point in total_curves(table, POINTS):
                steps[point["step"]] = None
                curve = found[point["model"], point["policy"]].setdefault("curve", [])
                curve.append(float(f"{point['mean']:.4g}"))
    write(name, {"conditions": conditions(), "steps": list(steps), "rows": list(found.values())})
    shutil.rmtree(folder)


def write(name: str, results: Results) -> None:
    """A line for each row, so that people can read what changed."""
    head = [f'"{key}": {json.dumps(results[key])}' for key in ("conditions", "steps")]
    rows = ",\n".join(json.dumps(row) for row in results["rows"])
    text = "{\n" + ",\n".join([*head, f'"rows": [\n{rows}\n]']) + "\n}\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


def regrets_of(measured: Results) -> dict[tuple[str, int], float]:
    """By query and run: the regret over all steps. None in results from before policies met the same users."""
    return {(query, run): regret for query, run, regret in measured.get("runs", ())}


def tail_of(measured: Results) -> float | None:
    """The 90th percentile of the regret, of the runs on all queries."""
    regrets = [*regrets_of(measured).values()]
    return float(np.quantile(regrets, TAIL)) if regrets else None


def rows(everyone: Mapping[str, Results]) -> list[Results]:
    """The rows of all policies."""
    return [row for results in everyone.values() for row in results["rows"]]


def compared(everyone: Mapping[str, Results], environment: str) -> list[Place]:
    """All policies among such users, by click model and increasing regret, with their ranks."""
    found = []
    for row in rows(everyone):
        measured = row[environment]
        regrets = regrets_of(measured)
        place = Place(
            model=row["model"],
            policy=row["policy"],
            rank=None,
            regret=Interval(*measured["regret"]),
            times=0.0,
            near=measured["near"],
            runs=ENVIRONMENTS[environment][1],
            tail=tail_of(measured) or math.nan,
            losing=measured.get("losing", math.nan),
            regrets=regrets,
        )
        found.append(place)
    told = [place.policy for place in found if parse_policy(place.policy).needs]
    return placed(found, yardsticks=YARDSTICKS, told=told)
