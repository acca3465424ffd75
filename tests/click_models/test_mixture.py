"""Mixtures of click models: what only they have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dcm import DependentClickModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel

A, B = [0.9, 0.5, 0.1], [0.2, 0.4, 0.6]


def test_attraction_is_that_of_the_average_user() -> None:
    users = MixtureModel([0.75, 0.25], [CascadeModel(A), CascadeModel(B)])
    assert users.attraction == pytest.approx([0.725, 0.475, 0.225])


def test_mixtures_of_mixtures_are_flat() -> None:
    inner = MixtureModel([0.5, 0.5], [CascadeModel(A), PositionBasedModel(B, [1, 1, 1])])
    users = MixtureModel([0.5, 0.5], [inner, CascadeModel(B)])
    assert users.name == "0.25*CM+0.25*PBM+0.5*CM"
    assert users.reward([0, 1]) == pytest.approx(
        0.5 * inner.reward([0, 1]) + 0.5 * CascadeModel(B).reward([0, 1])
    )


def test_a_list_may_be_as_long_as_every_model_allows() -> None:
    users = MixtureModel([0.5, 0.5], [CascadeModel(A), DependentClickModel(A, [0.5, 0.5])])
    assert users.max_positions == 2


LOOP = """
from clickbandit.click_models.mixture import click, click_probability, examination_probability, log_likelihood
from clickbandit.compiling.kernel import entry_point

@entry_point
def run(params, rng, ranking, clicks, clicked, examined):
    total = 0.0
    for t in range(len(clicks)):
        click(params, rng, ranking, clicks[t])
        total += log_likelihood(params, ranking, clicks[t])
    click_probability(params, ranking, clicked)
    examination_probability(params, ranking, examined)
    return total
"""

SCRIPT = """
import numpy as np
import loop
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.sdbn import SimplifiedDynamicBayesianModel

A, B = [0.9, 0.5, 0.1], [0.2, 0.4, 0.6]
for other in (PositionBasedModel(B, A), SimplifiedDynamicBayesianModel(B, A)):
    users = MixtureModel([0.75, 0.25], [CascadeModel(A), other])
    clicks, clicked, examined = np.full((500, 3), 7), np.empty(3), np.empty(3)
    total = loop.run(users.params, np.random.default_rng(0), np.array([2, 0, 1]), clicks, clicked, examined)
    numbers = [total, *clicked, *examined]
    print(clicks.ravel().tolist(), [round(float(number), 9) for number in numbers])
print("found in cache", sum(loop.run.stats.cache_hits.values()) if hasattr(loop.run, "stats") else None)
"""


def test_runs_compiled_from_another_module_and_is_found_in_the_cache(tmp_path: Path) -> None:
    """PBM and SDBN have parameters of the same form: the cache must tell them apart."""
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(**environment: str) -> tuple[list[str], str]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "script.py"],
            cwd=tmp_path,
            env={**os.environ, "CLICKBANDIT_CACHE": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        *results, cache = done.stdout.splitlines()
        return results, cache

    first, compiled = run(NUMBA_DISABLE_JIT="0")
    second, cached = run(NUMBA_DISABLE_JIT="0")
    plain, _ = run(NUMBA_DISABLE_JIT="1")
    assert (compiled, cached) == ("found in cache 0", "found in cache 2")
    assert first == second == plain
