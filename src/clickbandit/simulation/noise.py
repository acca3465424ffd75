"""Users of any click model whose clicks are seen inverted now and then: a corrupted environment.

Each position's click, or the lack of one, is inverted with the same probability, independently of everything else: by
bots, by accident, or by a page that loses clicks. What policies are measured by stays the users' own behaviour, so
`click_probability` is that of the model; the clicks counted are those seen, flip K + (1 - 2 flip) times the users' own
on average. These kernels take the place of the model's in the loop, so that other runs pay nothing for them.
"""

from typing import Any, NamedTuple

import numpy as np

from clickbandit.click_models.dispatch import kernel_of_params
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel


class Params(NamedTuple):
    """The users' parameters, and how often a click is inverted."""

    users: Any
    """Of their own click model."""
    flip: float


_users_click = kernel_of_params("click")
_users_click_probability = kernel_of_params("click_probability")


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    """First the user's own draws, then one for each position."""
    _users_click(params.users, rng, ranking, clicks)
    for k in range(len(ranking)):
        if rng.random() < params.flip:
            clicks[k] = 1 - clicks[k]


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    """Of the user's own clicks."""
    _users_click_probability(params.users, ranking, out)
