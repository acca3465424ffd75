"""Samplers for posteriors: bounded loops, and the same numbers compiled and interpreted."""

import math

import numpy as np

from clickbandit.compiling.kernel import kernel

_MAX_TRIES = 64  # each succeeds with a probability above 0.95


@kernel
def draw_gamma(rng: np.random.Generator, shape: float) -> float:
    """A draw of the gamma distribution with scale 1, for a shape above 0.

    Marsaglia, Tsang: A Simple Method for Generating Gamma Variables (ACM TOMS 2000): the cube of a normal variable,
    accepted with a probability that is near 1. Draws, try by try: the normal variable, and where the cube is
    positive a uniform one. For a shape below 1, first a uniform u, and then a draw for shape + 1, times u^(1 / shape).

    >>> rng = np.random.default_rng(1)
    >>> mean = sum(draw_gamma(rng, 3.0) for _ in range(10_000)) / 10_000
    >>> abs(mean - 3) < 0.05
    True
    """
    factor = 1.0
    if shape < 1:
        factor = math.exp(math.log(1 - rng.random()) / shape)
        shape += 1
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    for _ in range(_MAX_TRIES):
        x = rng.standard_normal()
        root = 1 + c * x
        if root > 0:
            cube = root * root * root
            u = 1 - rng.random()
            square = x * x  # never x ** 4, which is rounded differently when compiled
            quickly = u < 1 - 0.0331 * square * square
            if quickly or math.log(u) < square / 2 + d * (1 - cube + math.log(cube)):
                return factor * d * cube
    return factor * d


@kernel
def draw_beta(rng: np.random.Generator, a: float, b: float) -> float:
    """A draw of the beta distribution, for a and b above 0: from a gamma variable for a, then one for b.

    >>> rng = np.random.default_rng(1)
    >>> mean = sum(draw_beta(rng, 3.0, 7.0) for _ in range(10_000)) / 10_000
    >>> abs(mean - 0.3) < 0.005
    True
    """
    x = draw_gamma(rng, a)
    return x / (x + draw_gamma(rng, b))
