"""ClickTS's guard: its tests are fair, and what they contradict is not shown."""

from typing import Any

import numpy as np
import pytest

from clickbandit import CascadeModel, PositionBasedModel
from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.policies.base import parse_policy
from clickbandit.policies.click_ts import guard
from clickbandit.policies.click_ts.algorithm import best, rank, shrink, update
from clickbandit.policies.click_ts.items import admit, retire
from clickbandit.simulation.run import Problem, Run
from clickbandit.testing import check_policy
from naive.recorded import Recorded
from policies.click_ts_twin import MODELS, side_by_side

GUARDED = parse_policy("click-ts")
USERS = PositionBasedModel(attraction=[0.4, 0.2, 0.1, 0.05], examination=[1, 0.7, 0.4])


def guarded(n_items: int = 6, n_positions: int = 3) -> Any:
    """A state after many lists, in which nothing is known of the items."""
    state = GUARDED.start(n_items, n_positions, horizon=1)
    state.learned[0], state.next_fit[0] = 1e6, np.inf
    interpreted(guard.set_budget)(state)
    return state


# --- the twin -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "model", "positions", "steps", "late", "wins"),
    [
        ("", "CM", 4, 1000, False, 0),
        ("", "PBM", 3, 600, True, 60),
        (":memory=200", "PBM", 4, 1000, False, 60),
        ("", "many", 12, 300, False, 60),
        ("", "CM", 7, 600, True, 0),
    ],
)
def test_twin_with_a_guard(
    settings: str, model: str, positions: int, steps: int, late: bool, wins: float
) -> None:
    """With orders that tests contradict, or none; as many positions as items; tests whose clicks are late."""
    twin = side_by_side("click-ts" + settings, MODELS[model], positions, steps, late, wins)
    assert twin.tests > 10
    assert (twin.obeyed > 100) == (wins > 0)


# --- what a test tells --------------------------------------------------------------------------------------


def users(seed: int) -> ClickModel:
    """Of the paper's class: cascades, and positions that are examined the less the lower they are."""
    chance = np.random.default_rng(seed)
    attraction = chance.choice([0.0, 0.3, 0.3, 0.6, 0.9, 1.0], 6) * chance.choice([1.0, 0.5])
    if seed % 2:
        return CascadeModel(attraction=attraction.tolist())
    return PositionBasedModel(attraction=attraction.tolist(), examination=sorted(chance.random(4))[::-1])


@pytest.mark.parametrize("seed", range(40))
def test_the_more_attractive_item_is_clicked_more(seed: int) -> None:
    """Over both orders of two neighbours, whatever else is in the list, or of the last item and one outside."""
    model, chance = users(seed), np.random.default_rng(seed)
    for _ in range(20):
        items = chance.permutation(6).tolist()
        k = int(chance.integers(4))
        exchanged = [*items[:k], items[k + 1], items[k], *items[k + 2 :]]
        clicks = np.zeros(6)
        for shown in (items[:4], exchanged[:4]):
            clicks[shown] += model.click_probability(shown)
        one, other = items[k], items[k + 1]
        lead = clicks[one] - clicks[other]
        assert lead == pytest.approx(0, abs=1e-12) or np.sign(lead) == np.sign(
            model.attraction[one] - model.attraction[other]
        )
        if model.attraction[one] == model.attraction[other]:
            assert lead == pytest.approx(0, abs=1e-12)


def test_a_coin_decides_who_stands_above() -> None:
    state, rng = guarded(), np.random.default_rng(1)
    above = np.zeros((6, 6), np.int64)
    for _ in range(4000):
        ranking, memo = np.array([3, 1, 4]), np.zeros(2)
        interpreted(guard.begin_test)(state, rng, ranking, memo, 0.0)
        above[ranking[int(memo[0]) - 1], int(memo[1])] += 1
    tested = {(3, 1), (1, 4), (4, 0), (4, 2), (4, 5)}
    assert {(i, j) for i in range(6) for j in range(6) if above[i, j]} == tested | {
        pair[::-1] for pair in tested
    }
    for i, j in tested:
        n = above[i, j] + above[j, i]
        assert n > 100
        assert abs(above[i, j] - above[j, i]) < 4 * np.sqrt(n)


@pytest.mark.parametrize(
    ("ranking", "memo", "clicks", "won"),
    [
        ([3, 1, 4], [1, 1], [1, 0, 1], (3, 1)),
        ([3, 1, 4], [1, 1], [0, 1, 0], (1, 3)),
        ([3, 1, 4], [2, 4], [1, 1, 1], None),
        ([3, 1, 4], [2, 4], [1, 0, 0], None),
        ([3, 1, 4], [3, 0], [0, 1, 1], (4, 0)),
        ([3, 1, 4], [3, 0], [1, 1, 0], None),
        ([3, 1, 4], [0, 0], [1, 0, 0], None),
    ],
)
def test_who_won(
    ranking: list[int], memo: list[float], clicks: list[int], won: tuple[int, int] | None
) -> None:
    state = guarded()
    interpreted(update)(state, np.array(ranking), np.array(clicks), np.array(memo, float))
    expected = np.zeros((6, 6))
    if won:
        expected[won] = 1
    assert state.wins.tolist() == expected.tolist()


# --- what follows from it -----------------------------------------------------------------------------------


def test_neighbours_whose_order_tests_contradict_are_not_shown() -> None:
    """Clicks favour low numbers, but 1 won its tests against 0; and 5, which is outside, those against 1 and then 2."""
    state, rng = guarded(), np.random.default_rng(1)
    state.clicks[:] = [900, 800, 700, 600, 1, 0]
    state.attraction[:] = [0.9, 0.8, 0.7, 0.6, 0.1, 0.1]
    state.shown[:, 0] = 1000
    state.wins[1, 0] = state.wins[5, 1] = 100
    shown, n_tests = np.zeros(3, np.int64), 0
    best(state, shown)
    assert shown.tolist() == [1, 0, 2]
    state.wins[5, 2] = 100
    best(state, shown)
    assert shown.tolist() == [0, 5, 1]
    for _ in range(300):
        memo = np.zeros(2)
        interpreted(rank)(state, rng, shown, memo)
        below = [*shown[1:], *set(range(6)).difference(shown.tolist())]
        pairs = [(shown[min(k, 2)], item) for k, item in enumerate(below)]
        wrong = [pair for pair in pairs if interpreted(guard.contradicted)(state, *pair)]
        assert not wrong or memo[0] > 0
        n_tests += memo[0] > 0
    assert 0 < n_tests < 60


@pytest.mark.parametrize(
    ("won", "lost", "sure"), [(43, 0, False), (44, 0, True), (120, 40, False), (130, 40, True)]
)
def test_how_sure_tests_must_be(won: int, lost: int, sure: bool) -> None:
    """(won - lost)^2 > 2 b (won + lost), b = log t + 3 log log t = 21.7 after a million lists."""
    state = guarded()
    state.wins[0, 1], state.wins[1, 0] = won, lost
    assert bool(interpreted(guard.contradicted)(state, 1, 0)) == sure
    assert not interpreted(guard.contradicted)(state, 0, 1)


@pytest.mark.parametrize(("learned", "budget"), [(0, 0), (1, 0.6931), (19, 6.2873), (999_999, 21.6929)])
def test_the_budget_is_that_of_the_next_list(learned: int, budget: float) -> None:
    """log t + 3 log log t, the second from t = 3 on."""
    state = guarded()
    state.learned[0] = learned
    interpreted(guard.set_budget)(state)
    assert state.budget[0] == pytest.approx(budget, abs=1e-4)


def test_circles_end() -> None:
    state = guarded()
    state.wins[0, 1] = state.wins[1, 2] = state.wins[2, 0] = 100
    shown = np.array([0, 1, 2])
    interpreted(guard.obey)(state, state.sample, shown)
    assert sorted(shown) == [0, 1, 2]


@pytest.mark.parametrize("setting", ["false", "true"])
def test_a_wrong_belief_is_given_up_only_with_a_guard(setting: str) -> None:
    """It begins with clicks of a million lists that these users would never have made."""
    policy = f"click-ts:guard={setting},restart=false"
    run = Run(Problem(policy, Recorded(USERS), positions=3, horizon=10**6), seed=1)
    items = np.argsort(run.numbering)  # by the numbers of the query
    run.state.learned[0] = run.state.next_fit[0] = 1e6
    run.state.shown[items, 0] = 1e6
    run.state.clicks[items] = [1e5, 2e5, 3e4, 1e4]
    run.advance(60_000)
    assert run.best() == ([0, 1, 2] if setting == "true" else [1, 0, 2])


def test_the_memory_of_tests_fades() -> None:
    state = parse_policy("click-ts:memory=1000").start(6, 3, horizon=1)
    state.learned[0] = 4000
    state.wins[1, 2] = 8
    interpreted(shrink)(state, state.memory)
    assert state.wins[1, 2] == 2


# --- settings, items, contract ------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", ["goal=clicks", "goal=clicks,guard=true", "guard=false"])
def test_without_a_guard_there_are_no_tests(settings: str) -> None:
    """The most clicks may take an order that the guard would forbid."""
    assert parse_policy(f"click-ts:{settings}").start(6, 3, horizon=1).wins.shape == (0, 0)


def test_tests_stay_with_their_items() -> None:
    state = guarded()
    state.wins[:] = np.arange(36).reshape(6, 6)
    left = retire(state, 2)
    assert left.wins[2, 3] == state.wins[3, 4]
    assert left.wins.shape == (5, 5)
    more = admit(state, 2)
    assert more.wins.shape == (8, 8)
    assert more.wins[3, 4] == state.wins[3, 4]
    assert not more.wins[6:].any()
    assert admit(state, 195).wins.shape == (0, 0)
    assert GUARDED.start(201, 3, horizon=1).wins.shape == (0, 0)
    many = GUARDED.start(200, 10, horizon=1)
    assert sum(value.nbytes for value in many if isinstance(value, np.ndarray)) <= 10**6


def test_tests_wait_for_their_clicks_while_items_come_and_go() -> None:
    numbers = np.array([0, -1, 1, 2])
    assert guard.renumber(np.array([3.0, 3.0]), numbers, 3).tolist() == [3, 2]
    assert guard.renumber(np.array([3.0, 1.0]), numbers, 3).tolist() == [0, 0]
    assert guard.renumber(np.zeros(2), numbers, 3).tolist() == [0, 0]


def test_a_guard_keeps_the_contract() -> None:
    check_policy(parse_policy("click-ts:memory=40"), Recorded(USERS), 2)
