"""Running a policy and its plain twin side by side, list for list, on the same random numbers."""

from collections import deque
from dataclasses import fields
from typing import Any

import numba
import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import is_compiled
from clickbandit.policies.base import parse_policy
from clickbandit.randomness import generators
from clickbandit.simulation.memory import Slots
from clickbandit.simulation.run import Problem
from naive.twins import TWINS

STEPS = 20_000

EASY = [0.95, 0.1, 0.8, 0.05, 0.6, 0.02, 0.4]
"""Far enough apart that batches split, and lose items, within the steps of these tests."""
CLOSE = [0.5, 0.45, 0.55, 0.2, 0.48]
STEEP = [0.9, 0.03, 0.02, 0.6, 0.01, 0.02]


def cm(attraction: list[float]) -> ClickModel:
    return CascadeModel(attraction=attraction)


def pbm(attraction: list[float], slope: float = 0.85) -> ClickModel:
    return PositionBasedModel(attraction=attraction, examination=[slope**k for k in range(len(attraction))])


def many(n_items: int) -> list[float]:
    """Attractions in no order: a few good items, and many that are not."""
    return [0.95 * 0.6 ** (i * 7 % n_items) for i in range(n_items)]


MODELS = {
    "CM, 7 items": cm(EASY),
    "PBM, 7 items": pbm(EASY),
    "CM, 5 items": cm(CLOSE),
    "PBM, 5 items": pbm(CLOSE),
    "CM, 6 items": cm(STEEP),
    "PBM, 6 items": pbm(STEEP),
    "CM, 30 items": cm([0.6 if i % 4 == 1 and i < 28 else 0.02 for i in range(30)]),
    "PBM, 30 items": pbm(many(30)),
    "PBM, 1 item": pbm([0.3]),
}


def compare(
    policy: str, model: ClickModel, positions: int, *, horizon: int = 1000, steps: int = STEPS, delay: int = 0
) -> Any:
    """Run a policy and its twin side by side; the twin as it is after the last step."""
    settings = parse_policy(policy)
    assert is_compiled(settings.algorithm.rank) or numba.config.DISABLE_JIT
    problem = Problem(settings, model, positions=positions, horizon=horizon, delay=delay, method="step")
    state = problem.start()
    fast_rng, users = generators(3, "", model.name, str(settings), 0)
    rng, _ = generators(3, "", model.name, str(settings), 0)
    rankings, all_clicks = np.zeros((2, delay + 1, positions), np.int64)
    memos = np.zeros((delay + 1, settings.algorithm.memo_size(model.n_items, positions)))
    slots = Slots(rankings, all_clicks, memos, np.zeros(positions))
    sums = (np.zeros(1), np.zeros(1, np.int64))
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    variant = values.pop("variant", "printed")
    name = settings.name + ("" if variant == "printed" else f":variant={variant}")
    twin = TWINS[name](model.n_items, positions, horizon=horizon, **{**values, **problem.knowledge})
    outstanding: deque[Any] = deque()
    for step in range(steps):
        slot = step % (delay + 1)
        window = (step, np.array([step + 1]), *sums)
        problem.loop.interact(state, problem.params, fast_rng, users, slots, problem.best_reward, *window)
        shown, clicks = rankings[slot].tolist(), all_clicks[slot].tolist()
        expected = twin.rank(rng)
        assert shown == expected, f"step {step + 1}: {policy} shows {shown}, its twin {expected}"
        outstanding.append((shown, clicks, twin.memo))
        if len(outstanding) > delay:
            twin.update(*outstanding.popleft())
    assert fast_rng.random() == rng.random(), f"{policy} and its twin drew differently often"
    return twin


def n_events(twin: Any, kind: str) -> int:
    return sum(event == kind for event, _ in twin.events)
