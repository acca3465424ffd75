"""Many runs on the arrays of one: to make a run takes longer than a short one itself."""

import copy
from collections.abc import Iterator

import numpy as np

from clickbandit.simulation.run import Run


def again(run: Run, times: int) -> Iterator[None]:
    """Each time the run is back at its first step, with random numbers that go on: independent of those before."""
    first = copy.deepcopy(run.state)
    for _ in range(times):
        for array, before in zip(run.state, first, strict=True):
            if isinstance(array, np.ndarray):
                array[...] = before
        run.step = 0
        yield
