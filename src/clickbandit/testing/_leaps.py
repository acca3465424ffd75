"""What a policy must keep that can be leaped over: leaps are its own steps, only taken together."""

import math

import numpy as np

from clickbandit.compiling.kernel import FloatArray
from clickbandit.intervals import student_quantile
from clickbandit.simulation.run import Method, Problem, Run
from clickbandit.testing._session import calling
from clickbandit.testing.click_models import LEVEL

_STEPS = 300
_RUNS = 24


def check_leaps(problem: Problem, where: str) -> None:
    """As plain Python, which notices what is read or written outside an array."""
    if problem.policy.leaps is None:
        return
    with calling("a run by leaps", where):
        leaped = _outcomes(problem, "leap", seed=1)
    stepped = _outcomes(problem, "step", seed=2)
    for name, by_leaps, by_steps in zip(("regret", "clicks"), leaped, stepped, strict=True):
        error = math.sqrt((by_leaps.var(ddof=1) + by_steps.var(ddof=1)) / _RUNS)
        allowed = student_quantile(_RUNS - 1, 1 - LEVEL) * error
        assert abs(by_leaps.mean() - by_steps.mean()) <= allowed, (
            f"{where}: {_RUNS} runs of {_STEPS} steps by leaps had {by_leaps.mean():.1f} {name} on average, and "
            f"{by_steps.mean():.1f} step by step, which differ by more than the {allowed:.1f} that chance allows "
            f"(level {LEVEL}): are the flags of `leaps` right?"
        )


def _outcomes(problem: Problem, method: Method, seed: int) -> tuple[FloatArray, FloatArray]:
    """The regret and the clicks of each run."""
    way = Problem(problem.policy, problem.model, positions=problem.positions, horizon=_STEPS, method=method)
    way.loop = way.make_loop(compiled=False)
    found = [Run(way, seed=seed, run=number).advance(_STEPS) for number in range(_RUNS)]
    regret, clicks = np.array(found, float).T
    return regret, clicks
