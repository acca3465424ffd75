"""A comparison of policies as data: which are run, on which click models of the queries, and what is left out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from clickbandit.click_models.base import RATES, model_names
from clickbandit.errors import InputError
from clickbandit.experiments.plan import Conditions, Plan, grid, takes_prior
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.queries import Query
from clickbandit.simulation.run import missing_knowledge

KIND, SIMULATION = "comparison", "simulation"
"""What the manifest of a comparison says it is, and that of the command `simulate`, which runs the same."""
ALL = "all"
"""Stands for all policies."""
YARDSTICKS = ("random", "optimal", "given")
"""Policies that learn nothing: others are measured by them, and they have no rank."""
VARIANTS = ("batchrank:variant=experiment",)
"""Policies of the library that are other algorithms with other settings."""


class Field(NamedTuple):
    """Who meets whom."""

    policies: list[str]
    models: list[str]
    skipped: set[tuple[str, str]]
    """Policies and models that do not go together."""
    notes: list[str]
    """What is left out and why, in sentences."""


def all_policies() -> list[str]:
    """All that learn, and random lists as a yardstick. Of the others the best list has no regret anywhere, and the
    given order is one only where an order is given."""
    return [*sorted({*policy_names(), *VARIANTS} - set(YARDSTICKS)), "random"]


def choose(queries: Sequence[Query], policies: Sequence[str], models: Sequence[str] | None) -> Field:
    """The field for these policies ("all" may be among them) and models, or all click models that every query has.

    What is named must be there, and what is not is left out.
    """
    notes = []
    if models is None:
        names = dict.fromkeys([*(name for name in queries[0].models if name not in RATES), *model_names()])
        having = {name: sum(name in query.models for query in queries) for name in names}
        models = [name for name, n in having.items() if n == len(queries)]
        nowhere = [name for name, n in having.items() if n == 0]
        partly = [f"{name} ({n} of {len(queries)})" for name, n in having.items() if 0 < n < len(queries)]
        if nowhere:
            notes.append(f"no query has the click models {', '.join(nowhere)}")
        if partly:
            notes.append(f"not every query has the click models {', '.join(partly)}")
        if not models:
            raise InputError(f"there must be a click model that every query has: {'; '.join(notes)}")
    everyone = all_policies() if ALL in policies else []
    chosen = dict.fromkeys(name for policy in policies for name in (everyone if policy == ALL else [policy]))
    skipped = {
        (policy, model)
        for policy in everyone
        if policy not in policies
        for model in models
        if missing_knowledge(parse_policy(policy), queries[0].model(model))
    }
    notes += _skipped(skipped, models)
    return Field(list(chosen), list(models), skipped, notes)


def _skipped(skipped: set[tuple[str, str]], models: Sequence[str]) -> Iterator[str]:
    """A sentence for all policies that are left out in the same models."""
    without: dict[str, list[str]] = {}
    for policy in sorted({policy for policy, _ in skipped}):
        where = ", ".join(model for model in models if (policy, model) in skipped)
        without.setdefault(where, []).append(policy)
    for where, policies in without.items():
        yield (
            f"{', '.join(policies)} must be told how often users examine each position, which {where} cannot say: "
            "left out there"
        )


def within_budget(field: Field, max_loss: float) -> Field:
    """The same field, with a budget for each policy that learns."""
    names = {
        policy: policy if policy in YARDSTICKS else f"{policy} within {max_loss:g}"
        for policy in field.policies
    }
    skipped = {(names[policy], model) for policy, model in field.skipped}
    return field._replace(policies=list(names.values()), skipped=skipped)


def plan_comparison(
    queries: Sequence[Query], field: Field, conditions: Conditions, *, input: str, kind: str = KIND
) -> Plan:
    """All runs of a comparison; `input` says for the manifest where the queries come from."""
    units = [
        unit
        for unit in grid(field.policies, queries, field.models, conditions)
        if (unit.policy, unit.model) not in field.skipped
    ]
    plan = Plan(queries, units)
    unable = [policy for policy in field.policies if conditions.prior is not None and not takes_prior(policy)]
    if unable:
        field.notes.append(f"{', '.join(unable)} cannot start from a prior: run without one")
    learning = {policy: parse_policy(policy) for policy in field.policies if policy not in YARDSTICKS}
    told = ("steps", "runs", "positions", "seed", "drift", "delay", "flip", "against", "until_settled")
    settings = {
        "kind": kind,
        "queries": input,
        **{name: getattr(conditions, name) for name in told},
        "drift": list(conditions.drift),
        **({"prior": str(conditions.prior)} if conditions.prior is not None else {}),
        "left out": field.notes,
        "told more": [name for name, policy in learning.items() if policy.needs],
        "leaping": sorted({unit.policy for unit in units if plan.problems[unit].leaps}),
    }
    return replace(plan, settings=settings)
