"""Every policy makes the same of the same random numbers compiled and as plain Python.

Run as a script, this file prints what some policies do; a test runs it so without compilation.
"""

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numba
import numpy as np
import pytest

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.sdbn import SimplifiedDynamicBayesianModel
from clickbandit.compiling.kernel import is_compiled
from clickbandit.policies.base import Policy, parse_policy, policy_class, policy_names
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="compilation is off (NUMBA_DISABLE_JIT)"
)

STEPS = 600
ATTRACTION = [0.05, 0.9, 0.3, 0.02, 0.6]
MODELS = {
    "CM": CascadeModel(attraction=ATTRACTION),
    "PBM": PositionBasedModel(attraction=ATTRACTION, examination=[1, 0.8, 0.6]),
    "SDBN": SimplifiedDynamicBayesianModel(attraction=ATTRACTION, satisfaction=[0.2, 0.6, 0.9, 0.1, 0.4]),
}


def spellings(name: str) -> list[str]:
    """A policy as it is, and with each choice that one of its settings allows."""
    kind = policy_class(name)
    hints = get_type_hints(kind)
    found = [name]
    for field in fields(kind):
        hint = hints[field.name]
        choices = get_args(hint) if get_origin(hint) is Literal else (False, True) if hint is bool else ()
        found += [str(kind(**{field.name: choice})) for choice in choices if choice != field.default]
    return found


CASES = [
    f"{policy} on {model}"
    for name in policy_names()
    for policy in spellings(name)
    for model in MODELS
    if "examination" not in policy_class(name).knows or hasattr(MODELS[model], "examination")
]


UNCOMPILED = ["batchrank on CM", "toprank on SDBN", "pbm-ts on PBM"]
"""What is run without numba's compiler too; the others as plain Python beside it, which is the same text."""


def start(case: str, *, compiled: bool = True) -> Run:
    """Three positions and feedback two steps late; the horizon is short, so that stages end in time."""
    policy, _, model = case.partition(" on ")
    users = Recorded(MODELS[model], STEPS, positions=3)
    problem = Problem(parse_policy(policy), users, positions=3, horizon=20, delay=2)
    if not compiled:
        problem.loop = problem.make_loop(compiled=False)
    return Run(problem, seed=7)


def outcome(run: Run) -> dict[str, Any]:
    """What happens step by step."""
    regret, clicks = run.advance_windows(np.arange(1, STEPS + 1))
    return {
        "regret": regret.tolist(),
        "clicks": clicks.tolist(),
        "lists": run.problem.model.shown.tolist(),
        "final": run.best(),
        "draws": [run.rng.random(), run.users.random()],
    }


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for step, (shown, other) in enumerate(zip(found["lists"], expected["lists"], strict=True), 1):
        assert shown == other, f"step {step}: compiled shows {shown}, plain Python {other}"
    assert found["clicks"] == expected["clicks"]
    assert found["final"] == expected["final"]
    assert found["draws"] == expected["draws"]
    assert np.allclose(found["regret"], expected["regret"], rtol=0, atol=1e-12)
    assert min(found["regret"]) > -1e-12


@pytest.mark.parametrize("case", CASES)
def test_compiled_and_plain_runs_are_the_same(case: str) -> None:
    run, plain = start(case), start(case, compiled=False)
    assert run.problem.policy.compiled
    assert is_compiled(run.loop.interact)
    assert not is_compiled(plain.loop.interact)
    assert_same(outcome(run), outcome(plain))


def test_without_compilation_everything_is_the_same() -> None:
    """In a process of its own, with NUMBA_DISABLE_JIT."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    plain: dict[str, Any] = json.loads(done.stdout)
    assert not plain.pop("compiled")
    assert [*plain] == UNCOMPILED
    for case in UNCOMPILED:
        assert_same(outcome(start(case)), plain[case])


@pytest.mark.parametrize("case", [case for case in CASES if case.endswith("PBM")])
def test_many_steps_at_once_are_many_single_steps(case: str) -> None:
    run, step_by_step = start(case), start(case)
    single = [step_by_step.advance(1) for _ in range(STEPS // 4)]
    regret, clicks = run.advance(STEPS // 4)
    assert regret == pytest.approx(sum(more for more, _ in single), abs=1e-9)
    assert clicks == sum(more for _, more in single)
    assert run.best() == step_by_step.best()
    assert run.problem.model.shown.tolist() == step_by_step.problem.model.shown.tolist()


LINEAR = {"cascade-lin-ts", "cascade-lin-ucb"}
"""Without features they have one for each item, and refuse so many."""


@pytest.mark.parametrize("policy", [*sorted({*policy_names()} - LINEAR), "batchrank:variant=experiment"])
def test_a_thousand_items_and_fifty_positions(policy: str) -> None:
    """Past the first look at each item: lists of different items, no number out of its range."""
    items, positions = 1000, 50
    model = PositionBasedModel(
        attraction=np.random.default_rng(1).permutation(np.linspace(0, 0.6, items)),
        examination=1 / np.sqrt(np.arange(1, positions + 1)),
    )
    problem = Problem(policy, Recorded(model), positions=positions, horizon=20_000, method="step")
    run = Run(problem, seed=1)
    regret, _ = run.advance(items)
    for _ in range(50):
        more, _ = run.advance(1)
        regret += more
        shown = run.slots.rankings[0].tolist()
        assert len(set(shown)) == positions
        assert set(shown) <= set(range(items))
    assert 0 <= regret < np.inf
    assert len(set(run.best())) == positions
    for name, value in run.state._asdict().items():
        assert not np.isnan(value).any(), name


def test_the_settings_of_all_policies_are_covered() -> None:
    assert {"batchrank", "batchrank:variant=experiment", "batchrank:eliminate=false"} <= set(
        spellings("batchrank")
    )
    assert all(isinstance(parse_policy(case.partition(" on ")[0]), Policy) for case in CASES)
    assert {case.partition(" on ")[2] for case in CASES} == set(MODELS)


if __name__ == "__main__":
    outcomes: dict[str, Any] = {case: outcome(start(case)) for case in UNCOMPILED}
    outcomes["compiled"] = start(CASES[0]).problem.policy.compiled
    json.dump(outcomes, sys.stdout)
