"""ClickTS in plain Python: slow, with dicts, loops and NumPy's linear algebra, and written from its description.

A display of item d is of a cell, ("fresh", k) with no click above it or ("later", k, r) with the last click above at
position r, and of the item j of that click. Large problems have other cells, and no carry: a display then counts in
part for two of them.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from clickbandit.priors import Prior
from naive.cascading import gamma
from naive.click_ts_prior import Expectation
from naive.common import pick

Cell = tuple[Any, ...]
FIRST: Cell = ("fresh", 0)
"""The cell whose examination is 1."""
NOBODY = -1


class Cells:
    """The cells of a problem, and those of a display."""

    def __init__(self, n_items: int, n_positions: int) -> None:
        pairs = [(k, r) for k in range(n_positions) for r in range(k)]
        n_free = n_positions - 1 + len(pairs) + n_items
        self.small = n_positions <= 10 and len(pairs) * n_items**2 + 2 * n_free**2 <= 110_000
        if self.small:
            self.knots = list(range(n_positions))
            self.later: list[Cell] = [("later", k, r) for k, r in pairs]
        else:
            usual = [0, 1, 2, 3, 4, 6, 9, 13, 18, 25, 35, 49]
            self.knots = sorted({k for k in usual if k < n_positions} | {n_positions - 1})
            self.later = [("later", k, band) for band in (1, 2, 4) for k in self.knots[1:]]
        self.free: list[Cell] = [("fresh", k) for k in self.knots[1:]] + self.later

    def of(self, k: int, r: int | None) -> list[tuple[Cell, float]]:
        """The cells of a display with what belongs to each."""
        if r is None:
            return [(("fresh", knot), part) for knot, part in self.parts(k)]
        if self.small:
            return [(("later", k, r), 1.0)]
        band = max(least for least in (1, 2, 4) if least <= k - r)
        return [(("later", knot, band), part) for knot, part in self.parts(k)]

    def parts(self, k: int) -> list[tuple[int, float]]:
        if k in self.knots:
            return [(k, 1.0)]
        above = max(knot for knot in self.knots if knot < k)
        below = min(knot for knot in self.knots if knot > k)
        return [(above, (below - k) / (below - above)), (below, (k - above) / (below - above))]


class ClickTS:
    """Thompson sampling in a click model that is learned as it goes."""

    def __init__(
        self,
        n_items: int,
        n_positions: int,
        *,
        horizon: int,
        goal: str = "attraction",
        memory: int = 0,
        guard: bool = True,
        restart: bool = True,
        prior: Prior | None = None,
    ) -> None:
        self.guard, self.restart = guard and goal == "attraction" and n_items <= 200, restart
        self.expectation = Expectation(prior) if prior else None
        self.wins: Counter[tuple[int, int]] = Counter()
        """Tests by winner and loser."""
        self.budget = 0.0
        self.memo: tuple[int, int] | None = None
        """The last list's test: the upper position, and the item of the pair that is not there."""
        self.tests = self.obeyed = 0
        self.items, self.n_positions, self.goal, self.memory = range(n_items), n_positions, goal, memory
        self.cells = Cells(n_items, n_positions)
        self.carriers = list(self.items) if self.cells.small else []
        self.names = [*self.cells.free, *self.carriers]
        self.displays: Counter[tuple[int, Cell, int]] = Counter()
        self.clicks: Counter[int] = Counter()
        self.clicks_by_name: Counter[Any] = Counter()
        """By cell, and by item of the last click above."""
        self.now: float = 0
        self.next_fit: float = 1
        self.since_draw = 1
        self.tau2 = 0.25
        self.x: dict[Any, float] = {name: self.prior(name)[0] for name in self.names}
        self.factor = np.diag([self.prior(name)[1] ** -0.5 for name in self.names])
        self.attraction = dict.fromkeys(self.items, 0.5)
        if prior:
            self.attraction = dict(enumerate(prior.attraction))
        self.shown: list[int] | None = None
        self.foreseen = dict.fromkeys(self.items, (0.0, 0.0, np.zeros(len(self.names))))
        """By item: clicks, exposure and its slope at the last fit."""
        self.surprise = dict.fromkeys(self.items, (0.0, 0.0))
        """By item: clicks beyond what was foreseen, and their variance."""
        self.fits = self.draws = self.moves = self.restarts = 0

    def prior(self, name: Any) -> tuple[float, float]:
        """The mean and the variance of a parameter."""
        if name in self.carriers:
            return 0.0, self.tau2
        usual = -0.3, 2.0 if name[0] == "fresh" else 50.0
        return self.expectation.of_cell(name, *usual) if self.expectation else usual

    # --- fit ------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        x = np.array([self.x[name] for name in self.names])
        means, variances = np.array([self.prior(name) for name in self.names]).reshape(-1, 2).T
        gradient = (
            np.array([float(self.clicks_by_name[name]) for name in self.names]) - (x - means) / variances
        )
        precision = np.diag(1 / variances)
        exposure, mixed = self.exposures()
        slope = {item: np.diag(mixed[item]) for item in self.items}
        for item in self.items:
            shape, rate = self.expectation.gamma(item) if self.expectation else (1, 2)
            a = (shape + self.clicks[item]) / (rate + exposure[item])
            self.attraction[item] = a
            gradient -= a * slope[item]
            precision += a * (mixed[item] - np.outer(slope[item], slope[item]) / (rate + exposure[item]))
        if self.expectation:
            self.expectation.weigh(self.clicks, exposure, self.now)
        self.factor = np.linalg.cholesky(precision) if len(x) else precision
        step = np.linalg.solve(precision, gradient).clip(-1, 1)
        self.x = dict(zip(self.names, np.maximum(x + step, -12), strict=True))
        if self.carriers:
            variance = dict(zip(self.names, np.diag(np.linalg.inv(precision)), strict=True))
            total = sum(self.x[j] ** 2 + variance[j] for j in self.carriers)
            self.tau2 = max(1e-4, (total + 0.02) / (len(self.carriers) + 0.2))
        self.fits += 1

    def exposures(self) -> tuple[dict[int, float], dict[int, Any]]:
        """By item: its exposure under the fitted law, and by two parameters as much of it as depends on both."""
        index = {name: p for p, name in enumerate(self.names)}
        exposure = dict.fromkeys(self.items, 0.0)
        mixed = {item: np.zeros((len(index), len(index))) for item in self.items}
        for (item, cell, j), n in self.displays.items():
            involved = [name for name in (cell, j) if name in index]
            value = n * math.exp(sum(self.x[name] for name in involved))
            exposure[item] += value
            for one, other in itertools.product(involved, involved):
                mixed[item][index[one], index[other]] += value
        return exposure, mixed

    # --- change ---------------------------------------------------------------------------------------------

    def contradicted_by_clicks(self) -> bool:
        exposure, mixed = self.exposures()
        found = False
        for item in self.items:
            clicks, before, slope = self.foreseen[item]
            if exposure[item] == before:
                continue
            shape, rate = self.expectation.gamma(item) if self.expectation else (1, 2)
            a = (shape + clicks) / (rate + before)
            mean = a * (exposure[item] - before)
            law = np.linalg.solve(self.factor, a * (np.diag(mixed[item]) - slope))
            total, variance = self.surprise[item]
            total = 0.9 * total + self.clicks[item] - clicks - mean
            variance = 0.81 * variance + mean + mean**2 / (shape + clicks) + law @ law
            self.surprise[item] = total, variance
            found = found or total**2 > 4 * self.budget * (variance + abs(total) / 3)
        if found:
            self.surprise = dict.fromkeys(self.items, (0.0, 0.0))
        return found

    def foresee(self) -> None:
        exposure, mixed = self.exposures()
        self.foreseen = {
            item: (self.clicks[item], exposure[item], np.diag(mixed[item])) for item in self.items
        }

    def shrink(self, lists: int) -> None:
        if self.now > lists:
            kept = lists / self.now
            for counts in (self.displays, self.clicks, self.clicks_by_name, self.wins):
                for key in counts:
                    counts[key] *= kept  # type: ignore[assignment]
            self.now *= kept
            self.next_fit *= kept

    # --- draw -----------------------------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator) -> None:
        z = np.array([rng.standard_normal() for _ in self.names])
        deviation = np.linalg.solve(self.factor.T, z)
        x = {
            name: min(max(self.x[name] + d, -24), max(1, self.x[name]))
            for name, d in zip(self.names, deviation, strict=True)
        }
        fresh = [name for name in self.cells.free if name[0] == "fresh"]
        excess = max([0.0, *(x[name] - max(0, self.x[name]) for name in fresh)])
        if self.goal == "clicks":
            excess = 0.0
        self.take_law({name: value - excess * (name in self.cells.free) for name, value in x.items()})
        self.exposure = dict.fromkeys(self.items, 0.0)
        for (item, cell, j), n in self.displays.items():
            self.exposure[item] += n * self.examined(cell, j)
        if self.expectation:
            self.expectation.draw(rng)
        self.since_draw = 0
        self.draws += 1

    def take_law(self, x: dict[Any, float]) -> None:
        self.law = {name: math.exp(value) for name, value in x.items()}

    def examined(self, cell: Cell, j: int) -> float:
        """e s under the drawn law, for clicks at most 1."""
        most = 1.0 if self.goal == "clicks" else math.inf
        return 1.0 if cell == FIRST else min(most, self.law[cell] * self.law.get(j, 1.0))

    def look(self, k: int, r: int | None, j: int) -> float:
        return sum(part * self.examined(cell, j) for cell, part in self.cells.of(k, r))

    # --- rank -----------------------------------------------------------------------------------------------

    def rank(self, rng: np.random.Generator) -> list[int]:
        if self.now >= self.next_fit:
            if self.restart and self.contradicted_by_clicks() and self.now > 100:
                self.shrink(100)
                self.restarts += 1
            self.fit()
            t = self.now + 1
            self.budget = math.log(t) + 3 * math.log(max(1, math.log(t)))
            self.next_fit = 1.02 * self.now
            if self.memory:
                self.shrink(self.memory)
            self.foresee()
            self.draw(rng)
        elif self.since_draw >= min(16, 1 + self.now // 64):
            self.draw(rng)
        sample = {}
        for item in self.items:
            wins = self.clicks[item]
            a, b = self.expectation.beta(item, rng) if self.expectation else (1, 1)
            one, other = gamma(a + wins, rng), gamma(b + max(0, self.exposure[item] - wins), rng)
            sample[item] = one / (one + other)
        by_attraction = sorted(self.items, key=lambda item: -sample[item])
        if self.guard:
            return self.test(self.obey(by_attraction[: self.n_positions], sample), sample, rng)
        if self.goal == "attraction":
            return by_attraction[: self.n_positions]
        start = self.shown if self.shown is not None else by_attraction[: self.n_positions]
        self.shown = self.search(start, sample, by_attraction, thorough=self.since_draw == 0)
        return list(self.shown)

    def search(
        self, start: Sequence[int], attraction: dict[int, float], order: Sequence[int], thorough: bool
    ) -> list[int]:
        shown = list(start)
        outside = [("item", item) for item in order[: min(2 * self.n_positions, self.n_positions + 10)]]
        value = self.expected_clicks(shown, attraction)
        for _ in range(3):
            before = value
            for k in range(self.n_positions):
                below = range(k + 1, self.n_positions) if thorough else range(k + 1, self.n_positions)[:1]
                for place in [*below, *outside]:
                    other = exchanged(shown, k, place)
                    new = self.expected_clicks(other, attraction) if other else -math.inf
                    if other and new > value + 1e-9:
                        shown, value = other, new
                        self.moves += 1
            if value == before:
                break
        return shown

    def expected_clicks(self, shown: Sequence[int], attraction: dict[int, float]) -> float:
        """A walk down the list that knows where the last click was, as far as it is known."""
        last: dict[int | None, float] = {None: 1.0}
        total = 0.0
        for k, item in enumerate(shown):
            clicked = 0.0
            for r, probability in list(last.items()):
                look = self.look(k, r, NOBODY if r is None else shown[r])
                part = probability * attraction[item] * look
                last[r] -= part
                clicked += part
            last[k] = clicked
            total += clicked
        return total

    def best(self) -> list[int]:
        order = sorted(self.items, key=lambda item: -self.attraction[item])
        if self.guard:
            return self.obey(order[: self.n_positions], self.attraction)
        if self.goal == "attraction":
            return order[: self.n_positions]
        self.take_law(self.x)
        shown = self.shown if self.shown is not None else order[: self.n_positions]
        for _ in range(5):
            shown = self.search(shown, self.attraction, order, thorough=True)
        return shown

    # --- guard ----------------------------------------------------------------------------------------------

    def contradicted(self, above: int, below: int) -> bool:
        won, lost = self.wins[below, above], self.wins[above, below]
        return won > lost and (won - lost) ** 2 > 2 * self.budget * (won + lost)

    def obey(self, shown: list[int], value: dict[int, float]) -> list[int]:
        shown = list(shown)
        for _ in self.items:
            before = list(shown)
            rivals = [i for i in self.items if i not in shown and self.contradicted(shown[-1], i)]
            if rivals:
                shown[-1] = max(rivals, key=value.__getitem__)
            for k in reversed(range(self.n_positions - 1)):
                if self.contradicted(*shown[k : k + 2]):
                    shown[k : k + 2] = shown[k + 1], shown[k]
            if shown == before:
                break
            self.obeyed += 1
        return shown

    def test(self, shown: list[int], sample: dict[int, float], rng: np.random.Generator) -> list[int]:
        self.memo = None
        chance = rng.random()
        outside = [item for item in self.items if item not in shown]
        uppers = range(self.n_positions if outside else self.n_positions - 1)
        if chance >= 1 / 16 or not uppers:
            return shown
        k = uppers[pick(rng, len(uppers))]
        if k + 1 < self.n_positions:
            pair = shown[k], shown[k + 1]
        else:
            rival = outside[pick(rng, len(outside))]
            if rng.random() < 0.5:
                rival = max(outside, key=sample.__getitem__)
            pair = shown[k], rival
        lead = self.wins[pair] - self.wins[pair[::-1]]
        if (lead > 0 and chance >= 0.125 / math.sqrt(self.now + 1)) or self.contradicted(*pair[::-1]):
            return shown
        above, below = pair if rng.random() >= 0.5 else pair[::-1]
        self.memo = k, below
        self.tests += 1
        return [*shown[:k], above, *([below] if k + 1 < self.n_positions else []), *shown[k + 2 :]]

    # --- update ---------------------------------------------------------------------------------------------

    def update(
        self, ranking: Sequence[int], clicks: Sequence[int], memo: tuple[int, int] | None = None
    ) -> None:
        if memo:
            k, other = memo
            clicked = {**dict.fromkeys(self.items, 0), **dict(zip(ranking, clicks, strict=True))}
            if clicked[ranking[k]] != clicked[other]:
                winner, loser = (ranking[k], other) if clicked[ranking[k]] else (other, ranking[k])
                self.wins[winner, loser] += 1
        r, j = None, NOBODY
        for k, (item, clicked) in enumerate(zip(ranking, clicks, strict=True)):
            carrier = j if j in self.carriers else NOBODY
            for cell, part in self.cells.of(k, r):
                self.displays[item, cell, carrier] += part  # type: ignore[assignment]
                self.clicks_by_name[cell] += part * clicked
            self.clicks_by_name[carrier] += clicked
            self.clicks[item] += clicked
            self.exposure[item] += self.look(k, r, carrier)
            if clicked:
                r, j = k, item
        self.now += 1
        self.since_draw += 1


def exchanged(shown: list[int], k: int, place: int | tuple[str, int]) -> list[int] | None:
    """The list with position k and another place exchanged, None if that is an item of the list."""
    other = list(shown)
    if isinstance(place, int):
        other[k], other[place] = other[place], other[k]
        return other
    if place[1] in shown:
        return None
    other[k] = place[1]
    return other
