"""Every compiled policy shows the lists of its plain twin, step by step, on the same random numbers."""

from typing import Any

import numpy as np
import pytest

from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.policies.ranked_exp3 import PAPER_ITEMS, PAPER_POSITIONS
from naive.side_by_side import MODELS, STEPS, cm, compare, n_events
from naive.twins import TWINS


def test_every_policy_has_a_twin() -> None:
    assert {name.partition(":")[0] for name in TWINS} == set(policy_names())


# --- BatchRank ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "model", "positions", "splits", "stages", "eliminations"),
    [
        ("batchrank", "CM, 7 items", 3, 1, 2, 1),
        ("batchrank", "PBM, 7 items", 4, 3, 2, 1),
        ("batchrank", "CM, 5 items", 5, 0, 2, 0),
        ("batchrank", "PBM, 5 items", 5, 1, 3, 0),
        ("batchrank", "PBM, 7 items", 7, 4, 2, 0),
        ("batchrank", "CM, 6 items", 1, 0, 2, 1),
        ("batchrank", "PBM, 30 items", 7, 1, 2, 0),
        ("batchrank", "CM, 30 items", 7, 0, 2, 1),
        ("batchrank", "PBM, 1 item", 1, 0, 3, 0),
        ("batchrank:bounds=hoeffding", "PBM, 7 items", 4, 2, 2, 1),
        ("batchrank:eliminate=false", "CM, 6 items", 3, 1, 2, 0),
        ("batchrank:eliminate=false", "PBM, 7 items", 4, 3, 2, 0),
        ("batchrank:bounds=hoeffding,eliminate=false", "PBM, 6 items", 1, 0, 3, 0),
    ],
)
def test_batchrank(
    policy: str, model: str, positions: int, splits: int, stages: int, eliminations: int
) -> None:
    """With a short horizon stages are short too: the steps go on beyond it, through many of them."""
    twin = compare(policy, MODELS[model], positions, horizon=50)
    assert n_events(twin, "split") >= splits
    assert n_events(twin, "stage") >= stages
    assert n_events(twin, "eliminated") >= eliminations
    assert twin.made == 1 + 2 * n_events(twin, "split")


@pytest.mark.parametrize("delay", [1, 40, 700])
def test_batchrank_with_late_feedback(delay: int) -> None:
    twin = compare("batchrank", MODELS["PBM, 7 items"], 4, horizon=50, delay=delay)
    assert n_events(twin, "split") >= 2
    assert n_events(twin, "eliminated") >= 1


def test_batchrank_within_its_horizon() -> None:
    twin = compare("batchrank", MODELS["PBM, 7 items"], 4, horizon=STEPS)
    assert n_events(twin, "split") >= 2
    assert n_events(twin, "stage") >= 1


@pytest.mark.parametrize("seed", [0, 1])
def test_batchrank_with_lost_and_void_lists(seed: int) -> None:
    """A third of the lists is never seen, the others are learned from after a while and in any order."""
    model = MODELS["PBM, 7 items"]
    policy = parse_policy("batchrank")
    rank, update, void = (policy.algorithm.rank, policy.algorithm.update, policy.algorithm.void)
    state = policy.start(7, 4, horizon=30)
    twin = TWINS["batchrank"](7, 4, horizon=30)
    rng, twin_rng = np.random.default_rng(seed), np.random.default_rng(seed)
    world = np.random.default_rng(seed + 100)
    attraction = np.asarray(model.attraction)
    examination = 0.85 ** np.arange(4)
    waiting: list[Any] = []
    for _ in range(STEPS):
        ranking, memo = np.zeros(4, np.int64), np.zeros(4)
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
    assert n_events(twin, "split") >= 2
    assert n_events(twin, "stage") >= 2
    assert n_events(twin, "eliminated") >= 1


@pytest.mark.parametrize(
    ("settings", "model", "positions", "cuts", "drops", "halvings"),
    [
        ("", "CM, 7 items", 3, 1, 1, 1),
        ("", "PBM, 7 items", 4, 1, 1, 1),
        ("", "CM, 5 items", 5, 1, 0, 3),
        ("", "PBM, 5 items", 5, 1, 0, 3),
        ("", "CM, 6 items", 1, 0, 1, 1),
        ("", "PBM, 30 items", 7, 1, 0, 2),
        ("", "CM, 30 items", 7, 0, 1, 1),
        ("", "PBM, 1 item", 1, 0, 0, 0),
        (",bounds=hoeffding", "PBM, 7 items", 4, 1, 1, 1),
        (",eliminate=false", "CM, 7 items", 3, 1, 0, 1),
        (",eliminate=false", "PBM, 6 items", 2, 1, 0, 1),
    ],
)
def test_batchrank_experiment(
    settings: str, model: str, positions: int, cuts: int, drops: int, halvings: int
) -> None:
    twin = compare(f"batchrank:variant=experiment{settings}", MODELS[model], positions)
    assert n_events(twin, "cut") >= cuts
    assert n_events(twin, "dropped") >= drops
    assert n_events(twin, "halved") >= halvings


@pytest.mark.parametrize("delay", [1, 50])
def test_batchrank_experiment_with_late_feedback(delay: int) -> None:
    twin = compare("batchrank:variant=experiment", MODELS["PBM, 7 items"], 4, delay=delay)
    assert n_events(twin, "cut") >= 1
    assert n_events(twin, "dropped") >= 1


# --- CascadeKL-UCB ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "model", "positions"),
    [
        ("", "CM, 6 items", 3),
        (":feedback=last", "PBM, 5 items", 5),
        (":feedback=full", "PBM, 5 items", 3),
        (":budget=log t", "CM, 5 items", 2),
        (":feedback=last,budget=log t", "PBM, 30 items", 7),
        (":feedback=full,budget=log t", "CM, 5 items", 5),
        (":feedback=first", "CM, 6 items", 1),
        ("", "PBM, 1 item", 1),
    ],
)
def test_cascade_kl_ucb(settings: str, model: str, positions: int) -> None:
    twin = compare("cascade-kl-ucb" + settings, MODELS[model], positions, steps=STEPS // 4)
    assert twin.t == STEPS // 4
    assert positions == 1 or twin.ties > 0


def test_cascade_kl_ucb_with_many_ties() -> None:
    """Items that nobody clicks keep the same bound as soon as they were seen equally often."""
    twin = compare("cascade-kl-ucb:feedback=full", cm([0.0] * 6), 3, steps=STEPS // 4)
    assert twin.ties > STEPS // 16


def test_cascade_kl_ucb_with_late_feedback() -> None:
    twin = compare("cascade-kl-ucb:feedback=last", MODELS["PBM, 5 items"], 3, steps=STEPS // 4, delay=25)
    assert twin.ties > 25


# --- RankedExp3 and the yardsticks --------------------------------------------------------------------------


@pytest.mark.parametrize("mixing", ["", ":mixing=true"])
@pytest.mark.parametrize(
    ("model", "positions", "horizon"),
    [
        ("CM, 7 items", 3, STEPS),
        ("PBM, 5 items", 5, STEPS),
        ("CM, 6 items", 1, STEPS),
        ("PBM, 30 items", 7, STEPS // 4),
        ("PBM, 70 items", 7, STEPS // 16),
        ("PBM, 1 item", 1, STEPS // 4),
        ("PBM, 7 items", 4, 100),
    ],
)
def test_ranked_exp3(mixing: str, model: str, positions: int, horizon: int) -> None:
    """The last case goes far beyond its horizon, where weights leave the range of floats and are scaled anew."""
    steps = 20_000 if horizon == 100 else horizon
    twin = compare("ranked-exp3" + mixing, MODELS[model], positions, horizon=horizon, steps=steps)
    if horizon == 100:
        assert max(max(map(abs, score)) for score in twin.score) > 700


@pytest.mark.parametrize("mixing", ["", ":mixing=true"])
def test_ranked_exp3_at_the_papers_size(mixing: str) -> None:
    """Which has loops of its own; of five positions alone, only learning has."""
    for n_items in (PAPER_ITEMS, PAPER_ITEMS + 1):
        attraction = [k / 12 for k in range(n_items)]
        compare("ranked-exp3" + mixing, cm(attraction), PAPER_POSITIONS, horizon=STEPS, steps=STEPS // 4)


def test_ranked_exp3_with_late_feedback() -> None:
    compare("ranked-exp3", MODELS["PBM, 7 items"], 4, horizon=STEPS, delay=30)


@pytest.mark.parametrize("policy", ["random", "optimal", "given"])
@pytest.mark.parametrize(
    ("model", "positions"), [("CM, 7 items", 3), ("PBM, 5 items", 5), ("PBM, 6 items", 1)]
)
def test_yardsticks(policy: str, model: str, positions: int) -> None:
    compare(policy, MODELS[model], positions, steps=STEPS // 4)
