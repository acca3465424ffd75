"""Machine code that is called without numba's look at the arguments is that of their types."""

from typing import NamedTuple

import numba
import numpy as np

from clickbandit.compiling.kernel import FloatArray, for_types_of, is_compiled


class State(NamedTuple):
    values: FloatArray
    step: int


@numba.njit
def total(state, weights):
    sum_ = 0.0
    for k in range(len(weights)):
        sum_ += state.values[k] * weights[k] * state.step
    return sum_


def test_each_kind_of_argument_has_machine_code_of_its_own():
    state, weights = State(np.array([1.0, 2.0, 3.0]), 2), np.array([1, 0, 2])
    first = for_types_of(total, state, weights)
    assert first(state, weights) == total(state, weights) == 14
    every_other = State(np.array([1.0, 9.0, 2.0, 9.0, 3.0, 9.0])[::2], 2)
    apart = for_types_of(total, every_other, weights)
    assert apart(every_other, weights) == total(every_other, weights) == 14
    assert for_types_of(total, state._replace(values=np.zeros(3)), weights) is first
    if is_compiled(total):
        assert apart is not first
        assert for_types_of(total, state, weights.astype(float)) not in (first, apart)


def test_a_plain_function_is_itself():
    assert for_types_of(len, "") is len
