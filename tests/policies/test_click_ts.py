"""ClickTS: equal to its plain twin, and sane whatever users do."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from clickbandit import (
    CascadeModel,
    DynamicBayesianModel,
    PositionBasedModel,
    UserBrowsingModel,
)
from clickbandit.click_models.base import ClickModel
from clickbandit.live.algorithm import Algorithms
from clickbandit.policies.base import parse_policy
from naive.click_ts import ClickTS as Twin

ALGORITHMS = Algorithms()
"""Compiled as the live ranker does."""
ATTRACTION = [0.5, 0.9, 0.1, 0.4, 0.2, 0.05, 0.7]
MODELS: dict[str, ClickModel] = {
    "CM": CascadeModel(attraction=ATTRACTION),
    "PBM": PositionBasedModel(attraction=ATTRACTION, examination=[1, 0.7, 0.4, 0.2]),
    "UBM": UserBrowsingModel(
        attraction=ATTRACTION, examination=[[1], [0.9, 0.8], [0.5, 0.9, 0.6], [0.3, 0.5, 0.9, 0.4]]
    ),
    "DBN": DynamicBayesianModel(
        attraction=ATTRACTION, satisfaction=[0.9, 0.2, 0.5, 0.1, 0.8, 0.3, 0.6], continuation=0.9
    ),
    "many": PositionBasedModel(
        attraction=np.linspace(0.9, 0.05, 15).tolist(), examination=(0.8 ** np.arange(15)).tolist()
    ),
}


# --- the twin -----------------------------------------------------------------------------------------------


def side_by_side(policy: str, model: ClickModel, positions: int, steps: int, late: bool = False) -> Twin:
    """Run the compiled policy and its twin, with feedback at once or late, in any order and partly lost."""
    settings = parse_policy(policy)
    algorithm = ALGORITHMS.add(settings)
    state = settings.start(model.n_items, positions, horizon=steps)
    twin = Twin(model.n_items, positions, horizon=steps, **asdict(settings))
    rng, twin_rng, users, chance = (np.random.default_rng(seed) for seed in (1, 1, 2, 3))
    waiting: list[Any] = []
    memo, chances = np.zeros(0), np.zeros(positions)
    for step in range(steps):
        ranking = np.full(positions, -1)
        algorithm.serve(state, rng, ranking, memo, chances)
        assert ranking.tolist() == twin.rank(twin_rng), f"step {step}"
        waiting.append(ranking)
        while waiting and (not late or chance.random() < 0.6):
            ranking = waiting.pop(int(chance.random() * len(waiting)))
            if not late or chance.random() < 0.8:
                clicks = model.click(ranking.tolist(), users)
                algorithm.learn(state, ranking, clicks, memo)
                twin.update(ranking.tolist(), clicks.tolist())
    best = np.full(positions, -1)
    algorithm.best(state, best)
    assert best.tolist() == twin.best()
    assert np.allclose(state.x, list(twin.x.values()), rtol=1e-6)
    return twin


@pytest.mark.parametrize(
    ("settings", "model", "positions", "steps"),
    [
        ("", "CM", 4, 1500),
        ("", "PBM", 4, 1500),
        ("", "UBM", 3, 1500),
        ("", "DBN", 4, 1500),
        (":memory=200", "PBM", 3, 1000),
        ("", "many", 12, 300),
        ("", "CM", 1, 300),
        (":goal=clicks", "CM", 4, 400),
        (":goal=clicks", "PBM", 3, 600),
        (":goal=clicks", "UBM", 4, 400),
        (":goal=clicks", "DBN", 4, 400),
        (":goal=clicks,memory=50", "DBN", 3, 300),
    ],
)
def test_twin(settings: str, model: str, positions: int, steps: int) -> None:
    twin = side_by_side("click-ts" + settings, MODELS[model], positions, steps)
    assert twin.fits > 50
    assert twin.draws > twin.fits
    assert twin.moves > 100 or twin.goal == "attraction"
    if twin.memory:
        assert twin.now < 1.1 * twin.memory


@pytest.mark.parametrize("goal", ["attraction", "clicks"])
def test_twin_with_late_and_lost_feedback(goal: str) -> None:
    twin = side_by_side(f"click-ts:goal={goal}", MODELS["DBN"], 3, 500, late=True)
    assert 200 < twin.now < 450
