"""Users that change at set steps, and clicks that are seen inverted."""

import io
import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.errors import InputError
from clickbandit.experiments.simulate import simulate
from clickbandit.queries import best_list
from clickbandit.randomness import circumstances
from clickbandit.simulation.drift import shuffled
from clickbandit.simulation.run import Problem, Run

PBM = PositionBasedModel(attraction=[0.9, 0.6, 0.5, 0.3, 0.2, 0.1], examination=[1, 0.6, 0.3])
OTHER = PositionBasedModel(attraction=[0.1, 0.2, 0.4, 0.3, 0.7, 0.95], examination=[0.9, 0.7, 0.5])
DEAD = PositionBasedModel(attraction=[0.0] * 6, examination=[1, 0.6, 0.3])
CM = CascadeModel(attraction=[0.5, 0.4, 0.3, 0.2, 0.1, 0.05])
DBN = DynamicBayesianModel(
    attraction=[0.5, 0.4, 0.9, 0.2], satisfaction=[0.9, 0.1, 0.5, 0.3], continuation=0.8
)

# --- drift --------------------------------------------------------------------------------------------------


def lists_of(run: Run, steps: int) -> list[list[int]]:
    """The lists that a run shows, step by step."""
    lists = []
    for _ in range(steps):
        run.advance(1)
        lists.append(run.slots.rankings[0].tolist())
    return lists


@pytest.mark.parametrize("policy", ["random", "optimal"])
@pytest.mark.parametrize("drift", [[300], [1, 300, 999], [(250, OTHER)], [100, (305, OTHER), 700]])
def test_regret_is_that_of_the_users_at_hand(policy: str, drift: list[Any]) -> None:
    """By hand for a policy that does not learn: it shows the same lists whoever looks at them."""
    changes = [change if isinstance(change, int) else change[0] for change in drift]
    run = Run(Problem(policy, PBM, positions=3, horizon=1000, query="q"), seed=5)
    chance = circumstances(5, "q", "PBM", 0)
    assert run.numbering == chance.permutation(6).tolist()
    models = [PBM.with_items(run.numbering)]
    for change in drift:
        order = chance.permutation(6) if isinstance(change, int) else run.numbering
        models.append((PBM if isinstance(change, int) else change[1]).with_items(order))
    expected = []
    for step, ranking in enumerate(lists_of(run, 1000), 1):
        model = models[sum(change < step for change in changes)]
        expected.append(best_list(model, 3)[1] - model.reward(ranking))
    trace = simulate(policy, PBM, positions=3, steps=1000, seed=5, query="q", drift=drift)
    np.testing.assert_allclose(trace.regret[0], np.reshape(expected, (100, 10)).mean(axis=1), atol=1e-12)
    assert max(expected) > 0.1


def test_a_drift_inside_a_window_and_at_its_end() -> None:
    problem = Problem("random", PBM, positions=3, horizon=1000, drift=[15, 40])
    whole, pieces = Run(problem, seed=5), Run(problem, seed=5)
    regret, clicks = whole.advance_windows(np.array([10, 20, 40, 60]))
    for window, sizes in enumerate(([10], [3, 2, 5], [20], [20])):
        parts = [pieces.advance(size) for size in sizes]
        assert regret[window] == pytest.approx(sum(part[0] for part in parts), abs=1e-12)
        assert clicks[window] == sum(part[1] for part in parts)
    assert whole.step == 60


@pytest.mark.parametrize("method", ["step", "leap"])
def test_before_a_drift_nothing_is_different_and_after_it_everything(method: Any) -> None:
    """Users who never click from step 30,001 on: no clicks and no regret, also for a policy that leaps."""
    steps = {"positions": 3, "horizon": 50_000, "method": method}
    ends = np.array([10_000, 30_000])
    calm, run = (
        Run(Problem("batchrank", PBM, **steps, drift=drift), seed=2) for drift in ([], [(30_000, DEAD)])
    )
    for found, expected in zip(run.advance_windows(ends), calm.advance_windows(ends), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert run.advance_windows(np.array([40_000, 50_000]))[1].tolist() == [0, 0]
    assert calm.advance(20_000)[1] > 0
    straight = Run(Problem("batchrank", PBM, **steps, drift=[(30_000, DEAD)]), seed=2)
    regret, clicks = straight.advance_windows(np.array([25_000, 50_000]))
    assert 0 < clicks[1] < clicks[0]
    assert regret[1] < regret[0]


def test_a_policy_that_learns_loses_again_after_a_drift() -> None:
    trace = simulate("pbm-ucb", PBM, positions=3, steps=20_000, runs=3, seed=1, drift=[(10_000, OTHER)])
    before, after = trace.regret[:, 49].mean(), trace.regret[:, 50].mean()
    assert after > 3 * before


@pytest.mark.parametrize("model", [PBM, CM, DBN, MixtureModel([0.4, 0.6], [CM, PBM])])
def test_shuffling_makes_items_change_places(model: ClickModel) -> None:
    """The same problem with other items: in all their parameters, so that the best reward stays."""
    after = shuffled(model, np.random.default_rng(2))
    assert type(after) is type(model)
    assert sorted(after.attraction) == pytest.approx(sorted(model.attraction))
    assert after.attraction != model.attraction
    assert best_list(after, 3)[1] == pytest.approx(best_list(model, 3)[1], abs=1e-12)
    if model is DBN:
        pairs = zip(after.attraction, after.satisfaction, strict=True)  # type: ignore[attr-defined]
        assert set(pairs) == set(zip(DBN.attraction, DBN.satisfaction, strict=True))


def test_all_orders_come_up() -> None:
    """Of the runs of one seed."""
    problem = Problem("random", CascadeModel([0.1, 0.2, 0.3]), positions=1, horizon=10, drift=[5])
    orders = [Run(problem, seed=1, run=run).periods[1].model.attraction for run in range(600)]
    counts = [orders.count(order) for order in itertools.permutations((0.1, 0.2, 0.3))]
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(
    ("drift", "message"),
    [
        ([0], "drift must come after a whole number of steps, 1 or more, found 0"),
        ([1.5], "found 1.5"),
        ([20, 20], "increasing steps, found 20 after 20"),
        ([30, 20], "increasing steps"),
        ([(10, CM)], "users of the same kind, PBM with 6 items, found CM with 6"),
        ([(10, PositionBasedModel([0.1] * 5, [1, 1, 1]))], "found PBM with 5"),
        ([(10, PositionBasedModel([0.1] * 6, [1, 1]))], "3 positions need as many values"),
        ([100], "drift after step 100 leaves nothing to see within 100 steps"),
    ],
)
def test_a_drift_that_cannot_be(drift: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate("random", PBM, positions=3, steps=100, drift=drift)


# --- flip ---------------------------------------------------------------------------------------------------


def law_of_clicks(model: ClickModel, ranking: list[int], flip: float) -> dict[tuple[int, ...], float]:
    """The probability of each click vector as it is seen: by all vectors that it may have been made of."""
    vectors = [*itertools.product((0, 1), repeat=len(ranking))]
    law = dict.fromkeys(vectors, 0.0)
    for own in vectors:
        for seen in vectors:
            inverted = sum(a != b for a, b in zip(own, seen, strict=True))
            chance = flip**inverted * (1 - flip) ** (len(own) - inverted)
            law[seen] += math.exp(model.log_likelihood(ranking, own)) * chance
    return law


@pytest.mark.parametrize("model", [PBM, CM, DBN, MixtureModel([0.4, 0.6], [CM, PBM])])
def test_clicks_are_seen_with_the_exact_law(model: ClickModel) -> None:
    n, flip = 6000, 0.15
    problem = Problem("optimal", model, positions=3, horizon=1000, flip=flip)
    run = Run(problem, seed=3)
    seen = []
    for _ in range(n):
        run.advance(1)
        seen.append(tuple(run.slots.clicks[0].tolist()))
    law = law_of_clicks(model, problem.best_list, flip)
    counts = [seen.count(vector) for vector in law]
    assert stats.chisquare(counts, [n * p for p in law.values()]).pvalue > 1e-3
    without = law_of_clicks(model, problem.best_list, 0.0)
    without = {vector: 0.98 * p + 0.02 / len(law) for vector, p in without.items()}
    assert stats.chisquare(counts, [n * p for p in without.values()]).pvalue < 1e-6


@pytest.mark.parametrize("model", [PBM, CM])
def test_regret_is_by_the_users_own_clicks(model: ClickModel) -> None:
    """A random list's regret does not depend on what is seen; the clicks counted are those seen."""
    options = {"positions": 3, "steps": 20_000, "seed": 4}
    own = simulate("random", model, **options)
    seen = simulate("random", model, flip=0.2, **options)
    np.testing.assert_array_equal(own.regret, seen.regret)
    expected = 0.2 * 3 + (1 - 2 * 0.2) * own.clicks.mean()
    assert seen.clicks.mean() == pytest.approx(expected, abs=4 * math.sqrt(3 / 4 / 20_000) * 2)


def test_no_flip_and_no_drift_are_the_run_without_them() -> None:
    options = {"positions": 3, "steps": 5000, "seed": 4}
    plain = simulate("cascade-kl-ucb", PBM, **options)
    same = simulate("cascade-kl-ucb", PBM, flip=0, drift=[], **options)
    np.testing.assert_array_equal(plain.regret, same.regret)
    np.testing.assert_array_equal(plain.clicks, same.clicks)


def test_policies_learn_what_they_see() -> None:
    """With all clicks inverted the least attractive items look best."""
    trace = simulate("batchrank", PBM, positions=3, steps=100_000, seed=1, flip=1)
    assert set(trace.final_lists[0]) == {3, 4, 5}
    assert trace.regret[0, -1] > 0.5


def test_flips_are_the_same_compiled_and_plain() -> None:
    problem = Problem("batchrank", PBM, positions=3, horizon=20, flip=0.1)
    compiled, plain = Run(problem, seed=1), Run(problem, seed=1)
    plain.loop = problem.make_loop(compiled=False)
    fast, slow = compiled.advance(500), plain.advance(500)
    assert fast == (pytest.approx(slow[0], abs=1e-9), slow[1])


@pytest.mark.parametrize("flip", [-0.1, 1.1, math.nan])
def test_a_share_that_is_none(flip: float) -> None:
    with pytest.raises(InputError, match="flip must be the share of clicks to invert, from 0 to 1"):
        simulate("random", PBM, positions=3, steps=100, flip=flip)


def test_inverted_clicks_are_stepped() -> None:
    problem = {"positions": 3, "horizon": 1_000_000}
    assert Problem("batchrank", PBM, **problem).leaps
    assert not Problem("batchrank", PBM, **problem, flip=0.1).leaps
    with pytest.raises(InputError, match="batchrank cannot leap where clicks are inverted: use method step"):
        Problem("batchrank", PBM, **problem, flip=0.1, method="leap")


# --- both ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"drift": [1000, 1700]},
        {"drift": [1500]},
        {"drift": [1600], "flip": 0.1, "delay": 7},
        {"drift": [(1400, OTHER), 1600], "method": "leap"},
    ],
)
def test_a_saved_run_continues_bit_for_bit(options: Any) -> None:
    """Saved at 1,500 steps: before, at and after a drift."""
    problem = Problem("batchrank", PBM, positions=3, horizon=20, **options)
    whole = Run(problem, seed=7)
    whole.advance(1500)
    file = io.BytesIO()
    np.savez(file, **whole.snapshot())
    expected = whole.advance(1500)
    file.seek(0)
    resumed = Run(problem, seed=7).restore(np.load(file))
    assert resumed.advance(1500) == expected
    for name, value in whole.snapshot().items():
        np.testing.assert_array_equal(resumed.snapshot()[name], value, err_msg=name)


@pytest.mark.parametrize("options", [{"drift": [60]}, {"drift": [(50, OTHER)]}, {"drift": []}, {"flip": 0.2}])
def test_a_snapshot_of_other_users_is_refused(options: Any) -> None:
    ours = {"drift": [50], "flip": 0.1}
    run = Run(Problem("random", PBM, positions=3, horizon=100, **ours))
    run.restore(run.snapshot())
    other = Run(Problem("random", PBM, positions=3, horizon=100, **{**ours, **options}))
    with pytest.raises(InputError, match="another run"):
        run.restore(other.snapshot())
