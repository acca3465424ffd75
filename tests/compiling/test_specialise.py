"""Generated modules: cached from one process to the next, never stale, and possible without a file."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from clickbandit import Algorithm, CascadeModel, Policy, PositionBasedModel, Problem, Run, simulate
from clickbandit.compiling import specialise as specialising
from clickbandit.compiling.folder import folder, root
from clickbandit.compiling.kernel import interpreted, is_compiled, kernel
from clickbandit.compiling.specialise import specialise
from clickbandit.simulation import loop

CM = CascadeModel(attraction=[0.5, 0.4, 0.2])

SCRIPT = """
import sys
from clickbandit import CascadeModel, Problem, Run
from clickbandit.policies.base import parse_policy
policy = globals().get("policy") or parse_policy(sys.argv[1])
problem = Problem(policy, CascadeModel(attraction=[0.5, 0.4, 0.2]), positions=2, horizon=100)
run = Run(problem, seed=1)
print(run.advance(100)[1])
hits = getattr(run.loop.interact, "stats", None)
print(sum(hits.cache_hits.values()) if hits else "interpreted")
"""


def run_script(cache: Path, policy: str, folder: Path, prologue: str = "") -> list[str]:
    environment = {**os.environ, "CLICKBANDIT_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", prologue + SCRIPT, policy],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def new_cache(path: Path) -> Path:
    """Without machine code; what is known of this Python, as which options numba takes, is not asked again."""
    for known in root().glob("python-*"):
        shutil.copytree(known, path / known.name)
    return path


needs_compiler = pytest.mark.skipif(
    not is_compiled(kernel(lambda: None)), reason="compilation is off (NUMBA_DISABLE_JIT)"
)


def check_for_its_user_alone(cache: Path) -> None:
    """Nobody else may read or change what was written there, and nothing is half written."""
    folders = list(cache.iterdir())
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    files = {file.name for folder in folders for file in folder.iterdir()}
    assert any(name.startswith("loop__cm__") for name in files), files
    assert not any(name.endswith(".tmp") for name in files)


HELPER = "from clickbandit.compiling.kernel import kernel\n@kernel\ndef item(k):\n    return "


@needs_compiler
def test_machine_code_is_found_again_and_edited_code_is_never_stale(tmp_path, monkeypatch):
    """Helpers that the policy's own file imports: a neighbour, and one from another folder."""
    (tmp_path / "lib").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    neighbour, distant = tmp_path / "neighbour.py", tmp_path / "lib" / "distant.py"
    for helper in (neighbour, distant):
        helper.write_text(HELPER + "k\n")
    text = (Path(__file__).parents[2] / "examples" / "my_policy.py").read_text()
    chosen = "neighbour.item(distant.item(k))"
    text = text.replace("        ranking[k] = state.items[k]\n", f"        ranking[k] = {chosen}\n")
    text = text.replace("import numpy as np\n", "import distant, neighbour\nimport numpy as np\n")
    (tmp_path / "mine.py").write_text(text)
    cache, policy = tmp_path / "cache", "mine.py:EpsilonGreedy"

    first = run_script(cache, policy, tmp_path)
    check_for_its_user_alone(cache)
    again = run_script(cache, policy, tmp_path)
    assert (first[1], again[1]) == ("0", "1")
    assert first[0] == again[0]

    for helper in (neighbour, distant):
        before = first
        helper.write_text(HELPER + "2 - k\n")
        first = run_script(cache, policy, tmp_path)
        assert first[1] == "0"
        assert first[0] != before[0]


NAME = """
from clickbandit import CascadeModel, Problem
from clickbandit.policies.base import parse_policy
for name in ("cts", "batchrank"):
    problem = Problem(parse_policy(name), CascadeModel(attraction=[0.5, 0.4, 0.2]), positions=2, horizon=100)
    print(problem.make_loop(compiled=True).__name__)
"""


@needs_compiler
def test_the_same_code_has_the_same_name_in_every_process_and_folder(tmp_path, monkeypatch, capsys):
    """Whatever else was imported, and in which order: or it would be compiled again and again."""
    exec(NAME, {})
    names = capsys.readouterr().out
    monkeypatch.setattr(loop, "__file__", str(tmp_path))
    monkeypatch.setattr(specialising, "_made", {})
    exec(NAME, {})
    assert capsys.readouterr().out == names
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", NAME.replace('"cts", "batchrank"', '"batchrank", "cts"')]
    elsewhere = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert sorted(elsewhere.stdout.split()) == sorted(names.split())


@needs_compiler
def test_what_was_imported_before_an_edit_is_not_kept_under_the_new_hash(tmp_path):
    text = (Path(__file__).parents[2] / "examples" / "my_policy.py").read_text()
    (tmp_path / "mine.py").write_text(text)
    edit_while_running = """
import os, pathlib, sys, time
from clickbandit.policies.base import parse_policy
policy = parse_policy(sys.argv[1])
path = pathlib.Path("mine.py")
path.write_text(path.read_text().replace("state.items[k]\\n", "len(state.items) - 1 - k\\n"))
os.utime(path, (time.time() + 1, time.time() + 1))
"""
    cache, policy = new_cache(tmp_path / "cache"), "mine.py:EpsilonGreedy"
    before = run_script(cache, policy, tmp_path, edit_while_running)
    assert text != (tmp_path / "mine.py").read_text()
    after = run_script(cache, policy, tmp_path)
    assert after[1] == "0"
    assert after[0] != before[0]


@needs_compiler
def test_without_a_folder_to_write_to_it_compiles_anew(tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    assert run_script(tmp_path / "cache", "random", tmp_path)[1] == "0"


def test_code_of_old_sources_is_thrown_away(tmp_path, monkeypatch):
    monkeypatch.setenv("CLICKBANDIT_CACHE", str(tmp_path))
    old, recent = tmp_path / "old", tmp_path / "recent"
    for path in (old, recent):
        path.mkdir()
        (path / "loop.py").touch()
    os.utime(old, (0, 0))
    folder("new")
    assert not old.exists()
    assert recent.exists()


def test_a_template_must_have_the_marked_import():
    with pytest.raises(ValueError, match="must have a line marked # users, found none"):
        specialise("clickbandit.simulation.loop", users={})


class State(NamedTuple):
    clicks: np.ndarray


def init(n_items, n_positions, *, horizon):
    return State(np.zeros(n_items))


def memo_size(n_items, n_positions):
    return 0


def best(state, ranking):
    ranking[:] = np.arange(len(ranking))


def rank(state, rng, ranking, memo):
    for k in range(len(ranking)):
        ranking[k] = len(state.clicks) - 1 - k


def update(state, ranking, clicks, memo):
    for k in range(len(ranking)):
        state.clicks[ranking[k]] += clicks[k]


@dataclass(frozen=True)
class Plain(Policy):
    algorithm = Algorithm(init, memo_size, rank, update, best)


@dataclass(frozen=True)
class Compiled(Policy):
    """Its kernels cannot be imported by their names, as those of a notebook."""

    algorithm = Algorithm(init, memo_size, kernel(rank), kernel(update), best)


def test_a_plain_python_policy_runs_as_it_is():
    run = Run(Problem(Plain(), CM, positions=2, horizon=100), seed=1)
    _, clicks = run.advance(100)
    assert not is_compiled(run.loop.interact)
    assert run.state.clicks.sum() == clicks
    assert run.state.clicks[0] == 0


@needs_compiler
def test_a_notebooks_kernels_compile_without_a_file():
    run = Run(Problem(Compiled(), CM, positions=2, horizon=100), seed=1)
    _, clicks = run.advance(100)
    assert is_compiled(run.loop.interact)
    assert run.state.clicks.sum() == clicks


def test_compiled_and_plain_show_the_same_lists():
    model = PositionBasedModel(attraction=[0.5, 0.4, 0.2], examination=[1, 0.5])
    traces = [simulate(policy, model, positions=2, steps=200, seed=1) for policy in (Plain(), Compiled())]
    np.testing.assert_allclose(traces[0].regret, traces[1].regret, atol=1e-12)


@kernel
def outer(n):
    return inner(n) + 1


@kernel
def inner(n):
    return n * n


def test_interpreted_is_plain_all_the_way_down():
    plain = interpreted(outer)
    assert plain(3) == 10
    assert not is_compiled(plain.__globals__["inner"])
    assert interpreted(len) is len
