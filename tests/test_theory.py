"""The checks of the paper's assumptions agree with going through their definitions, and so do counterexamples."""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clickbandit import theory
from clickbandit.click_models import pbm
from clickbandit.click_models.base import ClickModel, model_names
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dcm import DependentClickModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.ubm import UserBrowsingModel
from clickbandit.compiling.kernel import is_compiled, kernel
from clickbandit.errors import InputError
from clickbandit.queries import best_list, load_queries
from clickbandit.theory import AssumptionFinding, check_assumptions, regret_bound
from strategies import models, probability, small_models


@st.composite
def mixtures(draw: st.DrawFn) -> MixtureModel:
    n = draw(st.integers(1, 5))
    first, second = draw(models("CM", n, n)), draw(models("PBM", n, n))
    share = draw(probability)
    return MixtureModel([share, 1 - share], [first, second])


every_model = pytest.mark.parametrize(
    "strategy", [*(small_models(name) for name in model_names()), mixtures()], ids=[*model_names(), "CM+PBM"]
)


def excess_by_definition(model: ClickModel, n_positions: int) -> dict[int, float]:
    """By how much each assumption is broken at most, straight from the paper's section 3."""
    lists = list(itertools.permutations(range(model.n_items), n_positions))
    clicked = {shown: model.click_probability(shown).tolist() for shown in lists}
    examined = {shown: model.examination_probability(shown).tolist() for shown in lists}
    best = tuple(best_list(model, n_positions)[0])
    excess: dict[int, float] = defaultdict(float)
    alike = defaultdict(list)
    for shown in lists:
        for j in range(n_positions):
            attraction = model.attraction[shown[j]]
            excess[2] = max(excess[2], abs(clicked[shown][j] - examined[shown][j] * attraction))
            alike[j, shown[j], frozenset(shown[:j])].append(examined[shown][j])
            excess[6] = max(excess[6], examined[best][j] - examined[shown][j])
            for i in range(j):
                excess[4] = max(excess[4], examined[shown][j] - examined[shown][i])
                if model.attraction[shown[i]] <= attraction:
                    other = list(shown)
                    other[i], other[j] = shown[j], shown[i]
                    excess[5] = max(excess[5], examined[tuple(other)][j] - examined[shown][j])
    excess[3] = max(max(values) - min(values) for values in alike.values())
    return excess


def assert_breaks(model: ClickModel, finding: AssumptionFinding) -> None:
    """The lists of a finding break the assumption, and its sentence has the two numbers that do."""
    assert finding.position is not None
    k = finding.position - 1
    first, last = finding.lists[0], finding.lists[-1]
    mine, other = model.examination_probability(first)[k], model.examination_probability(last)[k]
    match finding.assumption:
        case 2:
            assert len(finding.lists) == 1
            other = mine * model.attraction[first[k]]
            mine = model.click_probability(first)[k]
            assert abs(mine - other) > 1e-9
        case 3:
            assert first[k] == last[k]
            assert set(first[:k]) == set(last[:k])
            assert abs(mine - other) > 1e-9
        case 4:
            assert len(finding.lists) == 1
            other = min(model.examination_probability(first)[:k])
            assert mine > other + 1e-9
        case 5:
            (i,) = [i for i in range(k) if first[i] != last[i]]
            exchanged = list(first)
            exchanged[i], exchanged[k] = first[k], first[i]
            assert list(last) == exchanged
            assert model.attraction[first[i]] <= model.attraction[first[k]]
            assert other > mine + 1e-9
        case 6:
            assert mine < other - 1e-9
    told = re.findall(r"(?:probability|with|is) (\d[\d.e-]*)", finding.explanation)
    assert [float(number) for number in told] == pytest.approx([mine, other], rel=1e-3)
    assert told[0] != told[1]
    assert str(list(first)) in finding.explanation
    assert str(list(last)) in finding.explanation


# --- all lists ----------------------------------------------------------------------------------------------


@every_model
@given(data=st.data())
@settings(max_examples=30)
def test_findings_are_those_of_the_definitions(
    strategy: st.SearchStrategy[ClickModel], data: st.DataObject
) -> None:
    model = data.draw(strategy)
    n_positions = data.draw(st.integers(1, min(model.n_items, 4)))
    findings = check_assumptions(model, n_positions)
    assert [finding.assumption for finding in findings] == [1, 2, 3, 4, 5, 6]
    excess = excess_by_definition(model, n_positions)
    for finding in findings[1:]:
        assert finding.exhaustive
        assert finding.holds == (finding.lists == ()) == (finding.position is None)
        if excess[finding.assumption] > 1e-8:  # in between it is a matter of rounding
            assert not finding.holds
            assert_breaks(model, finding)
        elif excess[finding.assumption] < 1e-10:
            assert finding.holds
            assert finding.explanation == f"true of all {math.perm(model.n_items, n_positions):,} lists"


@given(model=small_models("CM"))
def test_the_cascade_model_keeps_all_assumptions(model: ClickModel) -> None:
    assert all(finding.holds for finding in check_assumptions(model, model.n_items))


@given(model=small_models("PBM"))
def test_the_position_based_model_keeps_all_but_that_examination_decreases(model: Any) -> None:
    falling = sorted(model.examination, reverse=True)
    findings = check_assumptions(PositionBasedModel(model.attraction, falling), model.n_items)
    assert all(finding.holds for finding in findings)

    assume(max(b - a for a, b in itertools.pairwise([1, *model.examination])) > 1e-8)
    findings = check_assumptions(model, model.n_items)
    assert [finding.assumption for finding in findings if not finding.holds] == [4]
    assert_breaks(model, findings[3])


def test_the_clearest_counterexample_is_shown() -> None:
    model = PositionBasedModel([0.5, 0.4, 0.3, 0.2], examination=[0.6, 0.7, 0.5, 0.8])
    finding = check_assumptions(model, 4)[3]
    assert (finding.name, finding.position) == ("decreasing examination", 4)
    assert finding.explanation == (
        "position 4 of list [0, 1, 2, 3] is examined with probability 0.8, more than a position above it with 0.5"
    )


def test_numbers_that_are_nearly_the_same_can_be_told_apart() -> None:
    finding = check_assumptions(PositionBasedModel([0.5, 0.4], examination=[0.6, 0.6000001]), 2)[3]
    assert "probability 0.6000001, more than a position above it with 0.6" in finding.explanation


def test_rounding_breaks_nothing() -> None:
    findings = check_assumptions(PositionBasedModel([0.5, 0.4], examination=[0.6, 0.6 + 1e-10]), 2)
    assert all(finding.holds for finding in findings)


def with_law(click_probability: Any, examination_probability: Any) -> ClickModel:
    """A model of one's own, with parameters as in the PBM."""
    law = {"click_probability": click_probability, "examination_probability": examination_probability}

    class Own(PositionBasedModel):
        functions = replace(PositionBasedModel.functions, **law)

        def best_list(self, n_positions: int) -> Any:
            return None

    return Own(attraction=[0.9, 0.5, 0.2, 0.1], examination=[1, 0.6, 0.3])


@kernel
def peeking_examination(params: Any, ranking: Any, out: Any) -> None:
    """Users who see the last item first, and look less at the rest if it is attractive."""
    for k in range(len(ranking)):
        out[k] = params.examination[k]
    out[0] *= 1 - params.attraction[ranking[len(ranking) - 1]]


@kernel
def peeking_clicks(params: Any, ranking: Any, out: Any) -> None:
    for k in range(len(ranking)):
        out[k] = params.examination[k] * params.attraction[ranking[k]]
    out[0] *= 1 - params.attraction[ranking[len(ranking) - 1]]


def test_examination_must_not_depend_on_items_further_down() -> None:
    model = with_law(peeking_clicks, peeking_examination)
    findings = check_assumptions(model, 3)
    assert findings[1].holds
    assert not findings[2].holds
    assert findings[2].position == 1
    assert_breaks(model, findings[2])


@kernel
def trusting_clicks(params: Any, ranking: Any, out: Any) -> None:
    for k in range(len(ranking)):
        out[k] = params.examination[k] * params.attraction[ranking[k]]
    out[0] = params.examination[0] * params.attraction[ranking[0]] ** 0.5


def test_clicks_that_are_not_examination_times_attraction_are_found() -> None:
    model = with_law(trusting_clicks, pbm.examination_probability)
    findings = check_assumptions(model, 3)
    assert [finding.assumption for finding in findings if not finding.holds] == [2]
    assert findings[1].position == 1
    assert_breaks(model, findings[1])


# --- mixtures, and what only they can break -----------------------------------------------------------------


def independent_by_definition(model: MixtureModel) -> float:
    """By how much the law of what attracts a user differs at most from independent draws, over all outcomes."""
    kinds = list(zip(model.shares, model.models, strict=True))
    worst = 0.0
    for outcome in itertools.product([0, 1], repeat=model.n_items):

        def chance(attraction: Sequence[float], outcome: Sequence[int] = outcome) -> float:
            return math.prod(a if drawn else 1 - a for a, drawn in zip(attraction, outcome, strict=True))

        together = sum(share * chance(kind.attraction) for share, kind in kinds)
        worst = max(worst, abs(together - chance(model.attraction)))
    return worst


@given(model=mixtures())
def test_attraction_is_independent_where_the_kinds_of_users_leave_it_so(model: MixtureModel) -> None:
    finding = check_assumptions(model, 1)[0]
    worst = independent_by_definition(model)
    if worst > 1e-6:
        assert not finding.holds
    elif worst < 1e-10:
        assert finding.holds


@pytest.mark.parametrize(
    ("kinds", "items"),
    [
        ([[0.9, 0.5, 0.3], [0.9, 0.5, 0.3], [0.9, 0.5, 0.3], [0.9, 0.5, 0.3]], None),
        ([[0.9, 0.5, 0.3], [0.1, 0.5, 0.3], [0.2, 0.5, 0.3], [0.3, 0.5, 0.3]], None),  # of one item only
        ([[0.9, 0.5, 0.3], [0.9, 0.5, 0.3], [0.9, 0.4, 0.1], [0.9, 0.5, 0.3]], "1, 2"),
        ([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], "0, 1, 2"),  # any two are independent
    ],
)
def test_kinds_of_users_may_tie_items_together(kinds: list[list[float]], items: str | None) -> None:
    model = MixtureModel([0.25] * 4, [CascadeModel(kind) for kind in kinds])
    finding = check_assumptions(model, 1)[0]
    assert finding.holds == (items is None) == (independent_by_definition(model) < 1e-9)
    assert finding.lists == ()
    if items:
        assert finding.explanation.startswith(f"items {items} all attract a user with probability ")


def test_kinds_of_users_who_look_alike_and_like_other_items_break_only_the_first_assumption() -> None:
    users = [PositionBasedModel([0.9, 0.5, 0.1], [1, 0.5]), PositionBasedModel([0.2, 0.4, 0.1], [1, 0.5])]
    findings = check_assumptions(MixtureModel([0.5, 0.5], users), 2)
    assert [finding.assumption for finding in findings if not finding.holds] == [1]


# --- a sample of the lists ----------------------------------------------------------------------------------


@every_model
@given(data=st.data())
@settings(max_examples=15)
def test_a_sample_shows_no_false_counterexample(
    strategy: st.SearchStrategy[ClickModel], data: st.DataObject
) -> None:
    model = data.draw(strategy)
    n_positions = data.draw(st.integers(1, min(model.n_items, 4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory, "_MAX_CHECKED", 0)
        findings = check_assumptions(model, n_positions, samples=300)
    for finding, thorough in zip(findings[1:], check_assumptions(model, n_positions)[1:], strict=True):
        assert not finding.exhaustive
        if not finding.holds:
            assert not thorough.holds
            assert_breaks(model, finding)


L, K = 30, 8
ATTRACTION = [0.9 - 0.02 * item for item in range(L)]
AFTER_A_CLICK = [[0.9] * k + [0.2 + 0.1 * k] for k in range(K)]


@pytest.mark.parametrize(
    ("model", "broken"),
    [
        (CascadeModel(ATTRACTION), []),
        (PositionBasedModel(ATTRACTION, [0.9**k for k in range(K)]), []),
        (PositionBasedModel(ATTRACTION, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.35]), [4]),
        (DependentClickModel(ATTRACTION, [0.2, 0.8] * 4), [3, 6]),
        (UserBrowsingModel(ATTRACTION, AFTER_A_CLICK), [3, 4, 5, 6]),
    ],
    ids=["CM", "PBM", "rising PBM", "DCM", "UBM"],
)
def test_a_sample_finds_what_is_clear(model: ClickModel, broken: list[int]) -> None:
    findings = check_assumptions(model, K, samples=2_000)
    assert [finding.assumption for finding in findings if not finding.holds] == broken
    for finding in findings[1:]:
        assert not finding.exhaustive
        if not finding.holds:
            assert_breaks(model, finding)
        else:
            assert finding.explanation.startswith("nothing in a sample of 2,000 lists breaks it")
    best_is_unknown = "items by decreasing attraction" in findings[5].explanation
    assert best_is_unknown == (model.name in {"DCM", "UBM"})


def test_the_seed_sets_the_sample() -> None:
    model = UserBrowsingModel(ATTRACTION, AFTER_A_CLICK)
    first, again, other = (check_assumptions(model, K, seed=seed, samples=200) for seed in (1, 1, 2))
    assert first == again != other


# --- real queries -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not is_compiled(pbm.click), reason="a million lists take long without compilation")
def test_real_queries_keep_the_assumptions_where_examination_does_not_increase(shared: Path) -> None:
    queries = load_queries(shared / "queries" / "yandex-10.json")
    assert len(queries) == 10
    for query in queries:
        users: Any = query.model("PBM")
        rising = PositionBasedModel(users.attraction, (*users.examination[:3], *users.examination[4:2:-1]))
        for model in (query.model("CM"), users, rising):
            examination = getattr(model, "examination", [1.0] * 5)[:5]
            falls = all(a >= b for a, b in itertools.pairwise(examination))
            findings = check_assumptions(model, 5)
            assert all(finding.exhaustive for finding in findings)
            assert [finding.assumption for finding in findings if not finding.holds] == ([] if falls else [4])
        assert falls is False  # of the last one


def test_positions_and_samples_must_be_possible() -> None:
    model = PositionBasedModel([0.5, 0.1, 0.2], [1, 0.5])
    with pytest.raises(InputError, match="4 positions need as many items, but there are only 3"):
        check_assumptions(model, 4)
    with pytest.raises(InputError, match="3 positions need as many values by position, but there are only 2"):
        check_assumptions(model, 3)
    with pytest.raises(InputError, match="4 positions need as many items, but there are only 3"):
        regret_bound(model, 4, 100)
    with pytest.raises(InputError, match="samples must be at least 1, found 0"):
        check_assumptions(model, 2, samples=0)
