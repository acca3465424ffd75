"""RankedExp3's weights: the exponentials of its scores, however they were computed."""

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
