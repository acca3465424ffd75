"""Propensities by draws in plain Python: the policy is copied whole, and asked for a list, again and again."""

from copy import deepcopy
from typing import Any

import numpy as np


def by_draws(policy: Any, shown: list[int], rng: np.random.Generator, draws: int) -> list[float]:
    """Of the draws and the list itself, the share with the same item at each position."""
    lists = [deepcopy(policy).rank(rng) for _ in range(draws)]
    return [(1 + sum(made[k] == item for made in lists)) / (1 + draws) for k, item in enumerate(shown)]
