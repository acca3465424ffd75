"""RankedExp3's weights, the exponentials of its scores however they were computed, and what is drawn by them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickbandit import PositionBasedModel, RankedExp3
from clickbandit.compiling.kernel import interpreted
from clickbandit.policies import ranked_exp3
from clickbandit.policies.ranked_exp3 import MAX_SERIES_CHANGE
from clickbandit.simulation.run import Problem, Run


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=12), st.floats(0, 1, exclude_max=True))
def test_an_item_is_drawn_as_often_as_its_weight_says(weight: list[float], place: float) -> None:
    """An item's share of places between 0 and 1 is its share of the weights: they lie there one after another."""
    total = math.fsum(weight)
    item = interpreted(ranked_exp3.draw)(np.array(weight), len(weight), total, place)
    assert math.fsum(weight[:item]) <= place * total + 1e-12
    assert place * total < math.fsum(weight[: item + 1]) + 1e-12


@given(st.sets(st.integers(0, 61), max_size=61), st.data())
def test_an_item_that_is_not_in_the_list_is_found_by_its_number(
    listed: set[int], data: st.DataObject
) -> None:
    absent = [item for item in range(62) if item not in listed]
    n = data.draw(st.integers(0, len(absent) - 1))
    assert interpreted(ranked_exp3.absent)(sum(1 << item for item in listed), len(listed), n) == absent[n]


@given(st.floats(-MAX_SERIES_CHANGE, MAX_SERIES_CHANGE))
def test_a_weight_grows_by_the_exponential_to_the_last_bit(x: float) -> None:
    assert 1 + interpreted(ranked_exp3.growth)(x) == pytest.approx(math.exp(x), rel=3e-16, abs=0)


@pytest.mark.parametrize("mixing", [False, True])
def test_weights_stay_the_exponentials_of_the_scores(mixing: bool) -> None:
    """Also after many small changes, and where a weight has become so small that its changes are large."""
    users = PositionBasedModel(np.linspace(0.9, 0.05, 10), [1, 0.6, 0.4])
    run = Run(Problem(RankedExp3(mixing=mixing), users, positions=3, horizon=100_000, method="step"), seed=2)
    run.advance(100_000)
    state = run.state
    np.testing.assert_allclose(state.weight, np.exp(state.score - state.shift[:, None]), rtol=1e-11)
    np.testing.assert_allclose(state.total, state.weight.sum(axis=1), rtol=1e-11)
    assert state.weight.min() < 0.01 * state.weight.max(axis=1).min()
