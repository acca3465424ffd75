"""Users that change their minds at set steps: a non-stationary environment."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.errors import InputError

Change = int | tuple[int, ClickModel]
"""After which step users change; and into which, or the items are shuffled."""


class Drift(NamedTuple):
    """One change of the users."""

    after: int
    """The last step of the users before."""
    model: ClickModel | None
    """The users from then on; None: those of the start, with the items shuffled."""


def read_drift(changes: Sequence[Change], model: ClickModel, positions: int) -> tuple[Drift, ...]:
    """Changes in the order of their steps, checked."""
    drift: list[Drift] = []
    for change in changes:
        after, users = change if isinstance(change, tuple) else (change, None)
        if not isinstance(after, (int, np.integer)) or after < 1:
            raise InputError(f"drift must come after a whole number of steps, 1 or more, found {after!r}")
        if drift and after <= drift[-1].after:
            raise InputError(
                f"drift must come at increasing steps, found {after:,} after {drift[-1].after:,}"
            )
        if users is not None:
            if type(users) is not type(model) or users.n_items != model.n_items:
                raise InputError(
                    f"drift must be to users of the same kind, {model.name} with {model.n_items} items, "
                    f"found {users.name} with {users.n_items}"
                )
            users.check_positions(positions)
        drift.append(Drift(int(after), users))
    return tuple(drift)


def shuffled(model: ClickModel, circumstances: np.random.Generator) -> ClickModel:
    """The same users with the items in random order.

    Each item is now what another one was, in its attraction and all else, so that the best reward stays the same.
    """
    return model.with_items(circumstances.permutation(model.n_items).tolist())
