"""Small worlds for BatchRank's tests: a state with the lists that are out, and users who click at random."""

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import strategies as st

from clickbandit.compiling.kernel import interpreted
from clickbandit.policies.contract import Algorithm

LEVEL = 1e-6
"""How often a test of frequencies would fail by chance, had the seed not been fixed."""
compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT),
    reason="compilation is off (NUMBA_DISABLE_JIT): so many steps would take too long",
)


class World:
    """A policy's state with the lists that are out, and users who click at random."""

    def __init__(
        self, algorithm: Algorithm, attraction: list[float], n_positions: int, seed: int, **settings: Any
    ) -> None:
        self.algorithm = algorithm
        self.attraction = np.array(attraction)
        self.n_items, self.n_positions = len(attraction), n_positions
        self.state = algorithm.init(self.n_items, n_positions, **settings)
        self.rng, self.users = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        self.out: list[tuple[Any, Any]] = []
        self.shown: list[int] = []

    def rank(self) -> None:
        ranking, memo = np.full(self.n_positions, -1), np.full(self.n_positions, np.nan)
        interpreted(self.algorithm.rank)(self.state, self.rng, ranking, memo)
        self.shown = ranking.tolist()
        assert len(set(self.shown)) == self.n_positions
        assert set(self.shown) <= set(range(self.n_items))
        assert not np.isnan(memo).any()
        self.out.append((ranking, memo))

    def feedback(self, which: int = 0) -> None:
        """Feedback to one of the lists that are out."""
        ranking, memo = self.out.pop(which)
        seen = self.attraction[ranking] * 0.9 ** np.arange(self.n_positions)
        clicks = (self.users.random(self.n_positions) < seen).astype(np.int64)
        interpreted(self.algorithm.update)(self.state, ranking, clicks, memo)

    def learn(self, ranking: Any, clicks: list[int], memo: Any) -> None:
        interpreted(self.algorithm.update)(self.state, ranking, np.array(clicks), memo)

    def void(self, which: int = 0) -> None:
        interpreted(self.algorithm.void)(self.state, *self.out.pop(which))


def copy(state: Any) -> Any:
    return type(state)(*(value.copy() if isinstance(value, np.ndarray) else value for value in state))


def same(state: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(state, other, strict=True))


@st.composite
def worlds(draw: st.DrawFn, algorithm: Algorithm) -> World:
    """Problems in which a stage takes a few dozen lists, and items are often told apart at its end."""
    attraction = draw(st.lists(st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.7, 0.9, 1.0]), min_size=1, max_size=7))
    return World(
        algorithm,
        attraction,
        draw(st.integers(1, len(attraction))),
        draw(st.integers(0, 2**32)),
        horizon=draw(st.sampled_from([5, 6, 20, 1000])),
        bounds=draw(st.sampled_from(["kl", "hoeffding"])),
        eliminate=draw(st.booleans()),
    )
