"""ClickTS beside its plain twin, list for list."""

from dataclasses import asdict
from typing import Any

import numpy as np

from clickbandit import CascadeModel, DynamicBayesianModel, PositionBasedModel, UserBrowsingModel
from clickbandit.click_models.base import ClickModel
from clickbandit.live.algorithm import Algorithms
from clickbandit.policies.base import parse_policy
from clickbandit.priors import Prior
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


def side_by_side(
    policy: str,
    model: ClickModel | tuple[ClickModel, ClickModel],
    positions: int,
    steps: int,
    late: bool = False,
    wins: float = 0,
    prior: Prior | None = None,
) -> Twin:
    """Run the compiled policy and its twin, with feedback at once or late, in any order and partly lost.

    `wins`: so many tests were won by each odd item against each even one. Two models are
    the users of the first half and those of the second.
    """
    first, second = model if isinstance(model, tuple) else (model, model)
    settings = parse_policy(policy)
    algorithm = ALGORITHMS.add(settings)
    state = settings.start(first.n_items, positions, horizon=steps, prior=prior)
    twin = Twin(first.n_items, positions, horizon=steps, **asdict(settings), prior=prior)
    if wins:
        state.wins[1::2, ::2] = wins
        twin.wins.update({(i, j): wins for i in twin.items for j in twin.items if i % 2 > j % 2})
    rng, twin_rng, users, chance = (np.random.default_rng(seed) for seed in (1, 1, 2, 3))
    random = algorithm.random(rng)
    waiting: list[Any] = []
    chances = np.zeros(positions)
    for step in range(steps):
        ranking, memo = np.full(positions, -1), np.zeros(2)
        algorithm.serve(state, random, ranking, memo, chances, np.zeros_like(chances))
        assert ranking.tolist() == twin.rank(twin_rng), f"step {step}"
        waiting.append((ranking, memo, twin.memo))
        while waiting and (not late or chance.random() < 0.6):
            ranking, memo, twin_memo = waiting.pop(int(chance.random() * len(waiting)))
            if not late or chance.random() < 0.8:
                clicks = (first if step < steps / 2 else second).click(ranking.tolist(), users)
                algorithm.learn(state, ranking, clicks, memo)
                twin.update(ranking.tolist(), clicks.tolist(), twin_memo)
    best = np.full(positions, -1)
    algorithm.best(state, best)
    assert best.tolist() == twin.best()
    assert np.allclose(state.x, list(twin.x.values()), rtol=1e-6)
    if twin.expectation is not None:
        assert np.allclose(state.weight, twin.expectation.weights, atol=1e-9)
        exceptions = [row.exception for row in twin.expectation.rows[: len(state.slab)]]
        assert np.allclose(state.slab, exceptions, rtol=1e-6, atol=1e-12)
    return twin
