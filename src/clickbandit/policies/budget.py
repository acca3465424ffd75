"""A budget for any policy: it explores only as much as what it has surely earned can pay for.

It believes nothing of users but that clicks on one list say little of those on the next. The policy's list is shown if
after it, even with no click on it, no more than the share `max_loss` of the clicks that the given order would have had
could be lost, for all that is known; else the given order is. With probability 95%, over its whole life, a query
never loses more in expected clicks; lists of which nothing is known yet count as if they had earned nothing.

In the manner of Wu, Shariff, Lattimore, Szepesvári: Conservative Bandits (ICML 2016), and Kazerouni, Ghavamzadeh,
Abbasi-Yadkori, Van Roy: Conservative Contextual Linear Bandits (NIPS 2017).

What was earned by lists that explore is bounded from below, and the given order's clicks from both sides, by
confidence sequences (`budget_kernels.reach`). They are asymptotic. A policy whose `update` takes any list learns from
the given order too.
"""

import importlib
import re
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Self

import numpy as np

from clickbandit.compiling.kernel import is_compiled
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError
from clickbandit.policies import budget_kernels as kernels
from clickbandit.policies.base import Policy, budgets
from clickbandit.policies.contract import Algorithm, Leaps, Live, State
from clickbandit.policies.possible import is_order, like
from clickbandit.policies.random import propensity as any_propensity
from clickbandit.priors import Prior

_OWN = ("given_order", "tally", "max_loss")
_N_TALLIED = 7

# --- states -------------------------------------------------------------------------------------------------


def __getattr__(name: str) -> Any:
    """The state of a policy within a budget, by the name of the policy's own, so that machine code for it is found."""
    found = re.fullmatch(r"within__(?P<module>\w+)__(?P<name>\w+)", name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(found["module"].replace("__", "."))
    return _state_within(getattr(module, found["name"]))


@cache
def _state_within(kind: Any) -> Any:
    """The fields of a policy's state, and those of the budget."""
    name = re.sub(r"\W", "_", f"within__{kind.__module__.replace('.', '__')}__{kind.__qualname__}")
    return namedtuple(name, [*kind._fields, *_OWN], module=__name__)


# --- the policy ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Within(Policy):
    """A policy that may lose a share of the given order's clicks at most, spelled `click-ts within 0.02`.

    >>> from clickbandit import parse_policy
    >>> parse_policy("cts within 0.02")
    Within(policy=CTS(feedback='first'), max_loss=0.02)
    """

    key = ""
    paper = "Wu et al. 2016"

    policy: Policy
    """The policy that explores."""
    max_loss: float
    """The share of the given order's clicks that may be lost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.max_loss < 1:
            raise InputError(
                f"max_loss must be the share of clicks that may be lost, between 0 and 1, found {self.max_loss}"
            )
        if isinstance(self.policy, Within):
            raise InputError(f"a policy has one budget, found {self.policy} within {self.max_loss:g}")

    def __str__(self) -> str:
        return f"{self.policy} within {self.max_loss:g}"

    @property
    def name(self) -> str:
        return f"{self.policy.name} within"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.policy.needs, "order"]))

    @property
    def built_in(self) -> bool:
        return self.policy.built_in

    @property
    def module(self) -> ModuleType:
        return self.policy.module

    @property
    def leaps(self) -> Leaps | None:
        return None

    def renumbered(self, number_of: Sequence[int]) -> Self:
        return replace(self, policy=self.policy.renumbered(number_of))

    @cached_property
    def algorithm(self) -> Algorithm:
        mine, inner = self._kernels, self.policy.algorithm
        return Algorithm(
            self._init,
            self._memo_size,
            mine.rank_within,
            mine.update_within,
            self._best,
            mine.void_within,
            self._prime if inner.prime is not None else None,
        )

    @cached_property
    def live(self) -> Live:
        inner = self.policy.live
        return Live(
            propensity=self._kernels.propensity_within if inner.propensity is not None else None,
            describe=self._describe if inner.describe is not None else None,
            admit=self._admit if inner.admit is not None else None,
            retire=self._retire if inner.retire is not None else None,
            renumber=self._renumber if inner.renumber is not None else None,
            teach=self._teach if inner.teach is not None else None,
            possible=self._possible,
            expect=self._expect if inner.expect is not None else None,
        )

    @cached_property
    def _kernels(self) -> Any:
        """The template's functions for this policy: the same for all with the same functions."""
        inner, live = self.policy.algorithm, self.policy.live
        chosen = {
            "rank": inner.rank,
            "update": inner.update,
            "ignore": inner.void,
            "propensity": live.propensity or any_propensity,
            "any_list": inner.learns_any_list,
        }
        compiled = all(is_compiled(chosen[name]) for name in ("rank", "update", "ignore", "propensity"))
        return specialise(kernels.__name__, compiled=compiled, sources=[inner.init], policy=chosen)

    # --- its functions, for the policy's own part of the state --------------------------------------------

    def _split(self, state: State) -> State:
        kind = _inner_types[type(state)]
        return kind(*state[: len(kind._fields)])

    def _joined(self, inner: State, given_order: Any, tally: Any) -> State:
        own: Any = type(inner)
        kind = _state_within(own)
        _inner_types[kind] = own
        return kind(*inner, np.array(given_order, np.int64), tally, float(self.max_loss))

    def _init(
        self, n_items: int, n_positions: int, *, horizon: int, order: Sequence[int], **told: Any
    ) -> State:
        told = {name: value for name, value in told.items() if name not in ("policy", "max_loss")}
        if "order" in self.policy.needs:
            told["order"] = order
        settings = {field.name: getattr(self.policy, field.name) for field in fields(self.policy)}
        inner = self.policy.algorithm.init(n_items, n_positions, horizon=horizon, **{**settings, **told})
        return self._joined(inner, order, np.zeros(_N_TALLIED))

    def _prime(self, state: State, prior: Prior) -> State:
        assert self.policy.algorithm.prime is not None
        inner = self.policy.algorithm.prime(self._split(state), prior)
        return self._joined(inner, prior.order, state.tally)

    def _memo_size(self, n_items: int, n_positions: int) -> int:
        """The policy's, and what the list is."""
        return self.policy.algorithm.memo_size(n_items, n_positions) + 1

    def _best(self, state: State, ranking: Any) -> None:
        self.policy.algorithm.best(self._split(state), ranking)

    def _describe(self, state: State) -> dict[str, Any]:
        assert self.policy.live.describe is not None
        told = self.policy.live.describe(self._split(state))
        for name in ("groups", "settled", "next_decision"):  # the given order may be shown instead of these
            told.pop(name, None)
        return {**told, "budget": describe_budget(state)}

    def _teach(self, state: State) -> Any:
        assert self.policy.live.teach is not None
        return self.policy.live.teach(self._split(state))

    def _possible(self, state: State, fresh: State) -> bool:
        return (
            (self.policy.live.possible or like)(self._split(state), self._split(fresh))
            and is_order(state.given_order, len(fresh.given_order))
            and state.tally.shape == fresh.tally.shape
        )

    def _admit(self, state: State, n_new: int) -> State:
        assert self.policy.live.admit is not None
        new = range(len(state.given_order), len(state.given_order) + n_new)
        inner = self.policy.live.admit(self._split(state), n_new)
        return self._joined(inner, [*state.given_order, *new], state.tally)

    def _expect(self, state: State, expected: Sequence[tuple[float, float]]) -> State:
        assert self.policy.live.expect is not None
        inner = self.policy.live.expect(self._split(state), expected)
        return self._joined(inner, state.given_order, state.tally)

    def _retire(self, state: State, item: int) -> State:
        assert self.policy.live.retire is not None
        left = [other - (other > item) for other in state.given_order if other != item]
        return self._joined(self.policy.live.retire(self._split(state), item), left, state.tally)

    def _renumber(self, memo: Any, numbers: Any, n_items: int) -> Any:
        assert self.policy.live.renumber is not None
        return np.append(self.policy.live.renumber(memo[:-1].copy(), numbers, n_items), memo[-1])


_inner_types: dict[Any, Any] = {}
"""By the type of a state within a budget: that of the policy's own."""


def describe_budget(state: State) -> dict[str, Any]:
    """How much of the budget is spent: of the clicks that may be lost, those that may have been."""
    tally, loss = state.tally, float(state.max_loss)
    given, clicks = tally[kernels.GIVEN_LISTS], tally[kernels.GIVEN_CLICKS]
    rate = clicks / max(given, 1.0)
    exploring = tally[kernels.LISTS] + tally[kernels.WAITING]
    earned = max(
        0.0,
        tally[kernels.CLICKS]
        - kernels.reach(
            tally[kernels.LISTS], tally[kernels.CLICKS], tally[kernels.SQUARES], kernels.EARNED_LEVEL
        ),
    )
    allowed = loss * rate * (given + exploring)
    lost = max(0.0, exploring * rate - earned)
    return {
        "max_loss": loss,
        "explored": float(exploring),
        "shown_given": float(given),
        "spent": float(min(1.0, lost / allowed)) if allowed > 0 else 0.0,
    }


budgets.append(Within)
