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
from clickbandit.randomness import circumstances, generators
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded
from naive.twins import TWINS

STEPS = 8_000

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
    "PBM, 70 items": pbm(many(70)),
    "PBM, 1 item": pbm([0.3]),
}


def in_order(model: ClickModel, *, seed: int = 0) -> tuple[ClickModel, list[int]]:
    """The users whose items the first run of a seed numbers as this model does, and the number of each in the model."""
    numbering = circumstances(seed, "", model.name, 0).permutation(model.n_items).tolist()
    return model.with_items(np.argsort(numbering).tolist()), numbering


def compare(
    policy: str, model: ClickModel, positions: int, *, horizon: int = 1000, steps: int = STEPS, delay: int = 0
) -> Any:
    """Run a policy and its twin side by side; the twin as it is after the last step."""
    settings = parse_policy(policy)
    assert is_compiled(settings.algorithm.rank) or numba.config.DISABLE_JIT
    reordered, numbering = in_order(model, seed=3)
    users, renumbered = Recorded(reordered, steps, positions), settings.renumbered(numbering)
    problem = Problem(renumbered, users, positions=positions, horizon=horizon, delay=delay, method="step")
    run = Run(problem, seed=3)
    run.advance(steps)
    rng, _ = generators(3, "", model.name, str(renumbered), 0)
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    variant = values.pop("variant", "printed")
    name = settings.name + ("" if variant == "printed" else f":variant={variant}")
    knowledge = problem.knowledge(np.argsort(numbering).tolist())
    twin = TWINS[name](model.n_items, positions, horizon=horizon, **{**values, **knowledge})
    outstanding: deque[Any] = deque()
    for step, (shown, clicks) in enumerate(zip(users.shown.tolist(), users.clicked.tolist(), strict=True), 1):
        expected = twin.rank(rng)
        assert shown == expected, f"step {step}: {policy} shows {shown}, its twin {expected}"
        outstanding.append((shown, clicks, getattr(twin, "memo", None)))
        if len(outstanding) > delay:
            twin.update(*outstanding.popleft())
    assert run.rng.random() == rng.random(), f"{policy} and its twin drew differently often"
    return twin


def n_events(twin: Any, kind: str) -> int:
    return sum(event == kind for event, _ in twin.events)
