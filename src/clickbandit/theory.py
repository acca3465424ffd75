"""The paper's assumptions as checks on any click model, with counterexamples, and its bound on the regret.

BatchRank learns the best list in every click model that keeps the six assumptions of sections 3.1 and 3.4 of
Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvári, Wen: Online Learning to Rank in Stochastic Click Models (ICML 2017);
Theorem 1 then bounds its regret. The cascade model keeps them all, and so does the position-based model where
examination does not increase down the list. `check_assumptions` says which of them another model keeps, and
shows the lists that break the others. It looks at examination probabilities, also for assumption 3, which the
paper states for each single user.
"""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from clickbandit.click_models.base import ClickModel, refuse_rate
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.queries import MAX_LISTS, Lists, all_lists, best_list, evaluate, n_lists

NAMES = {
    1: "independent attraction",
    2: "attraction independent of examination",
    3: "order-independent examination",
    4: "decreasing examination",
    5: "correct examination scaling",
    6: "optimal examination",
}
_BROKEN = {
    2: "position {k} of list {first} is clicked with probability {mine}, but its examination times the "
    "attraction of the item there is {other}",
    3: "position {k} is examined with probability {mine} in list {first}, but with {other} in {last}, which has the "
    "same item there and the same items above it",
    4: "position {k} of list {first} is examined with probability {mine}, more than a position above it with {other}",
    5: "position {k} is examined with probability {mine} in list {first}, but with {other} in {last}, where its item "
    "changed places with one further up that is not more attractive",
    6: "position {k} is examined with probability {mine} in list {first}, less than in the best list {last} "
    "with {other}",
}
_Number = TypeVar("_Number", np.int64, np.float64)
_MAX_CHECKED = 250_000  # with more lists than this, a sample is checked
_TOLERANCE = 1e-9  # differences up to this one are rounding


class AssumptionFinding(NamedTuple):
    """Whether a click model keeps one of the assumptions."""

    assumption: int
    """Its number in the paper."""
    name: str
    holds: bool
    """Nothing was found that breaks it."""
    exhaustive: bool
    """Nothing was left to chance: if it holds, it is so for all lists, not only for those in a sample."""
    lists: tuple[tuple[int, ...], ...]
    """The lists that break it: two, one for assumptions 2 and 4, and none for assumption 1, which is about items."""
    position: int | None
    """The position at which they break it, counted from 1."""
    explanation: str
    """What was found, in a sentence."""


class _Worst:
    """The clearest counterexample to an assumption so far."""

    def __init__(self) -> None:
        self.excess = _TOLERANCE
        self.lists: tuple[tuple[int, ...], ...] = ()
        self.position: int | None = None
        self.numbers = (0.0, 0.0)

    def add(
        self, excess: FloatArray, mine: FloatArray, other: FloatArray, position: IntArray, *lists: IntArray
    ) -> None:
        """Rows of lists, with the two numbers to compare at a position and how far they are from what is assumed."""
        if len(excess) and excess.max() > self.excess:
            row = int(excess.argmax())
            self.excess = float(excess[row])
            self.lists = tuple(tuple(part[row].tolist()) for part in lists)
            self.position = int(position[row]) + 1
            self.numbers = float(mine[row]), float(other[row])


def check_assumptions(
    model: ClickModel, positions: int, *, seed: int = 0, samples: int = 20_000
) -> list[AssumptionFinding]:
    """Which of the paper's assumptions a click model keeps on lists of this length, from the first to the sixth.

    Goes through all lists where these are not too many, and else through a random sample with as many lists as
    `samples` says, a third of them near the order of attraction and a third near its reverse.

    >>> from clickbandit import PositionBasedModel
    >>> model = PositionBasedModel(attraction=[0.9, 0.5, 0.2], examination=[0.8, 0.4, 0.6])
    >>> [finding.holds for finding in check_assumptions(model, 2)]
    [True, True, True, True, True, True]
    >>> finding = check_assumptions(model, 3)[3]
    >>> finding.name, finding.holds, finding.lists, finding.position
    ('decreasing examination', False, ((0, 1, 2),), 3)
    >>> print(finding.explanation)
    position 3 of list [0, 1, 2] is examined with probability 0.6, more than a position above it with 0.4
    """
    refuse_rate(model)
    model.check_positions(positions)
    if samples < 1:
        raise InputError(f"samples must be at least 1, found {samples}")
    exhaustive = n_lists(model, positions) <= _MAX_CHECKED
    best, known = _best(model, positions)
    rng = np.random.default_rng(seed)
    worst = {number: _Worst() for number in range(2, 7)}
    n_checked = 0
    for piece in all_lists(model, positions) if exhaustive else _sample(model, positions, samples, rng):
        n_checked += len(piece.lists)
        _compare_alone(model, piece, best, worst)
        _compare_pairs(model, piece, worst, None if exhaustive else rng)

    findings = [_independent_attraction(model)]
    for number, found in worst.items():
        if found.lists:
            mine, other = _digits(*found.numbers)
            first, last = list(found.lists[0]), list(found.lists[-1])
            text = _BROKEN[number].format(k=found.position, first=first, last=last, mine=mine, other=other)
        elif exhaustive:
            text = f"true of all {n_checked:,} lists"
        else:
            text = f"nothing in a sample of {n_checked:,} lists breaks it"
        if number == 6 and not known:
            text += " (the best list is taken to be the items by decreasing attraction: there are too many to search)"
        holds = not found.lists
        findings.append(
            AssumptionFinding(number, NAMES[number], holds, exhaustive, found.lists, found.position, text)
        )
    return findings


def regret_bound(model: ClickModel, positions: int, horizon: int) -> float:
    """An upper bound on BatchRank's expected regret over `horizon` steps, if the model keeps the assumptions.

    Theorem 1 of the paper: 192 K^3 L / ((1 - a_max) gap) log T + 4 K L (3 e + K), where a_max is the highest
    attraction and gap the smallest step between one of the K most attractive items and the next.

    >>> from clickbandit import CascadeModel
    >>> round(regret_bound(CascadeModel(attraction=[0.5, 0.25, 0.125]), positions=2, horizon=1_000_000))
    1018834
    """
    refuse_rate(model)
    model.check_positions(positions)
    if not horizon >= 5:
        raise InputError(f"the regret bound holds for a horizon of at least 5 steps, found {horizon}")
    K, L = positions, model.n_items
    attraction = np.sort(model.attraction)[::-1][: K + 1]
    gap = float((attraction[:-1] - attraction[1:]).min(initial=math.inf))
    spared = 1 - float(attraction[0])
    if gap == 0 or spared == 0:
        return math.inf
    return 192 * K**3 * L / (spared * gap) * math.log(horizon) + 4 * K * L * (3 * math.e + K)


# --- which lists are compared -------------------------------------------------------------------------------


def _best(model: ClickModel, positions: int) -> tuple[list[int], bool]:
    """The best list, and whether it is known to be the best."""
    if n_lists(model, positions) > MAX_LISTS and model.best_list(positions) is None:
        return model.by_attraction()[:positions], False
    return best_list(model, positions)[0], True


def _sample(model: ClickModel, positions: int, samples: int, rng: np.random.Generator) -> Iterator[Lists]:
    """Random lists: any, near the order of attraction (where policies spend their time), and near its reverse."""
    order = np.array(model.by_attraction())
    at_once = max(1, 1_000_000 // model.n_items)
    for first in range(0, samples, at_once):
        size = min(at_once, samples - first)
        slope = rng.choice([0.0, 0.5, -0.5], size)  # items change places with those some two ranks away
        keys = rng.normal(size=(size, model.n_items)) + slope[:, None] * np.arange(model.n_items)
        yield evaluate(model, order[keys.argsort(axis=1)[:, :positions]])


def _compare_alone(model: ClickModel, piece: Lists, best: list[int], worst: dict[int, _Worst]) -> None:
    """Assumptions 2, 4 and 6: each list by itself, or against the best one."""
    lists, clicked, examined = piece
    product = examined * np.asarray(model.attraction)[lists]
    least = np.minimum.accumulate(examined, axis=1)
    stars = np.broadcast_to(best, lists.shape)
    optimal = np.broadcast_to(evaluate(model, stars[:1]).examined, lists.shape)
    for number, excess, mine, other, shown in (
        (2, np.abs(clicked - product), clicked, product, [lists]),
        (4, examined - least, examined, least, [lists]),
        (6, optimal - examined, examined, optimal, [lists, stars]),
    ):
        k = excess.argmax(axis=1)
        worst[number].add(_at(excess, k), _at(mine, k), _at(other, k), k, *shown)


def _compare_pairs(
    model: ClickModel, piece: Lists, worst: dict[int, _Worst], rng: np.random.Generator | None
) -> None:
    """Assumptions 3 and 5: each list against its rearrangements, or with a generator against a random one of each."""
    lists, _, examined = piece
    n, n_positions = lists.shape
    for k in _choices(n_positions, n, rng):
        tidy = evaluate(model, _tidied(lists, k))
        mine, other = _at(examined, k), _at(tidy.examined, k)
        worst[3].add(np.abs(mine - other), mine, other, k, lists, tidy.lists)
    upper, lower = np.triu_indices(n_positions, 1)
    attraction = np.asarray(model.attraction)[lists]
    for pair in _choices(len(upper), n, rng):
        i, j = upper[pair], lower[pair]
        rows = np.flatnonzero(_at(attraction, i) <= _at(attraction, j))
        shown, i, j = lists[rows], i[rows], j[rows]
        swapped = shown.copy()
        swapped[np.arange(len(rows)), i], swapped[np.arange(len(rows)), j] = _at(shown, j), _at(shown, i)
        mine, other = _at(examined[rows], j), _at(evaluate(model, swapped).examined, j)
        worst[5].add(other - mine, mine, other, j, shown, swapped)


def _choices(n: int, size: int, rng: np.random.Generator | None) -> Iterator[IntArray]:
    """Each number below n for every row in turn, or with a generator a random one for each row."""
    if rng is None:
        yield from (np.full(size, choice) for choice in range(n))
    elif n > 0:
        yield rng.integers(n, size=size)


def _at(rows: npt.NDArray[_Number], column: IntArray) -> npt.NDArray[_Number]:
    return np.take_along_axis(rows, column[:, None], axis=1)[:, 0]


def _tidied(lists: IntArray, k: IntArray) -> IntArray:
    """The lists with the same item at k and the same items above it in order, and the first free items below.

    The lists that assumption 3 says to be alike all become the same one, so they need be compared with no other.
    """
    n, n_positions = lists.shape
    at = np.arange(n_positions) - k[:, None]  # 0 at position k
    above = np.sort(np.where(at < 0, lists, np.iinfo(np.int64).max), axis=1)
    taken = np.zeros((n, n_positions + 1), bool)  # of the first items; the last column stands for all others
    np.put_along_axis(taken, np.where(at <= 0, np.minimum(lists, n_positions), n_positions), True, axis=1)
    free = np.argsort(taken[:, :-1], axis=1, kind="stable")
    below = np.take_along_axis(free, np.maximum(at - 1, 0), axis=1)
    return np.where(at < 0, above, np.where(at == 0, lists, below))


# --- what was found, in words -------------------------------------------------------------------------------


def _independent_attraction(model: ClickModel) -> AssumptionFinding:
    """Assumption 1 is about how a model is built: no list shows it. Single models draw each item by itself; in a
    mixture a user's kind may tie the items together, even where clicks keep assumption 2."""
    items = _dependent_items(model) if isinstance(model, MixtureModel) else None
    if not isinstance(model, MixtureModel):
        text = "by the model's construction: each item attracts a user by a draw of its own, which no list can show"
    elif items is None:
        text = "by the mixture's construction: any items attract a user together as often as by draws of their own"
    else:
        attraction = np.asarray([kind.attraction for kind in model.models])[:, items]
        together = float(np.asarray(model.shares) @ attraction.prod(axis=1))
        alone = math.prod(model.attraction[item] for item in items)
        both, product = _digits(together, alone)
        text = (
            f"items {', '.join(map(str, items))} all attract a user with probability {both}, but the product of "
            f"their attractions is {product}: what attracts a user depends on the user's kind"
        )
    return AssumptionFinding(1, NAMES[1], items is None, True, (), None, text)


def _dependent_items(model: MixtureModel) -> list[int] | None:
    """Items that attract a user together more or less often than the product of their attractions."""
    shares = np.asarray(model.shares)
    kinds = np.asarray([kind.attraction for kind in model.models])
    covariance = (kinds - shares @ kinds).T @ (shares[:, None] * (kinds - shares @ kinds))
    pairs = np.triu(np.abs(covariance), 1)
    if pairs.max() > _TOLERANCE:
        return [int(item) for item in np.unravel_index(pairs.argmax(), pairs.shape)]
    # Items without covariance that differ between kinds are fewer than the kinds (as vectors over these they are
    # orthogonal), so there are few larger groups to look at.
    differ = np.flatnonzero(covariance.diagonal() > 1e-6).tolist()
    for size in range(3, len(differ) + 1):
        for group in map(list, itertools.combinations(differ, size)):
            if abs(shares @ kinds[:, group].prod(axis=1) - (shares @ kinds)[group].prod()) > _TOLERANCE:
                return group
    return None


def _digits(first: float, second: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart."""
    for digits in (4, 8, 12):
        if f"{first:.{digits}g}" != f"{second:.{digits}g}":
            break
    return f"{first:.{digits}g}", f"{second:.{digits}g}"
