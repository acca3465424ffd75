"""What every click model shares: parameters with their checks, and the functions of its module as methods.

A click model's module has its kernels and ends with a frozen class of its parameters, which names them (`contract`).
See CONTRIBUTING.md for a worked example.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np

from clickbandit import click_models, registry
from clickbandit.click_models.contract import Functions, Patterns
from clickbandit.click_models.fitting import FitOptions, GroupedCounts, ParameterEstimate
from clickbandit.click_models.patterns import ENUMERATED
from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted
from clickbandit.documented import Documented, hints_of
from clickbandit.errors import InputError

MAX_POSITIONS = 64
"""The longest list of a log, whose clicks are kept as the bits of one number."""
RATES = ("GCTR", "RCTR", "DCTR")
"""Click rates: baselines that click models are compared with. A queries file may hold them, but they order no
items, so nothing can be learned from their users."""


@dataclass(frozen=True)
class Law(Documented):
    """Parameters of how users click: what click models share with click rates, which have no attraction.

    Parameters are given as sequences of probabilities and kept as tuples; `params` has them as arrays for the
    kernels. Values for positions may be more than are shown: the first ones are used.
    """

    functions: ClassVar[Functions]
    """The model's kernels."""
    patterns: ClassVar[Patterns] = ENUMERATED
    """What leaps use."""
    paper: ClassVar[str] = ""
    """Where the model comes from."""
    key: ClassVar[str | None] = None
    """Its name in a queries file, if that is not its module's; empty if a file cannot hold it."""
    by_item: ClassVar[tuple[str, ...]] = ()
    """The parameters with a value for each item; the others are the same for all queries of a log."""

    def __post_init__(self) -> None:
        hints = hints_of(type(self))
        for field in fields(self):
            object.__setattr__(self, field.name, _freeze(getattr(self, field.name)))
            self._check_probabilities(field.name, getattr(self, field.name), hints[field.name])

    def _check_probabilities(self, field: str, value: Any, hint: Any) -> None:
        """Check a field against its type: one probability, a sequence of them, or a sequence of sequences."""
        entries = get_args(hint)
        if isinstance(value, tuple) != bool(entries):
            expected = "a list of probabilities" if entries else "a probability between 0 and 1"
            raise InputError(f"{self.name}: {field} must be {expected}, found {value!r}")
        if isinstance(value, tuple):
            for entry in value:
                self._check_probabilities(field, entry, entries[0])
        elif not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise InputError(f"{self.name}: {field} must hold probabilities between 0 and 1, found {value!r}")

    @property
    def name(self) -> str:
        """The model's name in a queries file and in results."""
        return registered.name_of(type(self)) or type(self).__name__

    @property
    def n_items(self) -> int:
        """How many items the model knows; one that does not tell them apart knows any that a list can show."""
        return len(getattr(self, self.by_item[0])) if self.by_item else MAX_POSITIONS

    @property
    def max_positions(self) -> int:
        """The longest list for which the model says how users click."""
        return self.n_items

    @property
    def sources(self) -> list[Any]:
        """All functions that the model's kernels may run."""
        return [*vars(self.functions).values()]

    @property
    def params(self) -> Any:
        """The parameters as the arrays that the kernels take."""
        values = (getattr(self, field.name) for field in fields(self))
        return self.functions.params(
            *(np.asarray(value, float) if isinstance(value, tuple) else float(value) for value in values)
        )

    def check_positions(self, n_positions: int) -> None:
        """Refuse a list longer than the model allows."""
        if n_positions < 1:
            raise InputError(f"positions must be at least 1, found {n_positions}")
        if n_positions > self.n_items:
            raise InputError(f"{n_positions} positions need as many items, but there are only {self.n_items}")
        if n_positions > self.max_positions:
            raise InputError(
                f"{self.name}: {n_positions} positions need as many values by position, "
                f"but there are only {self.max_positions}"
            )

    def click(self, ranking: Sequence[int], rng: np.random.Generator) -> IntArray:
        """One user's clicks on a list: 1 where clicked."""
        shown = self._list(ranking)
        clicks = np.zeros(len(shown), np.int64)
        self._run("click")(self.params, rng, shown, clicks)
        return clicks

    def click_probability(self, ranking: Sequence[int]) -> FloatArray:
        """The probability of a click at each position of a list."""
        shown = self._list(ranking)
        out = np.zeros(len(shown))
        self._run("click_probability")(self.params, shown, out)
        return out

    def examination_probability(self, ranking: Sequence[int]) -> FloatArray:
        """The probability that each position of a list is examined."""
        shown = self._list(ranking)
        out = np.zeros(len(shown))
        self._run("examination_probability")(self.params, shown, out)
        return out

    def log_likelihood(self, ranking: Sequence[int], clicks: Sequence[int]) -> float:
        """The logarithm of the probability of these clicks on this list."""
        shown = self._list(ranking)
        if len(clicks) != len(shown):
            raise InputError(
                f"expected a click or none for each of {len(shown)} positions, found {len(clicks)}"
            )
        return float(self._run("log_likelihood")(self.params, shown, np.asarray(clicks, np.int64)))

    @classmethod
    def fit(cls, counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
        """Learn the parameters from grouped counts."""
        if cls.functions.fit is None:
            raise InputError(
                f"{cls.__name__} cannot be fitted to a log: take one of {', '.join(model_names())}"
            )
        return cls.functions.fit(counts, options)

    def best_list(self, n_positions: int) -> list[int] | None:
        """The list with the most expected clicks, where the model's form gives it away; else None."""
        return None

    def reward(self, ranking: Sequence[int]) -> float:
        """The expected number of clicks on a list."""
        return float(self.click_probability(ranking).sum())

    def _run(self, name: str) -> Any:
        """A kernel as plain Python: for a single list that is faster than compiling it."""
        return interpreted(getattr(self.functions, name))

    def _list(self, ranking: Sequence[int]) -> IntArray:
        shown = np.asarray(ranking, np.int64)
        self.check_positions(len(shown))
        if len(set(shown.tolist())) < len(shown) or shown.min() < 0 or shown.max() >= self.n_items:
            raise InputError(f"expected different items from 0 to {self.n_items - 1}, found {shown.tolist()}")
        return shown


@dataclass(frozen=True)
class ClickModel(Law):
    """The base of every click model's public class: users who are attracted by items that they examine."""

    by_item: ClassVar[tuple[str, ...]] = ("attraction",)

    attraction: Sequence[float]
    """The probability that each item attracts the user who examines it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.attraction:
            raise InputError(f"{self.name}: attraction must have at least one item")
        for name in self.by_item:
            found = len(getattr(self, name))
            if found != self.n_items:
                raise InputError(
                    f"{self.name}: {name} must have a value for each of the {self.n_items} items, found {found}"
                )

    def by_attraction(self) -> list[int]:
        """The items, the most attractive first; of equal ones the lower number."""
        return [int(item) for item in np.argsort(-np.asarray(self.attraction), kind="stable")]

    def with_items(self, order: Sequence[int]) -> Self:
        """The same users with the items in another order: item i is what item order[i] is here."""
        values = {name: tuple(getattr(self, name)[i] for i in order) for name in self.by_item}
        if type(self).__post_init__ is not ClickModel.__post_init__:
            return replace(self, **values)
        other = object.__new__(type(self))  # what is right in one order need not be checked in another
        vars(other).update(vars(self), **values)
        return other


def _freeze(value: Any) -> Any:
    """Nested sequences as nested tuples of plain numbers."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    return tuple(map(_freeze, value)) if isinstance(value, (list, tuple)) else value


registered = registry.Registry(click_models, Law, "click model", str.upper)
"""All click models and click rates, by their names in a queries file."""


def model_names() -> list[str]:
    """The names of all click models; a queries file may also hold the click rates (`RATES`)."""
    return [name for name in registered.names() if name not in RATES]


def model_class(name: str) -> type[ClickModel]:
    """The class of a click model, or of a click rate, by its name in a queries file."""
    return cast(type[ClickModel], registered.get(name))  # rates have no attraction, but else are used alike


def refuse_rate(law: Law) -> None:
    """Refuse a click rate where items are to be ordered."""
    if not isinstance(law, ClickModel):
        raise InputError(
            f"expected a click model that orders items, found the click rate {law.name}: "
            f"take one of {', '.join(model_names())}"
        )
