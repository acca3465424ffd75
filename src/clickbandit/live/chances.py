"""The propensities of a list as they are stored: none if they are not known, with their errors behind if estimated."""

import numpy as np

from clickbandit.live.learner import Learner


def write_chances(learner: Learner) -> bytes:
    """Those of the learner's last list."""
    if learner.errors is not None:
        return learner.chances.tobytes() + learner.errors.tobytes()
    return learner.chances.tobytes() if learner.algorithm.states_chances else b""


def read_chances(written: bytes | None, n: int) -> tuple[tuple[float | None, ...], tuple[float, ...] | None]:
    """Those of a list of n items, and their errors; 1 where no policy made it."""
    if written is None:
        return (1.0,) * n, None
    if not written:
        return (None,) * n, None
    values = np.frombuffer(written).tolist()
    return tuple(None if chance != chance else chance for chance in values[:n]), tuple(values[n:]) or None
