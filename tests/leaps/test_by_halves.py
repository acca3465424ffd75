"""Rounds of two steps for users who click the first item that attracts them: their law, and how it is drawn."""

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from scipy import stats

from clickbandit import CascadeModel, Problem
from clickbandit.compiling.kernel import interpreted
from clickbandit.leaps import by_halves
from clickbandit.leaps.buffers import make_scratch


@pytest.mark.parametrize(
    "attraction",
    [
        [0.9, 0.4],
        [0.9, 0.2, 0.5, 0.7],
        [0.9, 0.2, 1.0, 0.7, 0.0, 0.3],
        [0.8, 0.1, 0.5, 0.7, 0.4, 0.3, 0.6, 0.2],
    ],
)
def test_the_law_of_two_halves_is_that_of_all_orders(attraction: list[float]) -> None:
    n = len(attraction)
    law, expected = np.zeros(100), expected_clicks(attraction, 0)
    n_outcomes = interpreted(by_halves.halves_law)(
        CascadeModel(attraction).params, np.arange(n), law, np.zeros(2 * n)
    )
    outcomes = [(), *((i,) for i in range(n)), *((i, j) for i in range(n) for j in range(i))]
    assert n_outcomes == len(outcomes)
    assert law[:n_outcomes].tolist() == pytest.approx(
        [expected[tuple(int(i in clicked) for i in range(n))] for clicked in outcomes], abs=1e-14
    )


@pytest.mark.parametrize("above", [0, 1, 2])
def test_many_rounds_have_the_clicks_of_single_ones(above: int) -> None:
    """Clicks by item and all clicks of one round at a time, drawn thousands of times, against all orders."""
    attraction = [0.3, 0.2, 0.9, 0.5, 0.6, 0.1][2 - above :]
    model = CascadeModel(attraction)
    scratch = make_scratch(len(attraction), above + 2, pairs=False)
    scratch.batch[:] = [*range(above), above, above]
    scratch.size[:] = [*[1] * above, 4, 4]
    scratch.shown[:above] = range(above)
    scratch.members[:4] = range(above, above + 4)
    loop = Problem("batchrank", model, positions=above + 2, horizon=100, method="leap").make_loop(
        compiled=False
    )
    draw: Any = loop.leap.__globals__["draw_outcomes"]
    rng = np.random.Generator(np.random.SFC64(above))
    expected = expected_clicks(attraction, above)
    found: dict[tuple[int, ...], int] = defaultdict(int)
    n = 6000
    for _ in range(n):
        draw(model.params, rng, rng, 1, 2, scratch)
        found[tuple(scratch.clicked.tolist())] += 1
        assert scratch.totals[1] == scratch.clicked.sum()
        assert scratch.observed.tolist() == [*[2] * above, *[1] * 4]
    assert set(found) <= set(expected)
    assert scratch.totals[0] == pytest.approx(sum(p * sum(clicks) for clicks, p in expected.items()))
    clicks = sorted(expected, key=expected.__getitem__)
    test = stats.chisquare([found[c] for c in clicks], [n * expected[c] for c in clicks])
    assert test.pvalue > 1e-4


def expected_clicks(attraction: list[float], above: int) -> dict[tuple[int, ...], float]:
    """The law of how often each item was clicked, over all orders of the last batch and where two users stop."""
    law: dict[tuple[int, ...], float] = defaultdict(float)
    half = (len(attraction) - above) // 2
    orders = [*itertools.permutations(range(above, len(attraction)))]
    for order in orders:
        for first, second in itertools.product(range(above + half + 1), repeat=2):
            p, clicks = 1 / len(orders), [0] * len(attraction)
            for stop, shown in ((first, order[:half]), (second, order[half:])):
                for k, item in enumerate((*range(above), *shown)):
                    if k < stop:
                        p *= 1 - attraction[item]
                    elif k == stop:
                        p *= attraction[item]
                        clicks[item] += 1
            law[tuple(clicks)] += p
    return law
