"""The propensities of a list as they are stored, as 64-bit floats.

None if they are not known; those of each item at its position; with those of the whole list down to there, where these
do not follow; or both, each with its errors behind.
"""

from struct import unpack
from typing import NamedTuple

import numpy as np

from clickbandit.live.learner import Learner
from clickbandit.policies.propensities import of_groups


class Chances(NamedTuple):
    """Of a list, by position."""

    propensities: list[float | None] | None
    """That the item stands there; None where that is not known."""
    prefix_propensities: list[float] | None
    """Of the list down to there."""
    propensity_errors: list[float] | None
    """Standard errors of what is estimated; None where it is exact."""
    prefix_errors: list[float] | None


def write_chances(learner: Learner) -> bytes:
    """Those of the learner's last list."""
    if learner.estimate is not None:
        return b"".join(values.tobytes() for values in learner.estimate)
    if not learner.algorithm.states_chances:
        return b""
    written = learner.chances.tobytes()
    return written + learner.whole.tobytes() if learner.algorithm.states_prefix else written


def read_all_chances(written: bytes | None, n: int) -> Chances:
    """Those of a list of n items; 1 where no policy made it."""
    if written is None:
        return Chances([1.0] * n, [1.0] * n, None, None)
    values = np.frombuffer(written)
    parts = values.reshape(-1, n).tolist() if n else []
    if not parts:
        return Chances(None, None, None, None)
    known = [None if chance != chance else chance for chance in parts[0]]
    if len(parts) == 4:
        return Chances(known, parts[2], parts[1], parts[3])
    if len(parts) == 2:
        return Chances(known, parts[1], None, None)
    return Chances(known, None if None in known else of_groups(values).tolist(), None, None)


StatedChances = tuple[tuple[float | None, ...], tuple[float, ...] | None]


def last_chances(learner: Learner) -> StatedChances:
    """What `read_chances` finds in what was written of the learner's last list."""
    if learner.estimate is not None:
        return read_chances(write_chances(learner), len(learner.ranking))
    if not learner.algorithm.states_chances:
        return (None,) * len(learner.ranking), None
    stated = learner.chances.tolist()
    total = sum(stated)
    return tuple(stated if total == total else [None if one != one else one for one in stated]), None


def read_chances(written: bytes | None, n: int) -> StatedChances:
    """Those of each item at its position, and their errors."""
    if not written or not n:
        return (1.0 if written is None else None,) * n, None
    values = unpack(f"<{len(written) // 8}d", written)
    known = tuple([None if chance != chance else chance for chance in values[:n]])
    return known, values[n : 2 * n] if len(values) == 4 * n else None
