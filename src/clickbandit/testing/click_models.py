"""What a click model must keep, as checks that anyone can run on a model of their own."""

import itertools
import math
import statistics
from typing import Any

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import FloatArray, IntArray, is_compiled
from clickbandit.compiling.specialise import specialise

LEVEL = 1e-6
"""How often a right model would fail a test of its samples, had the seed not been fixed."""
_SAMPLES = 20_000
_TOLERANCE = 1e-9


def check_click_model(model: ClickModel, positions: int | None = None) -> None:
    """Raise an AssertionError that says how a click model breaks the contract, if it does.

    On two lists of `positions` items (as many as the model allows, but at most 5), all click vectors have
    probabilities that sum to one; their marginals are `click_probability`, which is at most
    `examination_probability`; 20,000 simulated users agree with both (chi-square at level 1e-6, fixed seed);
    compiled and interpreted kernels give the same; and `click` writes every entry. With the items in another order
    (`with_items`) users do the same on the same items, as simulations number them by chance.

    >>> from clickbandit.click_models.cm import CascadeModel
    >>> model = CascadeModel(attraction=[0.9, 0.5, 0.2])
    >>> check_click_model(model)
    >>> model.reward([0, 1])
    0.95
    """
    if positions is None:
        positions = min(model.max_positions, 5)
    model.check_positions(positions)
    shuffled = np.random.default_rng(0).permutation(model.n_items)
    for ranking in (np.arange(positions), shuffled[:positions]):
        vectors, law = _check_law(model, ranking)
        if _is_compiled(model):
            _check_compiled_law(model, ranking)
        _check_samples(model, ranking, vectors, law)
    if isinstance(model, ClickModel):
        _check_items(model, shuffled[:positions])


def _check_law(model: ClickModel, ranking: IntArray) -> tuple[IntArray, FloatArray]:
    """All click vectors with their probabilities, once these are found to be in order."""
    where = f"{model.name}, list {ranking.tolist()}"
    vectors = np.array([*itertools.product((0, 1), repeat=len(ranking))], np.int64)
    shown = ranking.tolist()
    law = np.array([math.exp(model.log_likelihood(shown, vector)) for vector in vectors.tolist()])
    clicked, examined = model.click_probability(shown), model.examination_probability(shown)
    assert abs(law.sum() - 1) < _TOLERANCE, (
        f"{where}: the probabilities of all click vectors by log_likelihood must sum to 1, found {law.sum()}"
    )
    for k in range(len(ranking)):
        marginal = law[vectors[:, k] == 1].sum()
        assert abs(clicked[k] - marginal) < _TOLERANCE, (
            f"{where}: by log_likelihood position {k + 1} is clicked with probability {marginal}, "
            f"but click_probability says {clicked[k]}"
        )
        assert -_TOLERANCE < clicked[k] < examined[k] + _TOLERANCE < 1 + 2 * _TOLERANCE, (
            f"{where}: expected 0 <= click_probability <= examination_probability <= 1 at position {k + 1}, "
            f"found {clicked[k]} and {examined[k]}"
        )
    return vectors, law


def _check_items(model: ClickModel, ranking: IntArray) -> None:
    """The same list under other numbers."""
    order = np.roll(np.arange(model.n_items), 1).tolist()
    users, renumbered = model.with_items(order), [order.index(item) for item in ranking]
    for name in ("click_probability", "examination_probability"):
        found, expected = getattr(users, name)(renumbered), getattr(model, name)(ranking.tolist())
        assert np.allclose(found, expected, rtol=0, atol=_TOLERANCE), (
            f"{model.name}: with_items({order}) must take along all that is known of an item (does by_item name every "
            f"such field?), but {name} is {found.tolist()} on the list of {expected.tolist()}"
        )


def _is_compiled(model: ClickModel) -> bool:
    functions = model.functions
    kernels = (
        functions.click,
        functions.click_probability,
        functions.examination_probability,
        functions.log_likelihood,
    )
    return all(map(is_compiled, kernels))


def _users(model: ClickModel, *, compiled: bool) -> Any:
    """Functions that run the model's kernels, compiled or as plain Python."""
    return specialise(
        "clickbandit.testing._users", compiled=compiled, sources=model.sources, model=vars(model.functions)
    )


def _check_compiled_law(model: ClickModel, ranking: IntArray) -> None:
    where = f"{model.name}, list {ranking.tolist()}"
    users, plain_users = _users(model, compiled=True), _users(model, compiled=False)
    fast, plain = np.full((2, 2, len(ranking)), np.nan)
    users.probabilities(model.params, ranking, *fast)
    plain_users.probabilities(model.params, ranking, *plain)
    for name, found, expected in zip(("click", "examination"), fast, plain, strict=True):
        assert np.allclose(found, expected, rtol=0, atol=_TOLERANCE), (
            f"{where}: {name}_probability must be the same compiled and interpreted, "
            f"found {found.tolist()} and {expected.tolist()}"
        )
    for clicks in (np.zeros(len(ranking), np.int64), np.ones(len(ranking), np.int64)):
        likelihood = users.likelihood(model.params, ranking, clicks)
        expected = plain_users.likelihood(model.params, ranking, clicks)
        assert np.isclose(likelihood, expected, rtol=_TOLERANCE), (
            f"{where}: log_likelihood of clicks {clicks.tolist()} must be the same compiled and interpreted, "
            f"found {likelihood} and {expected}"
        )


def _check_samples(model: ClickModel, ranking: IntArray, vectors: IntArray, law: FloatArray) -> None:
    where = f"{model.name}, list {ranking.tolist()}"
    users, plain_users = (_users(model, compiled=compiled) for compiled in (_is_compiled(model), False))
    few = _SAMPLES // 100
    plain, plain_rng = _sample(plain_users, model, ranking, few, filler=-7)
    again, _ = _sample(plain_users, model, ranking, few, filler=9)
    assert ((plain == 0) | (plain == 1)).all(), f"{where}: click must write 0 or 1 at every position"
    assert (plain == again).all(), f"{where}: click must depend on params, rng and ranking alone"
    if users is not plain_users:
        fast, fast_rng = _sample(users, model, ranking, few, filler=-7)
        assert (fast == plain).all(), (
            f"{where}: click must make the same of the same random numbers compiled and interpreted"
        )
        assert fast_rng.bit_generator.state == plain_rng.bit_generator.state, (
            f"{where}: click must draw as many random numbers compiled as interpreted"
        )
    clicks, _ = _sample(users, model, ranking, _SAMPLES, filler=-7)
    seen = np.bincount(clicks @ (1 << np.arange(len(ranking))[::-1]), minlength=len(law))
    for vector in np.flatnonzero((law == 0) & (seen > 0)):
        raise AssertionError(
            f"{where}: log_likelihood says that clicks {vectors[vector].tolist()} never happen, "
            f"but {seen[vector]} of {_SAMPLES} simulated users clicked so"
        )
    distance, allowed = chi_square(seen, law * _SAMPLES)
    assert distance <= allowed, (
        f"{where}: the clicks of {_SAMPLES} simulated users do not follow log_likelihood: "
        f"chi-square is {distance:.1f}, above {allowed:.1f} (level {LEVEL})"
    )


def _sample(
    users: Any, model: ClickModel, ranking: IntArray, n: int, filler: int
) -> tuple[IntArray, np.random.Generator]:
    """The clicks of n users, and the generator as they leave it."""
    rng = np.random.default_rng(1)
    clicks = np.full((n, len(ranking)), filler)
    users.simulate(model.params, rng, ranking, clicks)
    return clicks, rng


def chi_square(seen: IntArray, expected: FloatArray) -> tuple[float, float]:
    """Pearson's statistic, and what it may be at most; rare outcomes go together until 5 are expected."""
    cells: list[list[float]] = [[0.0, 0.0]]
    for outcome in np.argsort(expected):
        if cells[-1][1] >= 5:
            cells.append([0.0, 0.0])
        cells[-1][0] += seen[outcome]
        cells[-1][1] += expected[outcome]
    distance = sum((found - wanted) ** 2 / wanted for found, wanted in cells)
    freedom = len(cells) - 1
    if freedom == 0:
        return distance, math.inf
    # Wilson and Hilferty 1931: the cube root of chi-square over its degrees of freedom is nearly normal
    spread = 2 / (9 * freedom)
    bound = 1 - spread + statistics.NormalDist().inv_cdf(1 - LEVEL) * math.sqrt(spread)
    return distance, freedom * bound**3
