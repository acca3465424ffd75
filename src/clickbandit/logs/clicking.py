"""Many users' clicks under a click model: a template, of which `compiling.specialise` makes one module for each
model."""

from typing import Any

import numpy as np

from clickbandit.click_models.pbm import click  # model
from clickbandit.compiling.kernel import IntArray, entry_point


@entry_point
def simulate(
    params: Any, rng: np.random.Generator, lists: IntArray, which: IntArray, clicks: IntArray
) -> None:
    """One user for each entry of `which`, who sees that row of `lists`; a row of `clicks` is what was
    clicked."""
    for i in range(len(which)):
        click(params, rng, lists[which[i]], clicks[i])
