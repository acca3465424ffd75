"""The bound on BatchRank's regret is that of the theorem."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.errors import InputError
from clickbandit.theory import regret_bound
from strategies import small_models


@pytest.mark.parametrize(
    ("attraction", "positions", "factor"),
    [
        ([0.25, 0.5, 0.125], 1, 192 * 1 * 3 / (0.5 * 0.25)),
        ([0.25, 0.5, 0.125], 2, 192 * 8 * 3 / (0.5 * 0.125)),
        ([0.25, 0.5, 0.125], 3, 192 * 27 * 3 / (0.5 * 0.125)),  # K = L: nothing comes after the last item
        ([0.5, 0.25, 0.125, 0.125], 2, 192 * 8 * 4 / (0.5 * 0.125)),  # a tie that does not matter
        ([0.5], 1, 0),  # there is nothing to learn
    ],
)
def test_regret_bound_is_that_of_the_theorem(attraction: list[float], positions: int, factor: float) -> None:
    model = CascadeModel(attraction)
    constant = 4 * positions * len(attraction) * (3 * math.e + positions)
    assert regret_bound(model, positions, 5) == pytest.approx(factor * math.log(5) + constant)
    assert regret_bound(model, positions, 10**6) == pytest.approx(factor * math.log(10**6) + constant)


@pytest.mark.parametrize(
    ("attraction", "positions"), [([0.5, 0.5, 0.1], 2), ([0.5, 0.1, 0.1], 2), ([1.0, 0.5], 1)]
)
def test_regret_bound_is_infinite_without_a_gap_or_where_users_always_click(
    attraction: list[float], positions: int
) -> None:
    assert regret_bound(CascadeModel(attraction), positions, 100) == math.inf


@given(model=small_models("CM"), horizon=st.integers(5, 10**9), longer=st.integers(1, 10**9), data=st.data())
def test_regret_bound_grows_with_the_horizon(
    model: ClickModel, horizon: int, longer: int, data: st.DataObject
) -> None:
    positions = data.draw(st.integers(1, model.n_items))
    assert 0 < regret_bound(model, positions, horizon) <= regret_bound(model, positions, horizon + longer)


@pytest.mark.parametrize("horizon", [4, 0, -1, math.nan])
def test_regret_bound_needs_five_steps(horizon: Any) -> None:
    with pytest.raises(InputError, match=f"for a horizon of at least 5 steps, found {horizon}"):
        regret_bound(CascadeModel([0.5, 0.1]), 1, horizon)
