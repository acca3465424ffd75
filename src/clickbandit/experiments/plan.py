"""What an experiment is: queries with their click models, and the runs to make on them, as data."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from clickbandit.click_models.base import ClickModel
from clickbandit.errors import InputError
from clickbandit.policies.base import parse_policy
from clickbandit.priors import Prior
from clickbandit.queries import Against, Query
from clickbandit.simulation.outcome import Outcome, check_steps
from clickbandit.simulation.run import Method, Problem


class Source(Protocol):
    """Where the priors of an experiment come from (`experiments.priors`)."""

    def prior(self, query: Query, model: str, /) -> Prior: ...


@dataclass(frozen=True)
class Conditions:
    """What the runs of an experiment have in common."""

    steps: int
    runs: int
    positions: int
    seed: int
    horizon: int | None = None
    """The number of steps that policies are tuned for; None: all of them."""
    delay: int = 0
    drift: Sequence[int] = ()
    """Steps after which the users like other items."""
    flip: float = 0.0
    """The share of clicks that are seen inverted."""
    method: Method = "auto"
    against: Against = "clicks"
    """The list that regret is against."""
    until_settled: bool = False
    """Whether runs end when their list is settled."""
    prior: Source | None = None
    """What policies that can start from a prior are given."""


@dataclass(frozen=True)
class Unit:
    """One run of a policy on the users of a query: the least that is run and kept as a whole."""

    policy: str
    """As it is spelled on the command line, and in results."""
    model: str
    query: str
    run: int
    steps: int
    positions: int
    seed: int
    horizon: int
    delay: int = 0
    drift: tuple[int, ...] = ()
    flip: float = 0.0
    method: Method = "auto"
    against: Against = "clicks"
    until_settled: bool = False
    prior: Prior | None = None

    @property
    def name(self) -> tuple[str, str, str, int]:
        """What tells it from the other units of its plan: a row of results has no more."""
        return self.policy, self.model, self.query, self.run

    @property
    def first(self) -> "Unit":
        """The first run of the same problem."""
        return replace(self, run=0)


@dataclass(frozen=True)
class Plan:
    """All units of an experiment, and the queries that they are run on."""

    queries: Sequence[Query]
    units: Sequence[Unit]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How the plan came about, for people and for the manifest: texts, numbers, and lists and objects of them."""

    def __post_init__(self) -> None:
        if not self.units:
            raise InputError("there is nothing to run: name at least one policy, click model and query")
        if len({unit.name for unit in self.units}) < len(self.units):
            raise InputError("the plan has the same run twice: name each policy, click model and query once")

    @cached_property
    def problems(self) -> dict[Unit, Problem]:
        """The problem of each unit; runs of the same one share it. Making them checks all settings."""
        made: dict[Unit, Problem] = {}
        problems = {}
        for unit in self.units:
            if unit.first not in made:
                made[unit.first] = problem_of(unit, self.users(unit))
                check_steps(made[unit.first], unit.steps)
            problems[unit] = made[unit.first]
        return problems

    @cached_property
    def _by_name(self) -> dict[str, Query]:
        return {query.query: query for query in self.queries}

    def users(self, unit: Unit) -> ClickModel:
        """The users that a unit meets."""
        return self._by_name[unit.query].model(unit.model)

    @cached_property
    def steps(self) -> int:
        """The steps of all units together."""
        return sum(unit.steps for unit in self.units)

    def identity(self, unit: Unit) -> dict[str, Any]:
        """All that the numbers of a unit depend on, but for the code."""
        known: dict[str, Any] = {"drift": ",".join(map(str, unit.drift))}
        known["users"] = hash_of(repr(self.users(unit)))[:16]
        identity = {**asdict(replace(unit, prior=None)), **known}
        if unit.prior is None:
            del identity["prior"]
        else:
            identity["prior"] = hash_of(repr(unit.prior))[:16]
        return identity

    @cached_property
    def digest(self) -> str:
        """A hash of all units."""
        return digest_of(self.identity(unit) for unit in self.units)

    @cached_property
    def input_digest(self) -> str:
        """A hash of the queries and their click models."""
        return digest_of_queries(self.queries)

    @cached_property
    def own_policies(self) -> dict[str, str]:
        """The user's own policies, each with a hash of its file."""
        texts = dict.fromkeys(unit.policy for unit in self.units)
        policies = {text: parse_policy(text) for text in texts}
        return {
            text: hash_of(Path(str(policy.module.__file__)).read_text(encoding="utf-8"))[:16]
            for text, policy in policies.items()
            if not policy.built_in
        }


def grid(
    policies: Iterable[str], queries: Sequence[Query], models: Sequence[str], conditions: Conditions
) -> list[Unit]:
    """Each policy on each click model of each query, as often as there are runs.

    First all of the first runs, then all of the second: stopped in between, no policy or query is ahead of the others.
    """
    if conditions.runs < 1:
        raise InputError(f"runs must be at least 1, found {conditions.runs}")
    common = {field.name: getattr(conditions, field.name) for field in fields(conditions)}
    runs, source = range(common.pop("runs")), common.pop("prior")
    common["drift"] = tuple(conditions.drift)
    if conditions.horizon is None:
        common["horizon"] = conditions.steps
    policies = list(policies)
    priors = {
        (query.query, model): None if source is None else source.prior(query, model)
        for query in queries
        for model in models
    }
    able = {policy for policy in policies if takes_prior(policy)}
    return [
        Unit(
            policy,
            model,
            query.query,
            run,
            **common,
            prior=priors[query.query, model] if policy in able else None,
        )
        for run in runs
        for query in queries
        for model in models
        for policy in policies
    ]


def takes_prior(policy: str) -> bool:
    """Whether a policy can start from a prior."""
    return parse_policy(policy).algorithm.prime is not None


class Job(NamedTuple):
    """A unit and the problem that it is a run of."""

    unit: Unit
    problem: Problem


Keep = Callable[[int, Outcome], None]
"""What is called with the number of a job and its outcome, as soon as it is finished."""


def problem_of(unit: Unit, users: ClickModel) -> Problem:
    """The problem that a unit is a run of."""
    return Problem(
        unit.policy,
        users,
        positions=unit.positions,
        horizon=unit.horizon,
        query=unit.query,
        delay=unit.delay,
        drift=unit.drift,
        flip=unit.flip,
        method=unit.method,
        against=unit.against,
        prior=unit.prior,
    )


def digest_of(identities: Iterable[Mapping[str, Any]]) -> str:
    """A hash of units, in whatever order they come."""
    return hash_of("\n".join(sorted(json.dumps(identity, sort_keys=True) for identity in identities)))


def digest_of_queries(queries: Iterable[Query]) -> str:
    """A hash of queries, their items and their click models."""
    return hash_of("\n".join(repr((query.query, list(query.items), query.models)) for query in queries))


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
