"""Rounds whose last step is filled up: the law of what is clicked in one, and how it is drawn."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from clickbandit import PositionBasedModel, Problem, Run
from clickbandit.compiling.kernel import interpreted
from clickbandit.leaps import by_round
from clickbandit.leaps.buffers import Scratch, make_scratch

EXAMINATION = [1.0, 0.9, 0.65, 0.4, 0.3]


def make(attraction: list[float], first: int, positions: int) -> tuple[PositionBasedModel, Scratch]:
    """A batch of all items but the first ones, which stand alone above it."""
    model = PositionBasedModel(attraction, examination=EXAMINATION)
    scratch = make_scratch(len(attraction), first + positions, pairs=False)
    scratch.batch[:] = [*range(first), *[first] * positions]
    scratch.size[:] = [*[1] * first, *[len(attraction) - first] * positions]
    scratch.members[: len(attraction) - first] = range(first, len(attraction))
    return model, scratch


def brute_force(model: PositionBasedModel, first: int, positions: int) -> dict[int, float]:
    """By all orders of the items, and all ways to fill up the last step."""
    size = model.n_items - first
    left_over = size % positions
    look, like = model.examination[first:], model.attraction[first:]
    law: dict[int, float] = {}
    orders = [*itertools.permutations(range(size))]
    for order in orders:
        main, last = order[: size - left_over], order[size - left_over :]
        chance = np.zeros(size)
        for place, item in enumerate(main):
            chance[item] = look[place % positions] * like[item]
        fillings = [*itertools.permutations(range(positions), left_over)]
        for places in fillings:
            chance[list(last)] = [look[place] * like[item] for place, item in zip(places, last, strict=True)]
            free = [place for place in range(positions) if place not in places]
            groups = [*itertools.permutations(range(size - left_over), len(free))]
            for group in groups:
                fillers = [look[place] * like[main[i]] for place, i in zip(free, group, strict=True)]
                number = np.array([1.0])
                for p in fillers:
                    number = np.convolve(number, [1 - p, p])
                for clicked in range(1 << size):
                    p = math.prod(q if clicked >> i & 1 else 1 - q for i, q in enumerate(chance))
                    for n, share in enumerate(number):
                        key = clicked | n << size
                        law[key] = law.get(key, 0.0) + p * share / len(orders) / len(fillings) / len(groups)
    return law


@pytest.mark.parametrize(
    ("attraction", "first", "positions"),
    [
        ([0.9, 0.5, 0.2], 0, 2),
        ([0.9, 0.5, 0.2, 0.7], 1, 2),
        ([0.9, 0.5, 0.2, 0.7], 0, 3),
        ([0.8, 0.5, 0.1, 0.3, 0.6], 0, 3),
        ([0.8, 0.5, 0.1, 0.3, 0.6], 0, 2),  # two steps before the last
        ([0.3, 0.8, 0.5, 1.0, 0.0, 0.6], 1, 4),
    ],
)
def test_the_law_of_a_round_is_that_of_all_orders(attraction: Any, first: int, positions: int) -> None:
    model, scratch = make(attraction, first, positions)
    expected = brute_force(model, first, positions)
    interpreted(by_round.find_law)(model.params, scratch)
    assert scratch.round_law[: len(expected)].tolist() == pytest.approx(
        [expected[i] for i in range(len(expected))], abs=1e-12
    )


def test_rounds_have_the_clicks_of_their_law() -> None:
    model, scratch = make([0.9, 0.7, 0.5, 0.4, 0.2], 0, 3)
    rng = np.random.Generator(np.random.SFC64(1))
    rows = []
    for _ in range(400):
        for array in (scratch.clicked, scratch.observed, scratch.totals):
            array[:] = 0
        interpreted(by_round.draw_rounds)(model.params, rng, 200, scratch)
        rows.append([*scratch.clicked, scratch.totals[1]])
        assert scratch.observed.tolist() == [200] * 5
    law = scratch.round_law[: 2 << 5]
    items = np.array([[o >> i & 1 for i in range(5)] + [(o & 31).bit_count() + (o >> 5)] for o in range(64)])
    mean = law @ items
    covariance = (items.T * law) @ items - np.outer(mean, mean)
    found = np.cov(np.array(rows).T) / 200
    assert scratch.totals[0] == pytest.approx(200 * mean[-1])
    for i in range(6):
        z = (np.mean([row[i] for row in rows]) - 200 * mean[i]) / math.sqrt(200 * covariance[i, i] / 400)
        assert abs(z) < stats.norm.isf(1e-4)
        assert found[i, i] == pytest.approx(covariance[i, i], rel=0.3)
        assert found[i, -1] == pytest.approx(covariance[i, -1], rel=0.25, abs=0.05)


def test_the_law_is_found_anew_for_another_run() -> None:
    """A run after another has the numbers that it has alone, though both use the same arrays."""
    model = PositionBasedModel([0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2], examination=EXAMINATION)
    ends = np.array(
        [100, 200]
    )  # no stage is over: the next run starts with the batch that this one ends with

    def run(problem: Problem, number: int) -> Any:
        return [part.tolist() for part in Run(problem, seed=1, run=number).advance_windows(ends)]

    def problem_anew() -> Problem:
        return Problem("batchrank", model, positions=5, horizon=1_000_000, method="leap")

    problem = problem_anew()
    shared = [run(problem, number) for number in range(3)]
    alone = [run(problem_anew(), number) for number in range(3)]
    assert shared == alone
    assert len(problem.spare_scratch) == 1
