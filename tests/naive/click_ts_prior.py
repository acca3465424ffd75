"""What ClickTS makes of a prior, in plain Python: rows as dicts, weighed by products of densities."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from clickbandit.priors import Prior

LEVELS = {1 / 8: 0.05, 1 / 4: 0.1, 1 / 2: 0.2, 1: 0.45, 2: 0.2}


class Row:
    """One way to take the prior: for each item a gamma prior (shape, rate), and another if it is an exception."""

    def __init__(self, mean: list[float], strength: list[float], epsilon: float, prior: float) -> None:
        self.usual = [(s * mu, s) for mu, s in zip(mean, strength, strict=True)]
        self.beta = [(s * mu, s * (1 - mu)) for mu, s in zip(mean, strength, strict=True)]
        self.slab = (3.0, 3 / max(mean))
        self.epsilon, self.prior = epsilon, prior
        self.exception = [epsilon] * len(mean)

    def log_weight(self, clicks: Mapping[int, float], exposure: Mapping[int, float]) -> float:
        total = math.log(self.prior)
        for item, (shape, rate) in enumerate(self.usual):
            u = said(shape, rate, clicks[item], exposure[item])
            z = said(*self.slab, clicks[item], exposure[item])
            # the greater first, so that neither is beyond floats
            parts = (
                [(1 - self.epsilon, u), (self.epsilon, z)] if self.epsilon else [(1.0, u), (1e-300, u - 1000)]
            )
            most = max(value for _, value in parts)
            scaled = [share * math.exp(value - most) for share, value in parts]
            self.exception[item] = scaled[1] / sum(scaled)
            total += most + math.log(sum(scaled))
        return total


def said(shape: float, rate: float, c: float, m: float) -> float:
    """The log likelihood of c clicks at exposure m, with the attraction Gamma(shape, rate), but for m^c / c!."""
    marginal = math.lgamma(shape + c) - math.lgamma(shape) + shape * math.log(rate)
    return marginal - (shape + c) * math.log(rate + m)


class Expectation:
    """What ClickTS is told, and what is left of it."""

    def __init__(self, prior: Prior) -> None:
        kappa, strength = list(prior.attraction), list(prior.strength)
        average = sum(kappa) / len(kappa)
        trusting = [
            Row([min(0.95, f * k) for k in kappa], [s / f for s in strength], 0.003, 0.985 * p)
            for f, p in LEVELS.items()
        ]
        flat = [
            Row([f * average for _ in kappa], [1 / (f * average) for _ in kappa], 0, 0.012 * p)
            for f, p in LEVELS.items()
        ]
        self.rows = [*trusting, *flat, Row([0.5 for _ in kappa], [2.0 for _ in kappa], 0, 0.003)]
        self.weights = [row.prior for row in self.rows]
        self.likeliest = self.rows[3]
        self.drawn = self.rows[3]
        self.seen: set[Any] = set()
        """Which rows were drawn, and that there were exceptions."""
        self.cells = {
            ("fresh", k) if r == 0 else ("later", k, r - 1): (math.log(e), error**2)
            for k in range(1, len(prior.examination))
            for r, (e, error) in enumerate(zip(prior.examination[k], prior.examination_error[k], strict=True))
        }

    def gamma(self, item: int) -> tuple[float, float]:
        """The prior of an item's attraction while fitting."""
        row = self.likeliest
        return row.slab if row.exception[item] > 0.5 else row.usual[item]

    def weigh(self, clicks: Mapping[int, float], exposure: Mapping[int, float], now: float) -> None:
        for row in self.rows[: len(LEVELS)]:
            row.epsilon = min(0.03, 0.003 * max(1, now / 500))
        logs = [row.log_weight(clicks, exposure) for row in self.rows]
        self.likeliest = self.rows[int(np.argmax(logs))]
        weights = np.exp(np.array(logs) - max(logs))
        self.weights = (weights / weights.sum()).tolist()

    def draw(self, rng: np.random.Generator) -> None:
        number = int((rng.random() >= np.cumsum(self.weights[:-1])).sum())
        self.drawn = self.rows[number]
        self.seen.add(number)

    def beta(self, item: int, rng: np.random.Generator) -> tuple[float, float]:
        """The prior of an item's attraction in a list."""
        row = self.drawn
        if row.epsilon and rng.random() < row.exception[item]:
            self.seen.add("exception")
            return 3.0, max(1.0, row.slab[1] - 3)
        return row.beta[item]

    def of_cell(self, name: Any, mean: float, variance: float) -> tuple[float, float]:
        """What is known of a cell's log examination, with what the policy believes by itself."""
        if name not in self.cells:
            return mean, variance
        told, error = self.cells[name]
        precision = 1 / variance + 1 / error
        return (mean / variance + told / error) / precision, 1 / precision
