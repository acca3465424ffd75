"""Users of a click model as compiled code that Python can call: a template, see `compiling.specialise`."""

from typing import Any

import numpy as np

from clickbandit.click_models.cm import click, click_probability  # model
from clickbandit.click_models.pbm import examination_probability, log_likelihood  # model
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point


@entry_point
def simulate(params: Any, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    """The clicks of many users on the same list, one in each row."""
    for t in range(len(clicks)):
        click(params, rng, ranking, clicks[t])


@entry_point
def probabilities(params: Any, ranking: IntArray, clicked: FloatArray, examined: FloatArray) -> None:
    click_probability(params, ranking, clicked)
    examination_probability(params, ranking, examined)


@entry_point
def likelihood(params: Any, ranking: IntArray, clicks: IntArray) -> float:
    return float(log_likelihood(params, ranking, clicks))
