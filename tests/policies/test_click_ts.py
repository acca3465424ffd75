"""ClickTS: equal to its plain twin, and sane whatever users do."""

from typing import Any

import numpy as np
import pytest

from clickbandit import (
    CascadeModel,
    InputError,
    PositionBasedModel,
    SimplifiedDynamicBayesianModel,
)
from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.policies.base import parse_policy
from clickbandit.policies.click_ts import fit
from clickbandit.policies.click_ts.describe import describe
from clickbandit.policies.click_ts.items import admit, retire
from clickbandit.simulation.run import Problem, Run
from clickbandit.testing import check_policy
from naive.recorded import Recorded
from policies.click_ts_twin import ALGORITHMS, MODELS, side_by_side

# --- the twin -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "model", "positions", "steps"),
    [
        (":guard=false", "CM", 4, 600),
        ("", "PBM", 4, 600),
        ("", "UBM", 3, 600),
        (":guard=false", "DBN", 4, 600),
        (":memory=200", "PBM", 3, 600),
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


# --- the contract -------------------------------------------------------------------------------------------


def test_goal_clicks_keeps_the_contract() -> None:
    """Small, for as plain Python its search takes long."""
    check_policy(parse_policy("click-ts:goal=clicks,memory=40"), Recorded(MODELS["PBM"]), 2)


def test_memory_is_a_number_of_lists() -> None:
    with pytest.raises(InputError, match=r"click-ts: memory must be 0 or a number of lists, found -1"):
        parse_policy("click-ts:memory=-1")


@pytest.mark.parametrize("n_items", [1, 2, 10, 47, 48, 98, 100, 245, 1000])
@pytest.mark.parametrize("n_positions", [1, 2, 5, 10, 11, 50])
def test_a_state_is_small(n_items: int, n_positions: int) -> None:
    if n_positions <= n_items:
        state = parse_policy("click-ts").start(n_items, n_positions, horizon=1)
        bytes_of = sum(value.nbytes for value in state if isinstance(value, np.ndarray))
        both = bytes_of + state.factor.nbytes  # as large once an item has left
        assert both <= max(10**6, 64 * n_items * n_positions)


# --- whatever users do --------------------------------------------------------------------------------------


def odd_problem(seed: int) -> tuple[Any, int, int, Any, Any]:
    """A policy, numbers of items and positions, attraction and examination, many of them at their limits."""
    chance = np.random.default_rng(seed)
    n_items = int(chance.choice([1, 2, 3, 6, 13, 40]))
    n_positions = int(chance.choice([1, n_items, chance.integers(1, n_items + 1)]))
    n_positions = min(n_positions, 14)
    attraction = [
        np.zeros(n_items),
        np.ones(n_items),
        chance.random(n_items),
        chance.choice([0.0, 1.0, 1e-3, 0.5], n_items),
        10.0 ** chance.uniform(-6, 0, n_items),
    ][chance.integers(5)]
    examination = [
        np.ones(n_positions),
        10.0 ** -np.linspace(0, 6, n_positions),
        10.0 ** chance.uniform(-6, 0, n_positions),
        chance.random(n_positions),
    ][chance.integers(4)]
    goal = "clicks" if n_positions < 7 and chance.random() < 0.5 else "attraction"
    memory = int(chance.choice([0, 1, 30]))
    return (
        parse_policy(f"click-ts:goal={goal},memory={memory}"),
        n_items,
        n_positions,
        attraction,
        examination,
    )


def run_odd_problem(seed: int, steps: int) -> None:
    """Users of the PBM, of the CM, or who click whatever they please; nothing may leave its range."""
    policy, n_items, n_positions, attraction, examination = odd_problem(seed)
    algorithm = ALGORITHMS.add(policy)
    state = policy.start(n_items, n_positions, horizon=steps)
    users, rng = np.random.default_rng(seed + 1), np.random.default_rng(seed)
    random = algorithm.random(rng)
    memo, chances = np.zeros(2), np.zeros(n_positions)
    ranking = np.zeros(n_positions, np.int64)
    for step in range(steps):
        algorithm.serve(state, random, ranking, memo, chances, np.zeros_like(chances))
        assert len(set(ranking.tolist())) == n_positions
        clicks = (users.random(n_positions) < attraction[ranking] * examination).astype(np.int64)
        if seed % 3 == 1:
            clicks[1:] *= np.cumsum(clicks)[:-1] == 0
        elif seed % 3 == 2 and step % 50 > 40:
            clicks[:] = step % 2
        algorithm.learn(state, ranking, clicks, memo)
    for name, value in state._asdict().items():
        assert np.isfinite(value).all(), f"problem {seed}: {name} has {value}"
    assert ((state.x >= -12) & (state.x <= 12)).all()
    assert (state.exposure >= 0).all()
    assert ((state.sample >= 0) & (state.sample <= 1)).all()
    assert (state.attraction > 0).all()
    assert 1e-4 <= state.carry_variance[0] <= 50
    assert (np.diag(state.factor) >= 1e-3).all()


@pytest.mark.parametrize("seeds", [range(0, 20), range(20, 40), range(40, 60)])
def test_nothing_diverges(seeds: range) -> None:
    for seed in seeds:
        run_odd_problem(seed, 150)


def test_estimates_and_draws_are_cut_off() -> None:
    """Where nobody ever clicks, log e goes down to -12; draws stay between -24 and 1, and then all e are lowered by as
    much as the first position is above 0."""
    state = parse_policy("click-ts").start(3, 3, horizon=5)
    state.carried[:] = 1e7
    state.clicks[:] = 1e7
    for _ in range(30):
        interpreted(fit.fit)(state)
    assert state.x.min() == -12
    state.factor[:] = np.diag(np.full(len(state.x), 0.02))
    interpreted(fit.draw)(state, np.random.default_rng(1))
    assert (state.step.min(), state.step.max()) == (-25, 1)
    assert state.look.max() <= np.e
    assert state.look_after.max() <= np.e**2


def test_positions_that_are_drawn_too_high_are_lowered_together() -> None:
    """By 0.3: the second is 0.3 over its estimate, which is over 0; the third 0.2 over 0; carries stay as they are."""
    x = np.array([0.5, 0.2, -2.0, 0.7])
    interpreted(fit.lower_together)(x, np.array([0.2, -0.1, -2.0, 0.7]), 3, 4)
    assert x.tolist() == pytest.approx([0.2, -0.1, -2.3, 0.7])


# --- what it learns -----------------------------------------------------------------------------------------

STEEP = PositionBasedModel(
    attraction=[0.3, 0.9, 0.6, 0.5, 0.4, 0.35, 0.2, 0.1, 0.05, 0.01], examination=[1, 0.7, 0.5, 0.3, 0.2]
)


def regret(policy: str, model: ClickModel, steps: int, seed: int = 1) -> float:
    problem = Problem(parse_policy(policy), Recorded(model), positions=5, horizon=steps)
    return Run(problem, seed=seed).advance(steps)[0]


def learned(policy: str, model: ClickModel, positions: int, steps: int) -> Any:
    """The state after so many lists."""
    run = Run(Problem(parse_policy(policy), Recorded(model), positions=positions, horizon=steps), seed=1)
    run.advance(steps)
    return run.state


def test_positions_are_not_held_against_items() -> None:
    """CTS takes the users of a PBM for those of a cascade, and keeps a wrong order."""
    assert regret("cts", STEEP, 20_000) > 5 * regret("click-ts", STEEP, 20_000)
    assert regret("click-ts", STEEP, 20_000) < 150


def test_users_who_read_from_the_bottom() -> None:
    """What is drawn agrees with what is estimated, also where the first position is examined least."""
    users = PositionBasedModel(attraction=STEEP.attraction, examination=STEEP.examination[::-1])
    run = Run(Problem("click-ts", Recorded(users), positions=5, horizon=20_000), seed=1)
    run.advance(20_000)
    assert run.best() == [1, 2, 3, 4, 5]
    shown = []
    for _ in range(100):
        run.advance(1)
        shown.append([run.numbering[item] for item in run.slots.rankings[0]])
    assert np.mean([ranking[0] == 1 for ranking in shown]) > 0.9


def test_in_the_cascade_model_it_is_as_good_as_cts() -> None:
    cascade = CascadeModel(attraction=STEEP.attraction)
    runs = {
        policy: sum(regret(policy, cascade, 5000, seed) for seed in range(40))
        for policy in ("cts", "click-ts")
    }
    assert runs["click-ts"] < 1.25 * runs["cts"]


def test_goal_clicks_puts_what_satisfies_last() -> None:
    """An item that ends the search for all who click it stands below the others, though it is the most attractive."""
    users = SimplifiedDynamicBayesianModel(attraction=[0.9, 0.8, 0.5, 0.1], satisfaction=[1.0, 0.0, 0.0, 0.0])
    found = {}
    for goal in ("attraction", "clicks"):
        run = Run(
            Problem(parse_policy(f"click-ts:goal={goal}"), Recorded(users), positions=3, horizon=5), seed=1
        )
        run.advance(20_000)
        found[goal] = run.best()
    assert found["attraction"] == [0, 1, 2]
    assert found["clicks"][2] == 0


def test_memory_lets_go_of_old_taste() -> None:
    before = learned("click-ts:memory=500", STEEP, 5, 5000)
    assert before.learned[0] < 600
    assert before.shown.sum() + before.carried.sum() == pytest.approx(5 * before.learned[0])
    assert before.cell_clicks.sum() == pytest.approx(before.clicks.sum())


# --- what it tells ------------------------------------------------------------------------------------------


def test_describe_tells_the_law_of_users() -> None:
    run = Run(Problem("click-ts", Recorded(STEEP), positions=5, horizon=20_000), seed=1)
    run.advance(20_000)
    told, attraction = describe(run.state), run.periods[0].model.attraction
    assert told["users"]["law"] == "position-based"
    assert told["users"]["certainty"] > 0.95
    for known, examined in zip(told["users"]["examination"], STEEP.examination, strict=True):
        assert 0.9 * known["low"] <= examined <= 1.1 * known["high"]
        assert known["high"] - known["low"] < 0.5
    best = run.numbering.index(1)
    assert told["items"][best]["estimate"] == pytest.approx(attraction[best], abs=0.03)
    items = zip(told["items"], attraction, strict=True)
    assert sum(known["low"] <= true <= known["high"] for known, true in items) >= 8
    cascade = describe(learned("click-ts", CascadeModel(attraction=STEEP.attraction), 5, 5000))
    assert cascade["users"]["law"] == "cascade"
    assert cascade["users"]["certainty"] > 0.95


def test_describe_before_anything_was_learned() -> None:
    told = describe(parse_policy("click-ts").start(4, 3, horizon=1))
    assert "law" not in told["users"]
    assert all("estimate" not in known for known in told["items"])
    assert all(known["low"] < 0.1 and known["high"] > 0.9 for known in told["items"])


# --- items that come and go ---------------------------------------------------------------------------------


def refitted(state: Any) -> Any:
    """The state after twenty more fits to the same counts."""
    state = type(state)(*(value.copy() if isinstance(value, np.ndarray) else value for value in state))
    for _ in range(20):
        interpreted(fit.fit)(state)
    return state


@pytest.mark.parametrize("positions", [4, 12])
def test_what_an_item_taught_stays(positions: int) -> None:
    """Without an item the law of positions is what it was, and as sure, but that its carry is taken for known;
    without what it taught it is another."""
    model = MODELS["PBM"] if positions == 4 else MODELS["many"]
    state = refitted(learned("click-ts", model, positions, 3000))
    item = int(state.shown[:, 1].argmax())  # often at one position, which by itself tells nothing of that
    left = refitted(retire(state, item))
    n = len(state.cell_clicks) - 1
    forgotten = refitted(left._replace(gone_slope=np.zeros(0), gone_precision=np.zeros((0, 0))))
    error = spread(state)[:n]
    assert (abs(left.x[:n] - state.x[:n]) < 0.1 * error + 1e-3).all()
    fresh = slice(0, state.n_fresh - 1)
    assert np.allclose(spread(left)[fresh], error[fresh], rtol=0.05)
    assert np.allclose(spread(left)[:n], error, rtol=0.3 if len(state.after) else 0.05)
    assert (abs(forgotten.x[:n] - state.x[:n]) > error).any()


def spread(state: Any) -> Any:
    """The standard error of each parameter."""
    inverse = np.linalg.inv(np.tril(state.factor))
    return np.sqrt((inverse**2).sum(axis=0))


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_what_is_left_is_as_sure_as_before(scale: float) -> None:
    """A carry that is taken for known leaves the precision of the rest, also where one is all but settled by others."""
    state = learned("click-ts", MODELS["PBM"], 4, 500)
    p = len(state.cell_clicks) - 1
    state.factor[p + 1 :, p] *= scale
    state.factor[p, p] *= scale
    before = np.tril(state.factor)
    after = retire(state, 2).factor
    assert (np.diag(after) > 0).all()
    assert np.array_equal(after, np.tril(after))
    expected = np.delete(before, p + 2, axis=0)
    assert np.allclose(after @ after.T, expected @ expected.T, rtol=1e-9)


def test_retired_items_are_gone_from_all_lists() -> None:
    state = learned("click-ts:goal=clicks", MODELS["PBM"], 4, 500)
    shown = state.last.tolist()
    without = retire(state, shown[1])
    assert without.last.tolist() == [-1] * 4
    outside = next(item for item in range(7) if item not in shown)
    assert retire(state, outside).last.tolist() == [item - (item > outside) for item in shown]


def test_new_items_start_from_the_prior() -> None:
    state = learned("click-ts", MODELS["PBM"], 4, 500)
    more = admit(state, 2)
    assert more.clicks[-2:].tolist() == more.exposure[-2:].tolist() == [0, 0]
    assert more.attraction[-2:].tolist() == [0.5, 0.5]
    assert np.allclose(spread(more)[-2:], state.carry_variance[0] ** 0.5)
    assert np.allclose(spread(more)[:-2], spread(state))


def test_with_many_items_cells_share_what_was_counted() -> None:
    """The examination that was learned of a small problem is that of the large one that it becomes."""
    small = refitted(learned("click-ts", MODELS["PBM"], 4, 5000))
    small = refitted(retire(small, 0))
    large = admit(small, 200)
    assert len(large.after) == 0
    assert large.shown.sum() == pytest.approx(small.shown.sum() + small.carried.sum())
    assert large.cell_clicks.sum() == pytest.approx(small.cell_clicks.sum())
    assert np.allclose(large.x[:3], small.x[:3])
    assert np.allclose(refitted(large).x[:3], small.x[:3], atol=0.1)
