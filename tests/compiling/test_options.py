"""Where numba does not take the options that it does not promise, kernels are compiled by plain njit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from clickbandit import PositionBasedModel, Problem, Run

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="compilation is off (NUMBA_DISABLE_JIT)"
)

USERS = {"attraction": [0.9, 0.5, 0.2, 0.1], "examination": [1, 0.6]}
SCRIPT = f"""
import json, warnings
import numba

real = numba.njit

def njit(*arguments, **options):
    refused = {{"_nrt", "pipeline_class", "no_cpython_wrapper", "no_cfunc_wrapper"}} & set(options)
    if refused:
        raise KeyError(f"unrecognised options: {{refused}}")
    return real(*arguments, **options)

numba.njit = njit
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from clickbandit import PositionBasedModel, Problem, Run
    run = Run(Problem("random", PositionBasedModel(**{USERS}), positions=2, horizon=100), seed=1)
    outcome = run.advance(2000)
told = [[warning.category.__name__, str(warning.message)] for warning in caught]
compiled = bool(run.loop.interact.signatures)
print(json.dumps({{"outcome": outcome, "list": run.best(), "told": told, "compiled": compiled}}))
"""


def test_a_numba_that_refuses_them_is_found_out_and_gives_the_same_results(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "CLICKBANDIT_CACHE": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["compiled"]
    [(category, message)] = found["told"]
    assert category == "RuntimeWarning"
    assert message.startswith(f"numba {numba.__version__} does not take the options that make kernels fast")
    run = Run(Problem("random", PositionBasedModel(**USERS), positions=2, horizon=100), seed=1)
    assert found["outcome"] == list(run.advance(2000))
    assert found["list"] == run.best()
