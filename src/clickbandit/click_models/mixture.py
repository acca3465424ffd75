"""A mixture of click models: each user is of one kind, and each kind clicks by a model of its own.

A share of the users clicks by each component. The components may be any click models over the same items,
also the same model with other parameters. A mixture is an environment to try policies in: nobody fits it to
logs, so it has no name in a queries file.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numba import literal_unroll

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions
from clickbandit.click_models.dispatch import kernel_of_params
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.errors import InputError

# --- parameters ---------------------------------------------------------------------------------------------


class Component(NamedTuple):
    """The parameters of one kind of user."""

    share: float
    upto: float
    """This share and all before it: a user is of the first kind whose `upto` is above the draw."""
    params: Any
    """Of the component's own model."""


class Params(NamedTuple):
    """The kinds of users."""

    components: tuple[Component, ...]


# --- finding a component's kernels --------------------------------------------------------------------------

# The components differ in type, so a compiled loop over them is unrolled, and each call goes to the kernel of the
# component's own model.

_component_click = kernel_of_params("click")
_component_click_probability = kernel_of_params("click_probability")
_component_examination_probability = kernel_of_params("examination_probability")
_component_log_likelihood = kernel_of_params("log_likelihood")


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    u = rng.random()
    below = 0.0
    for component in literal_unroll(params.components):
        if below <= u < component.upto:
            _component_click(component.params, rng, ranking, clicks)
        below = component.upto


# --- the law of clicks given a list -------------------------------------------------------------------------

# Kernels make no arrays, so what the components say is summed in `out` itself, from the last position up.
# Users read from the top, so a list cut off below a position says the same of that position as the whole list.


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking) - 1, -1, -1):
        mean = 0.0
        for component in literal_unroll(params.components):
            _component_click_probability(component.params, ranking[: k + 1], out[: k + 1])
            mean += component.share * out[k]
        out[k] = mean


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking) - 1, -1, -1):
        mean = 0.0
        for component in literal_unroll(params.components):
            _component_examination_probability(component.params, ranking[: k + 1], out[: k + 1])
            mean += component.share * out[k]
        out[k] = mean


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = -math.inf
    for component in literal_unroll(params.components):
        if component.share > 0:
            part = math.log(component.share) + _component_log_likelihood(component.params, ranking, clicks)
            top = max(total, part)
            if top > -math.inf:
                total = top + math.log(math.exp(total - top) + math.exp(part - top))
    return total


@dataclass(frozen=True)
class MixtureModel(ClickModel):
    """Users of several kinds: a share of them clicks by each of several click models.

    Its attraction is that of the average user, which is what the items are ordered by.

    >>> from clickbandit.click_models.cm import CascadeModel
    >>> from clickbandit.click_models.pbm import PositionBasedModel
    >>> models = CascadeModel([0.9, 0.5]), PositionBasedModel([0.9, 0.5], examination=[1, 0.6])
    >>> users = MixtureModel([0.75, 0.25], models)
    >>> users.name, users.click_probability([1, 0]).round(6).tolist()
    ('0.75*CM+0.25*PBM', [0.5, 0.4725])
    """

    key = ""
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood)

    attraction: Sequence[float] = field(init=False)
    """The probability that each item attracts a user of any kind who examines it."""
    shares: Sequence[float]
    """The share of the users that click by each model; they sum to one."""
    models: Sequence[ClickModel]
    """By which model each share clicks."""

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.models) or not self.models:
            raise InputError(
                "a mixture needs at least one model and a share for each, "
                f"found {len(self.models)} models and {len(self.shares)} shares"
            )
        kinds = [*_flat(zip(map(float, self.shares), self.models, strict=True))]
        shares, models = zip(*kinds, strict=True)
        if not all(share >= 0 for share in shares) or abs(math.fsum(shares) - 1) > 1e-9:
            raise InputError(f"the shares of a mixture must be at least 0 and sum to 1, found {list(shares)}")
        if len({model.n_items for model in models}) > 1:
            raise InputError(
                "the models of a mixture must know the same items, "
                f"found {', '.join(f'{model.name} with {model.n_items}' for model in models)}"
            )
        mean = np.average([model.attraction for model in models], axis=0, weights=shares)
        object.__setattr__(self, "attraction", tuple(mean.tolist()))
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "models", models)

    @property
    def name(self) -> str:
        kinds = zip(self.shares, self.models, strict=True)
        return "+".join(f"{share:g}*{model.name}" for share, model in kinds)

    @property
    def max_positions(self) -> int:
        return min(model.max_positions for model in self.models)

    def with_items(self, order: Sequence[int]) -> Self:
        return replace(self, models=[model.with_items(order) for model in self.models])

    @property
    def sources(self) -> list[Any]:
        return [*super().sources, *(function for model in self.models for function in model.sources)]

    @property
    def params(self) -> Params:
        upto = np.cumsum(self.shares).tolist()
        upto[-1] = 1.0  # rounding must leave no user without a kind
        parts = zip(self.shares, upto, self.models, strict=True)
        return Params(tuple(Component(share, below, model.params) for share, below, model in parts))


def _flat(kinds: Iterable[tuple[float, ClickModel]]) -> Iterator[tuple[float, ClickModel]]:
    """Mixtures of mixtures as one mixture: a kernel cannot call itself with parameters of another type."""
    for share, model in kinds:
        if isinstance(model, MixtureModel):
            yield from ((share * part, inner) for part, inner in zip(model.shares, model.models, strict=True))
        else:
            yield share, model
