"""The policies that learn which of two items is better show the lists of their plain twins, step by step."""

import pytest

from naive.side_by_side import MODELS, STEPS, compare, n_events

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
