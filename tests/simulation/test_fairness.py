"""What all policies of a comparison have in common: users, drift, and chance in how items are numbered."""

import itertools
import types
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pytest
from scipy import stats

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.errors import InputError
from clickbandit.experiments.simulate import simulate
from clickbandit.policies.base import parse_policy
from clickbandit.policies.bubblerank import BubbleRank
from clickbandit.policies.optimal import Optimal
from clickbandit.randomness import generators
from clickbandit.simulation.run import Problem, Run
from clickbandit.testing import check_click_model, policies
from naive.recorded import Recorded

PBM = PositionBasedModel(attraction=[0.9, 0.6, 0.5, 0.3, 0.2, 0.1], examination=[1, 0.6, 0.3])
CM = CascadeModel(attraction=[0.5, 0.4, 0.3, 0.2, 0.1, 0.05])
POLICIES = ("random", "cts", "batchrank:eliminate=false")


def run_of(
    policy: str = "random", seed: int = 1, run: int = 0, query: str = "q", model: Any = PBM, **options: Any
) -> Run:
    return Run(Problem(policy, model, positions=3, horizon=1000, query=query, **options), seed=seed, run=run)


# --- the same users -----------------------------------------------------------------------------------------


def test_policies_meet_the_same_users_and_draw_for_themselves() -> None:
    runs = [run_of(policy) for policy in POLICIES]
    assert len({run.users.random() for run in runs}) == 1
    assert len({run.rng.random() for run in runs}) == 3


@pytest.mark.parametrize("other", [{"seed": 2}, {"run": 1}, {"query": "r"}, {"model": CM}])
def test_users_differ_by_all_else(other: dict[str, Any]) -> None:
    one, two = run_of(drift=[500]), run_of(drift=[500], **other)
    assert one.users.random() != two.users.random()
    assert one.numbering != two.numbering
    assert one.periods[1].model.attraction != two.periods[1].model.attraction


def test_the_streams_of_a_policy_are_as_they_were() -> None:
    """The live ranker has them: a query that is learned again comes to the same lists."""
    rng, _ = generators(7, "shoes", "live", "batchrank", 0)
    assert rng.random() == 0.4560399514319722


# --- numbers of items ---------------------------------------------------------------------------------------


def test_items_are_numbered_by_chance_and_alike_for_all_policies() -> None:
    numberings = [tuple(run_of(policy, run=3).numbering) for policy in POLICIES]
    assert len(set(numberings)) == 1
    small = Problem("random", CascadeModel([0.1, 0.2, 0.3]), positions=1, horizon=10)
    found = [tuple(Run(small, seed=1, run=run).numbering) for run in range(600)]
    counts = [found.count(order) for order in itertools.permutations(range(3))]
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("model", [CM, PBM])
def test_what_a_run_leaves_is_in_the_numbers_of_the_query(model: Any) -> None:
    for policy, steps in (("optimal", 100), ("toprank", 50_000)):
        trace = simulate(policy, Recorded(model), positions=3, steps=steps, runs=3, seed=1)
        assert trace.final_lists == [[0, 1, 2]] * 3
        assert trace.regret[:, -1].max() < 0.01


@pytest.mark.parametrize("policy", ["grab", "ranked-ucb1", "pbm-pie", "bubblerank"])
def test_no_policy_gains_by_the_numbers_of_the_query(policy: str) -> None:
    """Those that show low numbers first: the regret of a first step, whether these are the best items or the worst."""
    backwards = PBM.with_items([5, 4, 3, 2, 1, 0])
    best_first, worst_first = (
        [run_of(policy, run=run, model=Recorded(model)).advance(1)[0] for run in range(300)]
        for model in (PBM, backwards)
    )
    assert np.std(best_first) > 0.1
    assert stats.ks_2samp(best_first, worst_first).pvalue > 1e-3


def test_a_base_list_is_that_of_the_query() -> None:
    """A setting that names items."""
    policy = parse_policy("bubblerank:base=4/2/0")
    run = run_of(str(policy))
    assert run.best() == [4, 2, 0]
    assert run.state.items[:3].tolist() == [run.numbering.index(item) for item in (4, 2, 0)]
    others = {tuple(run_of(str(policy), run=number).state.items[3:]) for number in range(5)}
    assert len(others) > 1
    assert len({tuple(run_of("bubblerank", run=number).best()) for number in range(5)}) == 5


def test_the_check_of_policies_finds_one_that_favours_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """As simulations once were: items have the numbers of the query."""
    problem = Problem("grab", Recorded(PBM), positions=3, horizon=100)
    policies._check_numbers(problem, "grab")
    monkeypatch.setattr(
        "clickbandit.simulation.run.circumstances", lambda *name: types.SimpleNamespace(permutation=np.arange)
    )
    with pytest.raises(AssertionError, match=r"had the items at position 1, but none may be favoured"):
        policies._check_numbers(problem, "grab")


@dataclass(frozen=True)
class Careless(BubbleRank):
    """Has its base list in the numbers of the query."""

    def renumbered(self, number_of: Sequence[int]) -> Self:
        return replace(self, power=self.power + 1)


@pytest.mark.parametrize("policy", [Careless(base="4/2/0"), BubbleRank(base="4/2/0"), Optimal()])
def test_the_check_of_policies_finds_one_that_is_told_the_wrong_items(policy: Any) -> None:
    problem = Problem(policy, Recorded(PBM), positions=3, horizon=100)
    found = nullcontext()
    if isinstance(policy, Careless):
        found = pytest.raises(AssertionError, match="must begin with the same one in all runs")
    with found:
        policies._check_numbers(problem, str(policy))


def test_the_check_of_click_models_finds_one_that_leaves_something_behind() -> None:
    """A field by item that `by_item` does not name."""

    class Broken(DynamicBayesianModel):
        name = "BROKEN"
        by_item = ("attraction",)

    right = DynamicBayesianModel([0.9, 0.5, 0.4], [0.9, 0.1, 0.5], 0.8)
    check_click_model(right)
    with pytest.raises(AssertionError, match="must take along all that is known of an item"):
        check_click_model(Broken(right.attraction, right.satisfaction, 0.8))


# --- drift --------------------------------------------------------------------------------------------------


def test_drift_is_the_same_for_all_policies_and_another_in_each_run() -> None:
    after = [[run_of(policy, run=run, drift=[200, 500]).periods for policy in POLICIES] for run in range(5)]
    for found in after:
        assert len({tuple(period.model.attraction for period in periods) for periods in found}) == 1
    assert len({period.model.attraction for (periods, *_) in after for period in periods}) == 15


def test_users_who_are_told_to_come_are_renumbered_too() -> None:
    other = PBM.with_items([3, 4, 5, 0, 1, 2])
    run = run_of(drift=[(500, other)])
    assert run.periods[1].model == other.with_items(run.numbering)
    assert run.periods[1].best_reward == run.problem.best_reward


# --- runs from before ---------------------------------------------------------------------------------------


def test_a_snapshot_from_before_items_were_renumbered_is_refused() -> None:
    run = run_of()
    snapshot = run.snapshot()
    run.restore(snapshot)
    before = {**snapshot, "identity": np.array(str(snapshot["identity"]).replace('"streams": 2, ', ""))}
    with pytest.raises(InputError, match=r'another run: expected {"streams": 2.*, found {"policy"'):
        run.restore(before)
