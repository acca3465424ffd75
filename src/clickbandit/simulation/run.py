"""One run: a policy that learns from simulated users, step by step, and can be saved at any step."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numba.core.errors import NumbaError

from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError
from clickbandit.leaps.buffers import make_margin, make_scratch
from clickbandit.policies.base import Policy
from clickbandit.policies.contract import Leaps, Margins
from clickbandit.priors import Prior
from clickbandit.queries import Against, Query, reference_list
from clickbandit.randomness import STREAMS, circumstances, generators
from clickbandit.simulation import noise
from clickbandit.simulation.arguments import PolicyLike, Users, read_policy, read_users, whole
from clickbandit.simulation.drift import Change, read_drift, shuffled
from clickbandit.simulation.memory import Pattern, make_slots

MIN_HORIZON = 5
MIN_STEPS_TO_LEAP = 100_000
MIN_STEPS_TO_LEAP_BY_MARGIN = 1_000_000
"""Runs of fewer steps than this are taken sooner than the code that leaps over them is compiled."""
Method = Literal["auto", "step", "leap"]
"""One by one, many at once wherever the policy allows, or (auto) many at once where that is quicker."""


class Problem:
    """A policy and the users that it meets: all that runs with different seeds share."""

    def __init__(
        self,
        policy: PolicyLike,
        model: Users,
        *,
        positions: int,
        horizon: float,
        query: str = "",
        delay: float = 0,
        drift: Sequence[Change] = (),
        flip: float = 0.0,
        method: Method = "auto",
        against: Against = "clicks",
        prior: Prior | None = None,
    ) -> None:
        policy = read_policy(policy)
        self.features = model.features if isinstance(model, Query) and len(model.features) else None
        model, query = read_users(model, query)
        positions, horizon = whole("positions", positions), whole("horizon", horizon)
        delay = whole("delay", delay)
        if horizon < MIN_HORIZON:
            raise InputError(f"at least {MIN_HORIZON} steps are needed, found {horizon}")
        if method not in get_args(Method):
            raise InputError(f"method must be auto, step or leap, found {method!r}")
        if delay < 0:
            raise InputError(f"delay must be a number of steps, 0 or more, found {delay}")
        if not 0 <= flip <= 1:
            raise InputError(f"flip must be the share of clicks to invert, from 0 to 1, found {flip}")
        self.policy = policy
        self.model = model
        self.positions = positions
        self.horizon = horizon
        self.query = query
        self.delay = delay
        self.flip = float(flip)
        self.against = against
        self.prior = prior
        if prior is not None:
            policy.check_prior(prior, model.n_items)
        self.best_list, self.best_reward = reference_list(model, positions, against)
        self.drift = read_drift(drift, model, positions)
        for name in missing_knowledge(policy, model):
            raise InputError(
                f"{policy.name} must be told the users' {name}, which {model.name} does not have"
            )
        can_leap = policy.leaps is not None and delay == 0 and flip == 0
        if method == "leap" and not can_leap:
            why = f" with a delay of {delay}" if delay else " where clicks are inverted" if flip else ""
            raise InputError(f"{policy} cannot leap{why}: use method step")
        by_margin = isinstance(policy.leaps, Margins)
        enough = MIN_STEPS_TO_LEAP_BY_MARGIN if by_margin else MIN_STEPS_TO_LEAP
        self.leaps = can_leap and (method == "leap" or (method == "auto" and horizon >= enough))
        self.always_leaps = method == "leap"
        self.in_pairs = isinstance(policy.leaps, Leaps) and policy.leaps.in_pairs
        self.spare_scratch: list[Any] = []

    def with_prior(self, prior: Prior) -> "Problem":
        """The same problem, started from a prior."""
        self.policy.check_prior(prior, self.model.n_items)
        other = copy(self)
        other.prior = prior
        return other

    def try_out(self) -> None:
        """Take a few steps as plain Python, and say in one sentence what is wrong with a user's own policy."""
        doing = "init"
        try:
            state = self.start()
            if not hasattr(state, "_asdict"):
                raise InputError(
                    f"init must give a NamedTuple of arrays and numbers, found {type(state).__name__}"
                )
            memo_size = self.policy.algorithm.memo_size(self.model.n_items, self.positions)
            rng, users = generators(0, self.query, self.model.name, str(self.policy), 0)
            for _ in range(20):
                ranking, memo = np.full(self.positions, -1), np.zeros(memo_size)
                doing = "rank"
                interpreted(self.policy.algorithm.rank)(state, rng, ranking, memo)
                clicks = self.model.click(ranking.tolist(), users)
                doing = "update"
                interpreted(self.policy.algorithm.update)(state, ranking, clicks, memo)
        except Exception as error:
            raise InputError(f"{self.policy}: {doing} failed: {type(error).__name__}: {error}") from error
        try:
            Run(self).advance(0)
        except NumbaError as error:
            raise InputError(
                f"{self.policy}: it cannot be compiled: {_cause(error)} (kernels make no arrays; leave @kernel off to "
                "run as plain Python)"
            ) from error

    def periods(self, numbering: Sequence[int], circumstances: np.random.Generator) -> "list[Period]":
        """The users of a run that calls item `numbering[i]` of the query i: of the start, and after each drift."""
        periods = [self._period(self.model.with_items(numbering), self.best_reward)]
        for _, users in self.drift:
            if users is None:
                periods.append(self._period(shuffled(self.model, circumstances), self.best_reward))
            else:
                best_reward = reference_list(users, self.positions, self.against)[1]
                periods.append(self._period(users.with_items(numbering), best_reward))
        return periods

    def _period(self, users: ClickModel, best_reward: float) -> "Period":
        params = noise.Params(users.params, self.flip) if self.flip else users.params
        return Period(users, params, best_reward)

    def start(self, numbering: Sequence[int] = ()) -> Any:
        """The policy's state before the first step, where item `numbering[i]` of the query is called i; without one,
        all items are called as they are there."""
        n_items = self.model.n_items
        number_of = np.argsort(numbering).tolist() or list(range(n_items))
        policy, knowledge = self.policy.renumbered(number_of), self.knowledge(number_of)
        prior = self.prior and self.prior.renumbered(number_of)
        return policy.start(n_items, self.positions, horizon=self.horizon, prior=prior, **knowledge)

    def knowledge(self, number_of: Sequence[int]) -> dict[str, Any]:
        """What the policy is told of the users, where item i of the query is called `number_of[i]`."""
        known = {
            "best_list": [number_of[item] for item in self.best_list],
            "examination": getattr(self.model, "examination", None),
            "order": list(number_of),
            "features": None
            if self.features is None
            else [self.features[item] for item in np.argsort(number_of)],
        }
        return {name: known[name] for name in self.policy.needs}

    def pattern(self, numbering: Sequence[int]) -> Pattern:
        """The arrays of a run with this numbering before its first step, to be copied: the same where the policy is
        told nothing of items."""
        policy = self.policy
        told = policy.needs or self.prior or type(policy).renumbered is not Policy.renumbered
        if policy.built_in and not told and self._pattern.can_copy:
            return self._pattern
        return self._make_pattern(numbering)

    def _make_pattern(self, numbering: Sequence[int] = ()) -> Pattern:
        memo_size = self.policy.algorithm.memo_size(self.model.n_items, self.positions)
        return Pattern(make_slots(self.delay + 1, self.positions, memo_size), self.start(numbering))

    _pattern = cached_property(_make_pattern)

    def take_scratch(self) -> Any:
        """The arrays that leaps write to: some that another run has done with, or new ones."""
        try:
            return self.spare_scratch.pop()
        except IndexError:
            n_items, positions = self.model.n_items, self.positions
            if isinstance(self.policy.leaps, Margins):
                return make_margin(n_items, positions)
            return make_scratch(n_items, positions, self.in_pairs)

    @cached_property
    def loop(self) -> Any:
        """The module that takes steps for this policy and this click model, compiled if the policy is."""
        return self.make_loop(compiled=self.policy.compiled)

    @property
    def is_compiled(self) -> bool:
        """Whether the loop's machine code is at hand, or none is needed."""
        entry = self.loop.leap if self.leaps else self.loop.interact
        return bool(getattr(entry, "overloads", True))

    def make_loop(self, *, compiled: bool) -> Any:
        """That module, compiled or as plain Python."""
        algorithm, model = self.policy.algorithm, self.model
        make = partial(specialise, compiled=compiled, sources=[algorithm.init, *model.sources])
        leaps = self.policy.leaps if self.leaps else None
        if isinstance(leaps, Margins):
            functions = {**vars(algorithm), **vars(leaps)}
            return make("clickbandit.leaps.by_margin", policy=functions, model=vars(model.functions))
        loop = make(
            "clickbandit.simulation.delayed" if self.delay else "clickbandit.simulation.loop",
            policy=vars(algorithm),
            model=vars(noise if self.flip else model.functions),
        )
        if not self.leaps:
            return make("clickbandit.simulation.windows", loop=vars(loop))
        outcomes = make("clickbandit.leaps.by_pattern", policy=vars(leaps), law=vars(model.patterns))
        if model.patterns.independent_positions and not self.in_pairs:
            outcomes = make("clickbandit.leaps.by_examination", policy=vars(leaps), outcomes=vars(outcomes))
        return make("clickbandit.leaps.leap", policy=vars(leaps), loop=vars(loop), outcomes=vars(outcomes))


class Period(NamedTuple):
    """Users who stay the same for some time."""

    model: ClickModel
    params: Any
    """Theirs, as the loop takes them."""
    best_reward: float


def missing_knowledge(policy: Policy, model: ClickModel) -> list[str]:
    """What a policy must be told of the users that this click model does not have: then it cannot be run on it.

    >>> from clickbandit import CascadeModel
    >>> missing_knowledge(read_policy("pbm-ucb"), CascadeModel(attraction=[0.8, 0.2]))
    ['examination']
    """
    # in the UBM examination depends on the clicks above, so it has a row of values for each position
    by_position = all(isinstance(value, (int, float)) for value in getattr(model, "examination", [()]))
    return [name for name in policy.needs if name == "examination" and not by_position]


class Run:
    """One run of a problem, which goes on as far as it is told to.

    A run has its own numbers for the items, by chance, so that no policy gains by showing low numbers first where it
    knows nothing. All inside a run is in these numbers: state, users and lists shown; `best` is in the query's.

    >>> from clickbandit import CascadeModel, RankedExp3
    >>> problem = Problem(RankedExp3(), CascadeModel(attraction=[0.8, 0.2]), positions=1, horizon=1000)
    >>> run = Run(problem, seed=1)
    >>> regret, clicks = run.advance(1000)
    >>> run.step
    1000
    """

    def __init__(self, problem: Problem, *, seed: int = 0, run: int = 0) -> None:
        self.problem = problem
        self.seed = seed
        self.run = run
        self.step = 0
        query, model = problem.query, problem.model.name
        chance = circumstances(seed, query, model, run)
        self.numbering: list[int] = chance.permutation(problem.model.n_items).tolist()
        """By the run's number of an item: its number in the query."""
        self.periods = problem.periods(self.numbering, chance)
        """The users of the start, and those after each drift."""
        self.rng, self.users = generators(seed, query, model, str(problem.policy), run)
        self.slots, self.state = problem.pattern(self.numbering).copies()
        self.loop = problem.loop

    def advance(self, steps: int) -> tuple[float, int]:
        """Take more steps; the expected regret and the number of clicks over these.

        Leaps end where `steps` do: to have the same run again, advance by the same numbers of steps.
        """
        regret, clicks = self.advance_windows(np.array([self.step + steps]))
        return float(regret[0]), int(clicks[0])

    def advance_windows(self, ends: IntArray) -> tuple[FloatArray, IntArray]:
        """Go on to each of these steps; the expected regret and the number of clicks on the way to each."""
        if not self.problem.drift:
            return self._advance(self.periods[0], ends)
        changes = np.array([drift.after for drift in self.problem.drift], np.int64)
        stops = np.union1d(ends, changes[(self.step < changes) & (changes < ends[-1])])
        windows, periods = np.searchsorted(ends, stops), np.searchsorted(changes, stops)
        regret, clicks = np.zeros(len(ends)), np.zeros(len(ends), np.int64)
        for period in np.unique(periods):
            these = periods == period
            more_regret, more_clicks = self._advance(self.periods[period], stops[these])
            np.add.at(regret, windows[these], more_regret)
            np.add.at(clicks, windows[these], more_clicks)
        return regret, clicks

    def _advance(self, period: Period, ends: IntArray) -> tuple[FloatArray, IntArray]:
        """The same while users stay the same."""
        regret, clicks = np.zeros(len(ends)), np.zeros(len(ends), np.int64)
        arguments = (
            *(self.state, period.params, self.rng, self.users, self.slots),
            *(period.best_reward, self.step, ends, regret, clicks),
        )
        if self.problem.leaps:
            scratch = self.problem.take_scratch()
            self.loop.leap(*arguments, self.problem.always_leaps, scratch)
            self.problem.spare_scratch.append(scratch)
        else:
            self.loop.interact(*arguments)
        self.step = int(ends[-1])
        if self.step > 0 and not (self.problem.leaps or self.problem.policy.built_in):
            self._check_last_list()
        return regret, clicks

    def _check_last_list(self) -> None:
        """Refuse what is no list, from a user's own policy: compiled code does not look at each."""
        last = self.slots.rankings[(self.step - 1) % len(self.slots.rankings)]
        try:
            self.problem.model.click_probability(last.tolist())
        except InputError as error:
            raise InputError(f"{self.problem.policy}: the list of step {self.step:,}: {error}") from None

    def best(self) -> list[int]:
        """The list that the policy would show if it stopped exploring now, in the query's numbers."""
        ranking = np.zeros(self.problem.positions, np.int64)
        self.problem.policy.algorithm.best(self.state, ranking)
        return [self.numbering[item] for item in ranking]

    def snapshot(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that the run's future depends on, as arrays (for `numpy.savez`, say)."""
        return {
            "identity": np.array(self._identity()),
            "step": np.array(self.step),
            "rng": np.array(_write(self.rng)),
            "users": np.array(_write(self.users)),
            "rankings": self.slots.rankings.copy(),
            "clicks": self.slots.clicks.copy(),
            "memos": self.slots.memos.copy(),
            **{f"state.{name}": np.array(value) for name, value in self.state._asdict().items()},
        }

    def restore(self, snapshot: Mapping[str, np.ndarray[Any, Any]]) -> "Run":
        """Go on from a snapshot of the same run; the steps to come are those that it would have taken."""
        if str(snapshot["identity"]) != self._identity():
            raise InputError(
                f"the snapshot is of another run: expected {self._identity()}, found {snapshot['identity']}"
            )
        self.step = int(snapshot["step"])
        for generator, name in ((self.rng, "rng"), (self.users, "users")):
            generator.bit_generator.state = json.loads(str(snapshot[name]))
        self.slots.rankings[:] = snapshot["rankings"]
        self.slots.clicks[:] = snapshot["clicks"]
        self.slots.memos[:] = snapshot["memos"]
        # by their order, for fields may have had other names when they were written
        saved = [value for name, value in snapshot.items() if name.startswith("state.")]
        for value, before in zip(self.state, saved, strict=False):
            if isinstance(value, np.ndarray):
                value[...] = before
        return self

    def _identity(self) -> str:
        problem = self.problem
        prior = {} if problem.prior is None else {"prior": _hash(problem.prior)}
        return json.dumps(
            {
                "streams": STREAMS,
                "policy": str(problem.policy),
                "model": problem.model.name,
                "parameters": _hash(problem.model),
                "query": problem.query,
                "items": problem.model.n_items,
                "positions": problem.positions,
                "horizon": problem.horizon,
                "delay": problem.delay,
                "drift": [[drift.after, _hash(drift.model)] for drift in problem.drift],
                "flip": problem.flip,
                "leaps": problem.leaps,
                "against": problem.against,
                "seed": self.seed,
                "run": self.run,
                **prior,
            }
        )


def _hash(given: ClickModel | Prior | None) -> str | None:
    return hashlib.sha256(repr(given).encode()).hexdigest()[:16] if given else None


def _write(generator: np.random.Generator) -> str:
    """A generator's state as text."""
    return json.dumps(generator.bit_generator.state, default=lambda array: array.tolist())


def _cause(error: NumbaError) -> str:
    """The first line of numba's report that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Failed in", "During", "File", "- "))]
    return (telling or lines)[0]
