"""Simulation: nanoseconds a step, leaps over ten million steps, threads, memory; `starting` has what comes before.

On the real queries of the shared folder where it is there (CLICKBANDIT_SHARED, or ../shared), else on the example's:
ten items, five positions. Beside each policy stand the figures of the paper's authors' code on a server core, and
the plain Python twin of the tests in the same run.
"""

import hashlib
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Rows, Table
from benchmarks.live import resident
from benchmarks.starting import calls, commands, first_use
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.errors import InputError
from clickbandit.experiments.simulate import Task, simulate_all
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.progress import progress_bar
from clickbandit.queries import Query, load_queries
from clickbandit.simulation.run import Problem, Run, missing_knowledge

PROJECT = Path(__file__).parents[1]
AUTHORS = {"batchrank": 43_000, "cascade-kl-ucb": 10_000, "ranked-exp3": 50_000}
"""Nanoseconds a step of the code behind the paper's figures."""
WANTED = {"batchrank": 70, "cascade-kl-ucb": 250, "ranked-exp3": 90, "cts": 3000, "pbm-ts": 3000}
"""Nanoseconds a step that are wanted at most; of the others, 1000."""
POLICIES = [*policy_names(), "batchrank:variant=experiment"]
SIZES = ((10, 5), (100, 10), (1000, 50))
"""Items and positions of larger problems."""
ORDERS: dict[str, Callable[[int, int], float]] = {
    "K": lambda items, positions: positions,
    "L": lambda items, positions: items,
    "K L": lambda items, positions: positions * items,
    "L log L": lambda items, positions: items * math.log(items),
    "L²": lambda items, positions: items**2,
    "K² L": lambda items, positions: positions**2 * items,
}
"""How much work a step may be, by the number of items and of positions."""
ALLOWED = {
    "batchrank": "L",
    "bubblerank": "L",
    "grab": "K² L",
    "optimal": "K",
    "pbm-pie": "K L",
    "pbm-ts": "K L",
    "pbm-ucb": "L log L",
    "random": "K",
    "rank1elim": "L",
    "rank1elim-kl": "L",
    "ranked-exp3": "K L",
    "ranked-kl-ucb": "K L",
    "ranked-ucb1": "K L",
    "toprank": "L²",
    "unirank": "L²",
}
"""What a policy's paper says to do in a step: of cascading bandits and PBM-UCB an index for each item and their order;
of ranked ones an index for each item and position; of PBM-PIE and PBM-TS a likelihood of each item, over all positions
(PBM-TS up to a hundred times); of TopRank and UniRank an index for each pair; of GRAB an assignment; of the others a
list, and now and then a test of each item."""
STEPPED = ("cascade-kl-ucb", "ranked-exp3")
"""Those of the paper's policies that do not show batches."""
BY_MARGIN = {"CM": 25, "PBM": 80}
"""Nanoseconds a step of CascadeKL-UCB by leaps that are wanted at most, mean over the queries."""
POSITIONS = 5
PAPER = {"queries": 60, "models": 2, "runs": 10, "steps": 10_000_000}


def main(quick: bool) -> Iterator[Table]:
    queries = load_queries(queries_file())[: 3 if quick else 10]
    yield (stepped := steps(queries, 100_000 if quick else 400_000, 3 if quick else 6))
    yield (leapt := leaps(queries, 5 if quick else 30))
    yield (by_margin := leaps_by_margin(queries, 1 if quick else 4))
    yield paper(stepped.rows, leapt.rows, by_margin.rows)
    yield growth(100_000 if quick else 2_000_000)
    yield commands()
    yield first_use()
    yield calls(queries, 5 if quick else 60)
    yield threads(queries[0], 100_000 if quick else 500_000, 3 if quick else 15)
    yield memory(queries[0], 200_000 if quick else 1_000_000)


def queries_file() -> Path:
    shared = (
        Path(os.environ.get("CLICKBANDIT_SHARED", PROJECT / ".." / "shared")) / "queries" / "yandex-10.json"
    )
    return shared if shared.exists() else PROJECT / "examples" / "queries.json"


def best_of(times: int, measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(times))


def problem(policy: str, query: Query, model: str, horizon: int, method: Any = "auto") -> Problem:
    return Problem(
        parse_policy(policy), query.model(model), positions=POSITIONS, horizon=horizon, method=method
    )


# --- step by step -------------------------------------------------------------------------------------------


def steps(queries: list[Query], n: int, repeats: int) -> Table:
    """Nanoseconds a step over the first n, median over queries; and the same of the twin in plain Python.

    Each ten thousand steps count as in the best of several runs that take the same steps. These runs are as far apart
    in time as can be, since other work on the machine slows down all that is measured in the same minute.
    """
    problems = {
        (policy, model, query.query): problem(policy, query, model, 1_000_000, "step")
        for policy in POLICIES
        for model in ("CM", "PBM")
        for query in queries
        if not missing_knowledge(parse_policy(policy), query.model(model))
    }
    best = {name: np.full(n // 10_000, np.inf) for name in problems}
    with progress_bar(repeats * len(best) * n, "step by step") as advance:
        for _ in range(repeats):
            for name, parts in best.items():
                np.minimum(parts, step_times(problems[name], len(parts)), out=parts)
                advance(n)
    rows = []
    for policy in POLICIES:
        row: dict[str, Any] = {"policy": policy}
        for model in ("CM", "PBM"):
            times = [best[policy, model, q.query].mean() for q in queries if (policy, model, q.query) in best]
            row[f"{model} ns/step"] = round(statistics.median(times)) if times else "-"
        row["wanted at most"] = WANTED.get(policy, 1000)
        plain = twin_time(policy, queries[0])
        row["times the plain twin"] = f"{plain / row['PBM ns/step']:,.0f}"
        authors = AUTHORS.get(policy.partition(":")[0])
        row["times the authors' code"] = f"{authors / row['PBM ns/step']:,.0f}" if authors else "-"
        rows.append(row)
    return Table("Step by step, on one core", rows)


def step_times(users: Problem, parts: int) -> list[float]:
    """Nanoseconds a step, for each ten thousand steps of a run after the first thousand."""
    run = Run(users, seed=1)
    run.advance(1000)
    times = []
    for _ in range(parts):
        started = time.thread_time()
        run.advance(10_000)
        times.append((time.thread_time() - started) / 10_000 * 1e9)
    return times


def growth(n: int) -> Table:
    """Nanoseconds a step with more items and positions, over n / L steps, and how much the paper lets them grow."""
    rng = np.random.default_rng(0)
    users = {
        size: PositionBasedModel(rng.uniform(0.01, 0.5, size[0]), 1 / np.arange(1, size[1] + 1) ** 0.5)
        for size in SIZES
    }
    rows = []
    for policy in POLICIES:
        times = {size: step_time(policy, model, n) for size, model in users.items()}
        first, last = times[SIZES[0]], times[SIZES[-1]]
        order = ALLOWED.get(policy.partition(":")[0], "L log L")
        allowed = ORDERS[order](*SIZES[-1]) / ORDERS[order](*SIZES[0])
        rows.append(
            {
                "policy": policy,
                **{f"L={items}, K={positions}": times[items, positions] for items, positions in SIZES},
                "times": "-" if last == "-" else f"{last / first:,.0f}",
                "allowed": f"{allowed:,.0f}",
                "a step is": order,
            }
        )
    return Table("Nanoseconds a step with more items and positions, in the PBM", rows)


def step_time(policy: str, model: PositionBasedModel, n: int) -> Any:
    """Nanoseconds a step, unless the policy takes no problem of that size."""
    n_items, positions = len(model.attraction), len(model.examination)
    try:
        run = Run(Problem(policy, model, positions=positions, horizon=10**6, method="step"), seed=1)
        run.advance(2 * n_items)  # past the first look at each item
    except InputError:
        return "-"
    count = max(n // n_items, 1000)
    started = time.thread_time()
    run.advance(count)
    return round((time.thread_time() - started) / count * 1e9)


def twin_time(policy: str, query: Query, n: int = 2000) -> float:
    """Nanoseconds a step of the naive policy with naive users of a PBM."""
    sys.path.insert(0, str(PROJECT / "tests"))
    from naive.twins import TWINS

    users = problem(policy, query, "PBM", 1_000_000)
    model: Any = users.model
    twin = TWINS[policy](
        len(model.attraction),
        POSITIONS,
        horizon=users.horizon,
        **users.knowledge(range(len(model.attraction))),
    )
    rng = np.random.default_rng(1)
    started = time.thread_time()
    for _ in range(n):
        ranking = twin.rank(rng)
        clicks = [
            int(rng.random() < examined * model.attraction[item])
            for examined, item in zip(model.examination, ranking, strict=False)
        ]
        twin.update(ranking, clicks)
    return (time.thread_time() - started) / n * 1e9


# --- by leaps -----------------------------------------------------------------------------------------------


def leaps(queries: list[Query], repeats: int) -> Table:
    """Milliseconds for ten million steps in a running process, best of several for each query, apart as in `steps`."""
    ends = np.arange(1, 101) * (PAPER["steps"] // 100)
    wanted = {"batchrank": "0.5", "batchrank:variant=experiment": "5", "toprank": "-"}
    best = {(policy, model): [math.inf] * len(queries) for policy in wanted for model in ("CM", "PBM")}
    for _ in range(repeats):
        for (policy, model), times in best.items():
            for i, query in enumerate(queries):
                times[i] = min(times[i], leap_time(policy, query, model, ends))
    rows = [
        {
            "policy": policy,
            "model": model,
            "median ms": round(statistics.median(times), 2),
            "worst ms": round(max(times), 2),
            "wanted at most": wanted[policy],
            "ns/step": f"{statistics.median(times) / 10:.3f}",
        }
        for (policy, model), times in best.items()
    ]
    return Table("Ten million steps by leaps, in a running process, over the queries", rows)


def leaps_by_margin(queries: list[Query], repeats: int) -> Table:
    """Nanoseconds a step over ten million of CascadeKL-UCB, by leaps and one by one, best of several for each query."""
    ends = np.arange(1, 101) * (PAPER["steps"] // 100)
    rows = []
    for model, wanted in BY_MARGIN.items():
        best = {
            method: [
                best_of(times, lambda: leap_time("cascade-kl-ucb", query, model, ends, method) / 10)  # noqa: B023
                for query in queries
            ]
            for method, times in (("auto", repeats), ("step", 1))
        }
        rows.append(
            {
                "policy": "cascade-kl-ucb",
                "model": model,
                "mean ns/step": round(statistics.mean(best["auto"]), 1),
                "worst": round(max(best["auto"]), 1),
                "wanted at most": wanted,
                "one by one": round(statistics.mean(best["step"]), 1),
            }
        )
    return Table("Ten million steps by leaps where the list stays the same, over the queries", rows)


def leap_time(policy: str, query: Query, model: str, ends: Any, method: str = "auto") -> float:
    run = Run(problem(policy, query, model, int(ends[-1]), method), seed=1)
    run.advance(0)
    started = time.thread_time()
    run.advance_windows(ends)
    return (time.thread_time() - started) * 1e3


# --- threads, memory ----------------------------------------------------------------------------------------


def threads(query: Query, n: int, turns: int) -> Table:
    """How much faster eight runs are on two threads than on one, and eight hashes: what the machine can give.

    The median over turns in which each is measured on one thread and at once on two.
    """

    def simulating(policy: str) -> Callable[[int], object]:
        task = Task(policy, problem(policy, query, "PBM", n, "step"))
        return lambda count: simulate_all([task], steps=n, runs=8, seed=1, threads=count)

    def hashing(count: int) -> None:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(hashlib.sha256, [bytes(100 * n)] * 8))

    def seconds(work: Callable[[int], object], count: int) -> float:
        started = time.perf_counter()
        work(count)
        return time.perf_counter() - started

    works = {name: simulating(name) for name in ("batchrank", *STEPPED)} | {"SHA-256": hashing}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in works.items():
            one_and_two = seconds(work, 1), seconds(work, 2)
            if turn > 0:  # nothing is compiled any more
                times[name].append(one_and_two)
    rows = [
        {
            "work": name,
            "one thread s": round(statistics.median(one for one, _ in found), 2),
            "two s": round(statistics.median(two for _, two in found), 2),
            "times": round(statistics.median(one / two for one, two in found), 2),
        }
        for name, found in times.items()
    ]
    return Table("Eight runs on threads (wanted: 1.8 times on two cores), and eight hashes", rows)


def memory(query: Query, n: int) -> Table:
    """By how much the process grows, of what it has in memory, over ten times as many steps."""
    rows = []
    for policy in ("batchrank", *STEPPED):
        run = Run(problem(policy, query, "PBM", 10 * n, "step"), seed=1)
        run.advance(n)
        before = resident(os.getpid())
        run.advance(9 * n)
        grown = (resident(os.getpid()) - before) // 1024
        rows.append({"policy": policy, "steps": f"{n:,} to {10 * n:,}", "grown KiB": grown})
    return Table("Memory does not grow with the steps", rows)


def paper(stepped: Rows, leapt: Rows, by_margin: Rows) -> Table:
    """The paper's experiment on two cores, from the figures above."""
    ns = {
        row["policy"]: (row["CM ns/step"] + row["PBM ns/step"]) / 2
        for row in stepped
        if row["policy"] in STEPPED
    }
    ns["cascade-kl-ucb"] = statistics.mean(row["mean ns/step"] for row in by_margin)
    runs = PAPER["queries"] * PAPER["models"] * PAPER["runs"]
    leap = statistics.mean(row["median ms"] for row in leapt if row["policy"] == "batchrank")
    rows = [
        {"policy": "batchrank, by leaps", "seconds on two cores": round(runs * leap / 1e3 / 2, 2)},
        *(
            {"policy": policy, "seconds on two cores": round(runs * PAPER["steps"] * ns[policy] / 1e9 / 2)}
            for policy in ns
        ),
    ]
    total = sum(row["seconds on two cores"] for row in rows)
    rows.append({"policy": "all (wanted: 15 minutes)", "seconds on two cores": round(total)})
    return Table("The paper's experiment, 60 queries, 2 models, 10 runs of 10M steps, projected", rows)
