"""The policies that learn which of two items is better show the lists of their plain twins, step by step."""

import pytest

from naive.side_by_side import MODELS, compare, n_events, pbm

STEPS = 20_000
"""Relations grow slowly: most tests take a part of these."""

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
        ("CM, 7 items", 3, 10, 1, 20, 1000),
        ("PBM, 7 items", 4, 5, 1000, 1000, 1000),
        ("CM, 5 items", 5, 10, 1, 1000, 0),
        ("PBM, 5 items", 5, 10, 1, 1000, 0),
        ("CM, 6 items", 1, 3, 1000, 0, 1000),
        ("PBM, 30 items", 7, 10, 5, 100, 1000),
        ("CM, 30 items", 7, 10, 1, 100, 500),
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


# --- GRAB ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "positions", "leaders", "stays", "swaps", "replacements"),
    [
        ("CM, 7 items", 3, 8, 0, 1000, 500),
        ("PBM, 7 items", 4, 10, 0, 1000, 100),
        ("CM, 5 items", 5, 10, 0, 1000, 0),
        ("PBM, 5 items", 5, 20, 0, 1000, 0),
        ("CM, 6 items", 1, 1, 1000, 0, 30),
        ("PBM, 30 items", 7, 20, 0, 250, 250),
        ("CM, 30 items", 7, 20, 0, 250, 250),
        ("PBM, 1 item", 1, 1, 0, 0, 0),
    ],
)
def test_grab(model: str, positions: int, leaders: int, stays: int, swaps: int, replacements: int) -> None:
    steps = STEPS // 5 if MODELS[model].n_items < 30 else STEPS // 20
    twin = compare("grab", MODELS[model], positions, steps=steps)
    assert len(twin.leaders.times) >= leaders
    assert n_events(twin, "turn") >= 20
    assert n_events(twin, "stay") >= stays
    assert n_events(twin, "swap") >= swaps
    assert n_events(twin, "replace") >= replacements


@pytest.mark.parametrize(
    ("n_items", "positions", "swaps", "replacements"), [(2, 1, 0, 10), (2, 2, 500, 0), (3, 2, 500, 20)]
)
def test_grab_with_few_items(n_items: int, positions: int, swaps: int, replacements: int) -> None:
    """With two items the leader is not played all the time, or nothing would be learned."""
    twin = compare("grab", pbm([0.2, 0.6, 0.4][:n_items]), positions, steps=STEPS // 10)
    assert len(twin.leaders.times) >= 2
    assert n_events(twin, "swap") >= swaps
    assert n_events(twin, "replace") >= replacements


@pytest.mark.parametrize("delay", [1, 50])
def test_grab_with_late_feedback(delay: int) -> None:
    twin = compare("grab", MODELS["PBM, 7 items"], 4, steps=STEPS // 5, delay=delay)
    assert len(twin.leaders.times) >= 10
    assert n_events(twin, "swap") >= 100
    assert n_events(twin, "replace") >= 100


@pytest.mark.parametrize(
    ("attraction", "leaders"), [([0.0] * 6, 1), ([1.0] * 6, 2), ([1.0, 0.0] * 3, 2), ([0.5] * 12, 50)]
)
def test_grab_where_many_assignments_are_equal(attraction: list[float], leaders: int) -> None:
    """Which of them leads is decided by the numbers of the items; the last ones evict one another from the table."""
    twin = compare("grab", pbm(attraction, slope=1.0), 5, steps=1000)
    assert len(twin.leaders.times) >= leaders
    assert twin.leaders.evictions >= leaders - 45


# --- BubbleRank ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "model", "positions", "exchanges", "entries"),
    [
        (":power=1,base=6/5/4/3/2/1", "CM, 7 items", 3, 3, 1),
        (":power=1,base=6/5/4/3/2/1", "PBM, 7 items", 4, 5, 2),
        (":base=6/5/4/3/2/1/0", "PBM, 7 items", 7, 10, 0),
        (":power=0.5", "PBM, 5 items", 5, 3, 0),
        (":power=0.5,base=1/3/5", "CM, 6 items", 1, 0, 1),
        (":power=0.5,base=2/3", "PBM, 30 items", 7, 10, 1),
        ("", "PBM, 1 item", 1, 0, 0),
    ],
)
def test_bubblerank(settings: str, model: str, positions: int, exchanges: int, entries: int) -> None:
    twin = compare("bubblerank" + settings, MODELS[model], positions, steps=STEPS // 2)
    assert n_events(twin, "exchange") >= exchanges
    assert n_events(twin, "entry") >= entries
    assert n_events(twin, "swap") >= (0 if positions == 1 else 100)
    assert n_events(twin, "challenge") >= (0 if positions == MODELS[model].n_items else 100)


@pytest.mark.parametrize("delay", [1, 50, 700])
def test_bubblerank_with_late_feedback(delay: int) -> None:
    """Pairs that are no neighbours any more, or not shown any more, are still learned of."""
    settings = "power=1,base=6/5/4/3/2/1"
    twin = compare(f"bubblerank:{settings}", MODELS["PBM, 7 items"], 4, steps=STEPS // 2, delay=delay)
    assert n_events(twin, "exchange") >= 5
    assert n_events(twin, "entry") >= 2
