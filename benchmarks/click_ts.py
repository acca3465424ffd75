"""ClickTS against the field: `python -m benchmarks.click_ts` measures it and writes the tables of docs/click-ts.md.

Every finished run is kept at once in build/click-ts, so that the command goes on where it was stopped, and no run is
made twice, whichever tables it is in; what the page is made of is docs/click-ts.json. `--draw` makes the page from
that without running anything.

Each table's runs are made one by one on all of its problems, so that wherever it is stopped all policies have about as
many. After twenty runs on some users a policy with over five times the least regret on them is not run again: more
runs would say no more.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.click_ts_page import CURVE, DATA, FOR_CLICKS, UNGUARDED, Result, draw
from benchmarks.click_ts_problems import (
    FLIP,
    MODELS,
    Users,
    hard_problems,
    large_problems,
    real_problems,
    wrong_problems,
)
from benchmarks.simulating import PROJECT
from clickbandit.experiments.plan import Job, Unit
from clickbandit.experiments.run import run_jobs
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.progress import progress_bar
from clickbandit.queries import Against
from clickbandit.simulation.outcome import Outcome, last_tenth, window_ends
from clickbandit.simulation.run import Problem, missing_knowledge

RUNS = PROJECT / "build" / "click-ts"
SEED = 1
OWN = ("click-ts", UNGUARDED, "cts", "pbm-ts")
ENOUGH, HOPELESS = 20, 5.0
"""After so many runs a policy with over so many times the least regret is not run again."""

Run = dict[str, Any]
Key = tuple[Any, ...]


class Part(NamedTuple):
    """A table of the page."""

    title: str
    users: Callable[[], Users]
    policies: Sequence[str]
    steps: int = 1_000_000
    runs: int = 10
    against: Against = "clicks"
    delay: int = 0
    drift: bool = False
    flip: float = 0.0
    growth: bool = False
    """Whether the figure shows how its regret grows."""

    @property
    def file(self) -> Path:
        """Where its runs are kept, with those of all tables under the same conditions."""
        return RUNS / f"{self.against}-delay{self.delay}-drift{self.drift:d}-flip{self.flip:g}.jsonl"


def parts() -> dict[str, Part]:
    """All tables, those that matter most first."""

    def real(*models: str) -> Callable[[], Users]:
        return partial(real_problems, models)

    field = [name for name in policy_names() if name not in ("optimal", "given", "click-ts")]
    everyone = ["click-ts", FOR_CLICKS, *field]
    longest = ("click-ts", "cts", "pbm-ts", "cascade-kl-ucb")
    changing = ("click-ts", UNGUARDED, "click-ts:restart=false", "cts", "pbm-ts", "glrt-cascade-kl-ucb")
    both = real("CM", "PBM")
    return {
        "attraction": Part("The order of attraction", both, OWN),
        "clicks-cm": Part("The most clicks: cascades", real("CM"), (FOR_CLICKS, "cts")),
        "clicks": Part(
            "The most clicks",
            real("DCM", "DBN", "CCM", "UBM"),
            (FOR_CLICKS, "grab", "dcm-kl-ucb", "click-ts"),
        ),
        "long": Part("Ten million steps", both, longest, steps=10**7, growth=True),
        "hard": Part("Hard cases", hard_problems, ("click-ts", "cts", "pbm-ts")),
        "large": Part(
            "A thousand items, fifty positions",
            large_problems,
            ("click-ts", "cts", "pbm-ts"),
            steps=100_000,
            runs=5,
        ),
        "drift": Part("Taste changes halfway", both, changing, drift=True),
        "delay": Part("Feedback is 1,000 steps late", both, OWN, delay=1000),
        "flip": Part("A tenth of all clicks are inverted", both, OWN, flip=FLIP),
        "wrong": Part(
            "Users whom the law does not fit",
            wrong_problems,
            ("click-ts", UNGUARDED, "cts"),
            against="attraction",
        ),
        "field": Part("All policies", real(*MODELS), everyone),
    }


# --- measuring ----------------------------------------------------------------------------------------------


def measure(name: str, part: Part, policies: Sequence[str], threads: int | None) -> None:
    """Make all runs of a table that are not there yet, of some policies."""
    part.file.parent.mkdir(parents=True, exist_ok=True)
    fewest = -(-ENOUGH // max(1, n_queries(part)))
    for runs in (min(fewest, part.runs), part.runs):
        finished = kept(part.file)
        done = {key_of(run) for run in finished}
        without_hope = hopeless(finished, part) if runs > fewest else set()
        jobs = [
            job
            for job in jobs_of(part, runs)
            if key_of(vars(job.unit)) not in done
            and job.unit.policy in policies
            and (job.unit.model, job.unit.policy) not in without_hope
        ]
        total = sum(job.unit.steps for job in jobs)
        with open(part.file, "a", encoding="utf-8") as log, progress_bar(total, name) as advance:
            log.write("\n")  # the last line may have been cut off

            def keep(number: int, outcome: Outcome, jobs: Sequence[Job] = jobs, log: Any = log) -> None:
                log.write(json.dumps(summary(jobs[number].unit, outcome)) + "\n")
                log.flush()

            run_jobs(jobs, keep, threads=threads, progress=advance)


def n_queries(part: Part) -> int:
    """How many problems some users have at least."""
    models = [model for model, *_ in part.users()]
    return min(map(models.count, models))


def kept(file: Path) -> list[Run]:
    """The finished runs of a file; a line that was cut off is none."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def key_of(run: Mapping[str, Any]) -> Key:
    return tuple(run[name] for name in ("policy", "model", "query", "run", "steps"))


def hopeless(finished: Sequence[Run], part: Part) -> set[tuple[str, str]]:
    """The models and policies, of those with enough runs, of which more would say nothing new."""
    regrets: dict[tuple[str, str], list[float]] = {}
    for run in finished:
        if run["steps"] == part.steps and run["policy"] in part.policies:
            regrets.setdefault((run["model"], run["policy"]), []).append(run["regret"])
    means = {names: float(np.mean(found)) for names, found in regrets.items() if len(found) >= ENOUGH}
    least = {model: min(mean for (other, _), mean in means.items() if other == model) for model, _ in means}
    return {names for names, mean in means.items() if mean > HOPELESS * abs(least[names[0]])}


def jobs_of(part: Part, runs: int) -> Iterator[Job]:
    """All runs of a table, run by run; policies that must be told what a model does not have are left out."""
    problems = []
    for model, query, clicks, positions in part.users():
        for policy in part.policies:
            if not missing_knowledge(parse_policy(policy), clicks):
                problem = Problem(
                    policy,
                    clicks,
                    positions=positions,
                    horizon=part.steps,
                    query=query,
                    delay=part.delay,
                    drift=(part.steps // 2,) if part.drift else (),
                    flip=part.flip,
                    against=part.against,
                )
                problems.append((policy, model, query, positions, problem))
    for run in range(runs):
        for policy, model, query, positions, problem in problems:
            yield Job(Unit(policy, model, query, run, part.steps, positions, SEED, part.steps), problem)


def summary(unit: Unit, outcome: Outcome) -> Run:
    """What is kept of a run: its regret, that of a step in its last tenth, and how it grew."""
    ends = window_ends(unit.steps)
    sizes, late = np.diff(ends, prepend=0), last_tenth(ends)
    so_far = np.cumsum(outcome.regret * sizes)
    names = ("policy", "model", "query", "run", "steps")
    return {name: getattr(unit, name) for name in names} | {
        "regret": round(float(so_far[-1]), 1),
        "last": float(f"{np.average(outcome.regret[late], weights=sizes[late]):.3g}"),
        "curve": [round(float(so_far[len(ends) * percent // 100 - 1]), 1) for percent in CURVE],
    }


# --- what is kept for the page ------------------------------------------------------------------------------


def gather(part: Part) -> Result:
    """The runs of a table: by model and policy those on each query, [regret, last] each, and where it is drawn the mean
    curve; of each as many as there are on all of its queries."""
    finished = {key_of(run): run for run in kept(part.file)}
    rows: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for job in jobs_of(part, part.runs):
        unit = job.unit
        runs = rows.setdefault((unit.model, unit.policy), {}).setdefault(unit.query, [])
        run = finished.get(key_of(vars(unit)))
        if run is not None and len(runs) == unit.run:
            runs.append(run)
    found = []
    for (model, policy), queries in rows.items():
        n = min(map(len, queries.values()))
        if n > 0:
            queries = {query: runs[:n] for query, runs in queries.items()}
            totals = {
                query: [[run["regret"], run["last"]] for run in runs] for query, runs in queries.items()
            }
            found.append([model, policy, totals, mean_curve(queries) if part.growth else []])
    return {"title": part.title, "steps": part.steps, "against": part.against, "rows": found}


def mean_curve(queries: Mapping[str, Sequence[Run]]) -> list[float]:
    """The regret so far, over all queries."""
    curves = [np.mean([run["curve"] for run in runs], axis=0) for runs in queries.values()]
    return [round(float(mean), 1) for mean in np.mean(curves, axis=0)]


def save(results: Mapping[str, Result]) -> None:
    """A line for each model and policy."""
    texts = []
    for name, found in results.items():
        head = {key: value for key, value in found.items() if key != "rows"}
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in found["rows"])
        texts.append(f'"{name}": {json.dumps(head)[:-1]}, "rows": [\n{rows}\n]}}')
    DATA.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")


def main() -> None:
    everything = parts()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.click_ts", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=[*everything], metavar="TABLE", help="some of the tables"
    )
    parser.add_argument("--policies", nargs="+", help="make runs of these policies alone")
    parser.add_argument("--runs", type=int, help="runs on each query (10)")
    parser.add_argument("--threads", type=int, help="how many runs at a time")
    parser.add_argument("--draw", action="store_true", help="only make the page from what was saved")
    options = parser.parse_args()
    if not options.draw:
        results = json.loads(DATA.read_text(encoding="utf-8"))
        for name in options.only or everything:
            part = everything[name]
            part = part._replace(runs=options.runs or part.runs)
            measure(name, part, options.policies or part.policies, options.threads)
            results[name] = gather(part)
            save({name: results[name] for name in everything if name in results})
    draw()


if __name__ == "__main__":
    main()
