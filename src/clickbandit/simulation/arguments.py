"""What may be given as a policy, as users and as a number of steps, and one sentence about anything else."""

from collections.abc import Sequence
from typing import Any

from clickbandit.click_models.base import ClickModel, Law, refuse_rate
from clickbandit.errors import InputError
from clickbandit.policies.base import Policy, parse_policy
from clickbandit.queries import Query

PolicyLike = Policy | type[Policy] | str
"""A policy, its class (with default settings), or its spelling on the command line."""
Users = ClickModel | Query
"""A click model, or a query that has only one."""


def read_policy(policy: Any) -> Policy:
    """The policy that is meant.

    >>> from clickbandit import BatchRank
    >>> read_policy(BatchRank) == read_policy("batchrank") == BatchRank()
    True
    """
    if isinstance(policy, str):
        return parse_policy(policy)
    if isinstance(policy, type) and issubclass(policy, Policy):
        return policy()
    if not isinstance(policy, Policy):
        found = (
            f"a {type(policy).__name__} of {len(policy)}" if isinstance(policy, Sequence) else repr(policy)
        )
        raise InputError(f"expected one policy such as BatchRank() or 'batchrank', found {found}")
    return policy


def read_users(users: Any, query: str) -> tuple[ClickModel, str]:
    """The click model that is meant, and the name of its query, which that of a `Query` is unless another is given."""
    if isinstance(users, Query):
        if len(users.models) != 1:
            names = ", ".join(users.models) or "none"
            raise InputError(
                f"query {users.query} must have one click model to be simulated, found {names}: "
                "give one of them, as query.model(NAME)"
            )
        (model,) = users.models.values()
        return model, query or users.query
    if isinstance(users, Law):
        refuse_rate(users)
    if not isinstance(users, ClickModel):
        raise InputError(
            "expected a click model such as PositionBasedModel(...), or a query with one, found "
            f"{type(users).__name__}"
        )
    return users, query


def whole(name: str, value: Any) -> int:
    """A whole number, which may be written as a float.

    >>> whole("steps", 1e6)
    1000000
    """
    try:
        if not isinstance(value, (str, bytes)) and value == int(value):
            return int(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{name} must be a whole number such as 10 or 1e6, found {value!r}")
