"""The policies that learn which of two items is better show the lists of their plain twins, step by step."""

import pytest

from naive.side_by_side import MODELS, STEPS, compare, n_events, pbm

# --- TopRank ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "positions", "added", "blocks"),
    [
        ("CM, 7 items", 3, 6, 3),
        ("PBM, 7 items", 4, 10, 4),
        ("CM, 5 items", 5, 1, 2),
        ("PBM, 5 items", 5, 3, 3),
        ("PBM, 7 items", 7, 10, 5),
        ("CM, 6 items", 1, 5, 2),
        ("PBM, 30 items", 7, 50, 5),
        ("CM, 30 items", 7, 20, 2),
        ("PBM, 1 item", 1, 0, 1),
    ],
)
def test_toprank(model: str, positions: int, added: int, blocks: int) -> None:
    twin = compare("toprank", MODELS[model], positions, horizon=100, steps=STEPS // 2)
    assert len(twin.relation) >= added
    assert len(twin.blocks) >= blocks
    assert n_events(twin, "cycle") == 0


@pytest.mark.parametrize("delay", [1, 50, 700])
def test_toprank_with_late_feedback(delay: int) -> None:
    """Lists of before the blocks changed still count, for the pairs that were in one block then."""
    twin = compare("toprank", MODELS["PBM, 7 items"], 4, horizon=100, steps=STEPS // 2, delay=delay)
    assert len(twin.relation) >= 10
    assert len(twin.blocks) >= 4


# --- UniRank ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "positions", "leaders", "stays", "merges", "joins"),
    [
        ("CM, 7 items", 3, 10, 1, 100, 1000),
        ("PBM, 7 items", 4, 5, 1000, 1000, 1000),
        ("CM, 5 items", 5, 10, 1, 1000, 0),
        ("PBM, 5 items", 5, 10, 1, 1000, 0),
        ("CM, 6 items", 1, 3, 1000, 0, 1000),
        ("PBM, 30 items", 7, 10, 5, 100, 1000),
        ("CM, 30 items", 7, 10, 1, 100, 1000),
        ("PBM, 1 item", 1, 1, 1000, 0, 0),
    ],
)
def test_unirank(model: str, positions: int, leaders: int, stays: int, merges: int, joins: int) -> None:
    steps = STEPS // 4 if MODELS[model].n_items < 30 else STEPS // 10
    twin = compare("unirank", MODELS[model], positions, steps=steps)
    assert len(twin.leaders.times) >= leaders
    assert n_events(twin, "leader") >= stays
    assert n_events(twin, "merge") >= merges
    assert n_events(twin, "join") >= joins


@pytest.mark.parametrize("delay", [1, 50])
def test_unirank_with_late_feedback(delay: int) -> None:
    twin = compare("unirank", MODELS["PBM, 7 items"], 4, steps=STEPS // 4, delay=delay)
    assert len(twin.leaders.times) >= 5
    assert n_events(twin, "merge") >= 100
    assert n_events(twin, "join") >= 100


def test_unirank_with_more_leaders_than_its_table_holds() -> None:
    """Among equal items leaders come and go, and evict one another; at times each item is led by another."""
    twin = compare("unirank", pbm([0.5] * 8, slope=1.0), 5, steps=STEPS // 5)
    assert twin.leaders.evictions >= 10
    assert n_events(twin, "cycle") >= 100
