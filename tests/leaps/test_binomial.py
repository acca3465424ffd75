"""Binomial draws, by either method: their distribution, and that compiled and plain code draw the same."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clickbandit.compiling.kernel import interpreted
from clickbandit.leaps.binomial import draw_binomial, log_relative

LEVEL = 1e-4
compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT),
    reason="compilation is off (NUMBA_DISABLE_JIT): so many draws would take too long",
)


@numba.njit
def fill(rng, n, p, out):
    for i in range(len(out)):
        out[i] = draw_binomial(rng, n, p)


@compiled_only
@pytest.mark.parametrize(
    ("n", "p"),
    [
        *[(1, 0.5), (7, 0.2), (31, 0.5), (33, 0.5), (40, 0.41), (60, 0.97), (400, 0.7)],
        *[(3000, 0.0053), (3000, 0.0054), (10**6, 0.3), (10**9, 1.5e-8), (10**9, 3e-8)],
    ],
)
def test_how_many_of_n_trials_succeed(n, p):
    """Millions of draws against the binomial law, cell by cell."""
    drawn = np.zeros(3 * 10**6, np.int64)
    fill(np.random.default_rng(1), n, p, drawn)
    low, high = stats.binom.ppf([1e-6, 1 - 1e-6], n, p).astype(int)
    width = max(1, (high - low) // 400)
    edges = np.arange(
        low, high + width, width
    )  # cells (..., edges[0]], (edges[0], edges[1]], ..., (edges[-1], ...)
    expected = np.diff(stats.binom.cdf(edges, n, p), prepend=0.0, append=1.0) * len(drawn)
    found = np.bincount(np.searchsorted(edges, drawn), minlength=len(expected))
    common = expected >= 5
    expected = np.append(expected[common], expected[~common].sum())
    found = np.append(found[common], found[~common].sum())
    seen = expected > 1e-3
    assert found[~seen].sum() == 0
    assert stats.chisquare(found[seen], expected[seen], sum_check=False).pvalue > LEVEL


@given(st.integers(1, 10**6), st.floats(1e-4, 0.5), st.data())
def test_what_draws_are_accepted_by(n, p, data):
    k, mode = data.draw(st.integers(0, n)), int((n + 1) * p)
    expected = stats.binom.logpmf(k, n, p) - stats.binom.logpmf(mode, n, p)
    assert log_relative(n, p / (1 - p), k, mode) == pytest.approx(expected, rel=1e-9, abs=1e-7)


@given(st.integers(0, 10**7), st.floats(0, 1), st.integers(0, 2**32))
def test_plain_and_compiled_draws_are_the_same(n, p, seed):
    compiled, plain = np.random.default_rng(seed), np.random.default_rng(seed)
    drawn = draw_binomial(compiled, n, p)
    assert drawn == interpreted(draw_binomial)(plain, n, p)
    assert 0 <= drawn <= n
    assert compiled.random() == plain.random()


@pytest.mark.parametrize(("p", "expected"), [(0.0, 0), (1.0, 5)])
def test_certain_outcomes(p, expected):
    assert draw_binomial(np.random.default_rng(1), 5, p) == expected
