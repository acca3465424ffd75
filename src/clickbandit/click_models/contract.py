"""What a click model gives, as types: its functions, and the law by which simulations leap.

A click model's class names its functions in two records. mypy holds them to the Protocols here, and so does Python
when the class is made, which says in one sentence what does not fit.

`params` is a NamedTuple of arrays, `ranking` has the numbers of the items shown, by position, and `clicks` a 1 for each
position that was clicked.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from clickbandit.click_models.fitting import FitOptions, GroupedCounts, ParameterEstimate
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.contracts import Contract

Params = Any
"""A NamedTuple of the model's own."""

# --- every click model --------------------------------------------------------------------------------------


class Click(Protocol):
    """One user: write 1 or 0 for every position. A kernel."""

    def __call__(
        self, params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray, /
    ) -> None: ...


class Probability(Protocol):
    """Fill in an exact probability for each position. A kernel."""

    def __call__(self, params: Params, ranking: IntArray, out: FloatArray, /) -> None: ...


class LogLikelihood(Protocol):
    """The logarithm of the probability of a whole click vector. A kernel."""

    def __call__(self, params: Params, ranking: IntArray, clicks: IntArray, /) -> float: ...


class FitParameters(Protocol):
    """The parameters that grouped counts of a log give. Plain Python."""

    def __call__(self, counts: GroupedCounts, options: FitOptions, /) -> ParameterEstimate: ...


@dataclass(frozen=True)
class Functions(Contract):
    """The functions of every click model."""

    params: type
    click: Click
    click_probability: Probability
    """Of a click."""
    examination_probability: Probability
    """That the position is examined."""
    log_likelihood: LogLikelihood
    fit: FitParameters | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        OF_PARAMS.setdefault(self.params, self)


OF_PARAMS: dict[type, Functions] = {}
"""The functions of the click model that parameters of a type belong to."""

# --- leaps --------------------------------------------------------------------------------------------------


class PatternLaw(Protocol):
    """Fill in all outcomes of a list of batches in random order, and their probabilities; how many there are.

    See `patterns.enumerate_orders` for the arguments. A kernel.
    """

    def __call__(
        self,
        params: Params,
        shown: IntArray,
        batch: IntArray,
        first: int,
        pool: IntArray,
        outcomes: IntArray,
        law: FloatArray,
        work: FloatArray,
        spare: IntArray,
        /,
    ) -> int: ...


@dataclass(frozen=True)
class Patterns(Contract):
    """Which items are clicked when they are shown in batches, each in random order."""

    pattern_law: PatternLaw
    closed_form: bool = False
    """Whether the law is quick to compute."""
    first_attractive: bool = False
    """Whether users click the first item that attracts them, with probability `params.attraction`, and no other."""
    independent_batches: bool = False
    """Whether what is clicked in a batch does not depend on the others."""
    independent_positions: bool = False
    """Whether a position is examined whatever else happens, with probability `params.examination`."""
