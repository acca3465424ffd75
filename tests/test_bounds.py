"""KL and Hoeffding bounds against a high-precision reference, over the whole range."""

import math
from functools import cache

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickbandit.bounds import hoeffding_lower, hoeffding_upper, kl, kl_lower, kl_upper

PROBABILITIES = [0, 1e-300, 1e-12, 1e-6, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999, 1 - 1e-6, 1 - 1e-12, 1]
COUNTS = [1, 2, 7, 100, 12_345, 10**6, 10**9, 10**15]
BUDGETS = [1e-12, 1e-6, 1e-3, 0.1, 1, 5, 22.4, 100, 1e3, 1e6, 1e12]


@cache
def reference_upper(p: float, n: float, budget: float) -> float:
    """The root by bisection with 60 digits."""
    with mpmath.workdps(60):
        p, most = mpmath.mpf(p), mpmath.mpf(budget) / n

        def divergence(q):
            first = p * mpmath.log(p / q) if p > 0 else 0
            second = (1 - p) * mpmath.log((1 - p) / (1 - q)) if p < 1 else 0
            return first + second

        low, high = p, mpmath.mpf(1)
        for _ in range(45):
            middle = (low + high) / 2
            if middle < 1 and divergence(middle) <= most:
                low = middle
            else:
                high = middle
        return float(low)


@pytest.mark.parametrize("p", PROBABILITIES)
def test_kl_bounds_are_right_to_1e_9(p):
    for n in COUNTS:
        for budget in BUDGETS:
            assert kl_upper(p, n, budget) == pytest.approx(reference_upper(p, n, budget), abs=1e-9, rel=0)
            lower = 1 - reference_upper(float(1 - mpmath.mpf(p)), n, budget)
            assert kl_lower(p, n, budget) == pytest.approx(lower, abs=1e-9, rel=0)


def test_edges():
    assert (kl_lower(0.3, 0, 5.0), kl_upper(0.3, 0, 5.0)) == (0, 1)
    assert (kl_lower(0.3, 10, 0.0), kl_upper(0.3, 10, 0.0)) == (pytest.approx(0.3, abs=1e-15), 0.3)
    assert kl_upper(0.3, 10, -1.0) == 0.3  # log t + 3 log log t is negative for t = 2
    assert kl_upper(1.0, 10, 5.0) == 1
    assert kl_lower(0.0, 10, 5.0) == 0
    assert kl_upper(0.3, 10, math.inf) == 1
    assert kl_upper(0.0, 10, 5.0) == pytest.approx(1 - math.exp(-0.5), abs=1e-15)
    assert kl(0.0, 1.0) == math.inf
    assert kl(1.0, 1.0) == kl(0.0, 0.0) == 0


unit = st.floats(0, 1)
counts = st.integers(0, 10**12)
budgets = st.floats(0, 1e9)


@given(unit, counts, budgets)
def test_bounds_hold_the_estimate_and_are_numbers(p, n, budget):
    for lower, upper in ((kl_lower, kl_upper), (hoeffding_lower, hoeffding_upper)):
        # 1 - (1 - p) may be off p by half a unit in the last place
        assert 0 <= lower(p, n, budget) <= p + 1e-15
        assert p <= upper(p, n, budget) <= 1


@given(unit, unit, st.integers(1, 10**9), st.integers(1, 10**9), budgets, budgets)
def test_upper_bound_is_monotone(p, q, n, m, b, c):
    slack = 1e-12
    (p, q), (n, m), (b, c) = sorted((p, q)), sorted((n, m)), sorted((b, c))
    assert kl_upper(p, n, b) <= kl_upper(q, n, b) + slack
    assert kl_upper(p, m, b) <= kl_upper(p, n, b) + slack
    assert kl_upper(p, n, b) <= kl_upper(p, n, c) + slack


@given(unit, st.integers(1, 10**6), st.floats(0, 50))
def test_kl_bounds_are_tighter_than_hoeffding(p, n, budget):
    """Pinsker's inequality: kl(p, q) >= 2 (p - q)^2."""
    assert kl_upper(p, n, budget) <= hoeffding_upper(p, n, budget) + 1e-12
    assert kl_lower(p, n, budget) >= hoeffding_lower(p, n, budget) - 1e-12


@given(unit, unit, unit)
def test_kl_scaling_lemma(c, p, q):
    """Lemma 8 of the paper: c (1 - max(p, q)) kl(p, q) <= kl(c p, c q) <= c kl(p, q)."""
    whole, scaled = kl(p, q), kl(c * p, c * q)
    if math.isinf(whole):
        return
    slack = 1e-12 * (1 + whole)
    assert c * (1 - max(p, q)) * whole <= scaled + slack
    assert scaled <= c * whole + slack
