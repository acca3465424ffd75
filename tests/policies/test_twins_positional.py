"""The policies for the position-based model show the lists of their plain twins, on the same random numbers."""

from typing import Any

import numpy as np
import pytest

from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.policies.base import parse_policy
from naive.positional import divergence, likeliest
from naive.side_by_side import CLOSE, EASY, MODELS, compare, n_events
from naive.twins import TWINS

UNORDERED = PositionBasedModel(attraction=EASY, examination=[0.5, 0.9, 0.2, 0.9])
"""Users who look most at the second position, and as much at the fourth."""


def steps_of(model: str) -> int:
    """Fewer where each takes the twin long."""
    return 1500 if MODELS[model].n_items == 30 else 2500


# --- examination known --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "model", "positions"),
    [
        ("", "PBM, 7 items", 3),
        (":epsilon=0.5", "PBM, 5 items", 5),
        ("", "PBM, 6 items", 1),
        ("", "PBM, 30 items", 7),
        ("", "PBM, 1 item", 1),
        (":examination=1/0.8/0.7/0.1", "CM, 7 items", 3),
    ],
)
def test_pbm_ucb(settings: str, model: str, positions: int) -> None:
    twin = compare("pbm-ucb" + settings, MODELS[model], positions, steps=steps_of(model))
    assert model == "PBM, 1 item" or twin.ties > 0


def test_pbm_ucb_with_many_ties() -> None:
    """Items that nobody clicks have the same bound as soon as they were seen equally often at the same positions."""
    twin = compare("pbm-ucb", PositionBasedModel([0.0] * 5, [1.0, 0.9, 0.8]), 3, steps=3000)
    assert twin.ties > 100


@pytest.mark.parametrize(
    ("settings", "model", "positions"),
    [
        ("", "PBM, 7 items", 3),
        ("", "PBM, 5 items", 5),
        ("", "PBM, 6 items", 1),
        ("", "PBM, 30 items", 7),
        ("", "PBM, 1 item", 1),
        (":examination=0.9/0.8/0.7", "CM, 7 items", 3),
    ],
)
def test_pbm_ts(settings: str, model: str, positions: int) -> None:
    twin = compare("pbm-ts" + settings, MODELS[model], positions, steps=steps_of(model) // 2)
    assert positions == 1 or sum(n for tries, n in twin.tries.items() if tries > 1) > 500


def test_pbm_ts_that_runs_out_of_tries() -> None:
    """Users look far more often than the policy is told: attractions above 1 would be the likeliest."""
    told = "pbm-ts:examination=0.3/0.2/0.1"
    twin = compare(told, PositionBasedModel([0.9, 0.8, 0.7, 0.6], [1.0, 1.0, 1.0]), 3, steps=300)
    assert twin.tries[101] > 100


@pytest.mark.parametrize(
    ("settings", "model", "positions", "tried", "not_tried"),
    [
        ("", "PBM, 7 items", 3, 50, 1000),
        (":epsilon=0.5", "PBM, 6 items", 2, 50, 1000),
        ("", "PBM, 5 items", 5, 0, 1000),
        ("", "PBM, 6 items", 1, 20, 1000),
        ("", "PBM, 30 items", 7, 500, 0),
        ("", "PBM, 1 item", 1, 0, 1000),
        (":examination=1/0.8/0.7/0.1", "CM, 7 items", 3, 500, 0),
    ],
)
def test_pbm_pie(settings: str, model: str, positions: int, tried: int, not_tried: int) -> None:
    twin = compare("pbm-pie" + settings, MODELS[model], positions, steps=steps_of(model))
    assert twin.explored >= tried
    assert twin.no_candidates >= not_tried


def test_pbm_pie_with_counts_that_contradict_the_examination() -> None:
    """So much that no attraction is likely."""
    told = "pbm-pie:examination=0.2/0.9/1"
    twin = compare(told, PositionBasedModel([0.9, 0.8, 0.7, 0.1], [1.0, 0.5, 0.2]), 3, steps=2000)
    unlikely = [divergence(cells, likeliest(cells)) > twin.budget for cells in map(twin.counts, twin.items)]
    assert sum(unlikely) >= 2


@pytest.mark.parametrize("policy", ["pbm-ucb", "pbm-ts", "pbm-pie"])
@pytest.mark.parametrize("delay", [0, 1, 60])
def test_an_examination_in_no_order_and_late_feedback(policy: str, delay: int) -> None:
    twin = compare(policy, UNORDERED, 4, steps=1000, delay=delay)
    rng = np.random.default_rng(1)
    last = [twin.rank(rng) for _ in range(20)]
    assert all(ranking[1] == 0 and ranking[3] == 2 for ranking in last)  # most attractive, most examined


# --- the best pair ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "model", "positions", "stages", "rows", "columns"),
    [
        ("rank1elim", "PBM, 7 items", 4, 4, 3, 1),
        ("rank1elim", "PBM, 5 items", 5, 4, 1, 2),
        ("rank1elim", "PBM, 6 items", 1, 3, 3, 0),
        ("rank1elim", "CM, 7 items", 3, 3, 3, 1),
        ("rank1elim", "PBM, 30 items", 7, 3, 10, 1),
        ("rank1elim", "PBM, 1 item", 1, 0, 0, 0),
        ("rank1elim-kl", "PBM, 7 items", 4, 2, 3, 1),
        ("rank1elim-kl", "CM, 5 items", 5, 2, 1, 1),
        ("rank1elim-kl", "PBM, 6 items", 1, 1, 3, 0),
        ("rank1elim-kl", "PBM, 30 items", 7, 2, 10, 1),
        ("rank1elim-kl", "PBM, 1 item", 1, 0, 0, 0),
    ],
)
def test_rank1elim(policy: str, model: str, positions: int, stages: int, rows: int, columns: int) -> None:
    """With a short horizon stages are short too: the steps go on beyond it, through many of them."""
    twin = compare(policy, MODELS[model], positions, horizon=20)
    assert n_events(twin, "stage") >= stages
    assert sum(n for event, n in twin.events if event == "rows") >= rows
    assert sum(n for event, n in twin.events if event == "columns") >= columns


def test_rank1elim_settles() -> None:
    twin = compare("rank1elim", PositionBasedModel([0.1, 1.0, 0.0], [0.1, 1.0]), 2, horizon=20)
    assert twin.settled()
    assert twin.rank(np.random.default_rng(1)) == [0, 1]


@pytest.mark.parametrize("policy", ["rank1elim", "rank1elim-kl"])
@pytest.mark.parametrize("delay", [1, 40, 700])
def test_rank1elim_with_late_feedback(policy: str, delay: int) -> None:
    twin = compare(policy, MODELS["PBM, 7 items"], 4, horizon=20, delay=delay)
    assert n_events(twin, "rows") >= 1
    assert n_events(twin, "stage") >= 2


@pytest.mark.parametrize("policy", ["rank1elim", "rank1elim-kl"])
def test_rank1elim_with_lost_and_void_lists(policy: str) -> None:
    """A third of the lists is never seen, the others are learned from after a while and in any order."""
    parsed = parse_policy(policy)
    rank, update, void = (parsed.algorithm.rank, parsed.algorithm.update, parsed.algorithm.void)
    state, twin = parsed.start(7, 4, horizon=10), TWINS[policy](7, 4, horizon=10)
    rng, twin_rng, world = (np.random.default_rng(seed) for seed in (1, 1, 2))
    attraction, examination = np.array(EASY), 0.85 ** np.arange(4)
    waiting: list[Any] = []
    for _ in range(10_000):
        ranking, memo = np.zeros(4, np.int64), np.zeros(3)
        rank(state, rng, ranking, memo)
        assert ranking.tolist() == twin.rank(twin_rng)
        waiting.append((ranking, memo, twin.memo))
        while len(waiting) > world.integers(0, 30):
            ranking, memo, twin_memo = waiting.pop(world.integers(len(waiting)))
            if world.random() < 1 / 3:
                void(state, ranking, memo)
                twin.void(ranking.tolist(), twin_memo)
            else:
                clicks = (world.random(4) < attraction[ranking] * examination).astype(np.int64)
                update(state, ranking, clicks, memo)
                twin.update(ranking.tolist(), clicks.tolist(), twin_memo)
    assert n_events(twin, "rows") >= 1
    assert n_events(twin, "stage") >= 2


@pytest.mark.parametrize("policy", ["pbm-ucb", "pbm-ts", "pbm-pie", "rank1elim", "rank1elim-kl"])
def test_many_items_and_positions(policy: str) -> None:
    """As many as the library promises, with items that differ little."""
    attraction = [CLOSE[i % 5] * (1 - i / 2000) for i in range(1000)]
    model = PositionBasedModel(attraction, [0.97**k for k in range(50)])
    compare(policy, model, 50, steps=20 if policy.startswith("pbm") else 200)
