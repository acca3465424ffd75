"""Results on disk: what is damaged is found and run again, what is of another experiment is refused by name."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickbandit import CascadeModel, InputError, Query
from clickbandit.experiments import versions as versions_module
from clickbandit.experiments.folder import Folder
from clickbandit.experiments.log import line_of, read_log
from clickbandit.experiments.plan import Conditions, Plan, grid
from clickbandit.experiments.results import load_results
from clickbandit.experiments.run import run

QUERIES = [Query(name, list("abcd"), {"CM": CascadeModel([0.5, 0.4, 0.2, 0.1])}) for name in ("x", "y")]


def plan(queries: list[Query] = QUERIES, settings: object = "these", **changes: object) -> Plan:
    options = {"runs": 4, "steps": 500, "positions": 2, "seed": 1, **changes}
    return Plan(queries, grid(["random"], queries, ["CM"], Conditions(**options)), {"settings": settings})


def make(path: Path, this: Plan | None = None) -> pa.Table:
    with Folder.open(path, this or plan()) as folder:
        run(folder, threads=1)
        return folder.finish()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    make(tmp_path / "made")
    return tmp_path / "made"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return make(tmp_path_factory.mktemp("whole"))


# --- damage -------------------------------------------------------------------------------------------------


def flip(data: bytes) -> bytes:
    """One bit of the third record."""
    place = [i for i, byte in enumerate(data) if byte == ord("\n")][1] + 100
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "the last line is cut off": lambda data: data[:-50],
    "only its end is missing": lambda data: data[:-1],
    "the file is cut off in the middle": lambda data: data[: len(data) // 2],
    "a bit is flipped": flip,
    "a line end is lost": lambda data: data.replace(b"\n", b"", 1),
    "a block of zeros, as after a power cut": lambda data: data[:-3000] + bytes(3000),
    "it is empty": lambda data: b"",
    "something else was written into it": lambda data: b"nonsense\n\n" + data,
    "a record is there twice": lambda data: data + data.splitlines(keepends=True)[0],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_found_and_run_again(made: Path, whole: pa.Table, name: str) -> None:
    log = made / "runs.log"
    before = log.read_bytes()
    log.write_bytes(DAMAGES[name](before))
    (made / "results.parquet").write_bytes(b"PAR1 and then nothing")
    intact = set(before.split(b"\n")) & set(DAMAGES[name](before).split(b"\n")[:-1])
    with Folder.open(made, plan()) as folder:
        assert len(folder.finished) == len(intact - {b""})
        run(folder)
        assert folder.finish().equals(whole)
    assert load_results(made).table.equals(whole)
    assert pq.read_table(made / "results.parquet").equals(whole)
    with Folder.open(made, plan()) as folder:
        assert (folder.unfinished, folder.damaged) == ([], 0)


def test_no_damage_to_a_line_goes_unnoticed(tmp_path: Path) -> None:
    record = {"unit": {"policy": "random"}, "regret": [0.25, 1e-9], "clicks": [1.0, 2.5]}
    line = line_of(record)
    draw = random.Random(1)
    for _ in range(500):
        damaged = bytearray(line)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(line))] = draw.randrange(256)
        (tmp_path / "log").write_bytes(damaged)
        records, _ = read_log(tmp_path / "log")
        assert records in ([], [record])
        assert bool(records) == (bytes(damaged) == line)


def test_half_a_line_is_not_joined_with_the_next(made: Path) -> None:
    log = made / "runs.log"
    log.write_bytes(log.read_bytes()[:-50])
    with Folder.open(made, plan()) as folder:
        assert folder.damaged == 1
        run(folder)
    records, damaged = read_log(log)
    assert (len(records), damaged) == (8, 0)


# --- other experiments --------------------------------------------------------------------------------------

OTHER_QUERIES = [QUERIES[0], Query("y", list("abcd"), {"CM": CascadeModel([0.5, 0.4, 0.2, 0.3])})]
OTHERS: dict[str, tuple[Plan, str]] = {
    "steps": (plan(steps=600), "(steps: expected 600, found 500; horizon: expected 600, found 500)"),
    "seed": (plan(seed=2), "seed: expected 2, found 1"),
    "runs": (
        plan(runs=5),
        "number: expected 10, found 8; run: expected 0 | 1 | 2 | 3 | 4, found 0 | 1 | 2 | 3",
    ),
    "horizon": (plan(horizon=900), "horizon: expected 900, found 500"),
    "drift": (plan(drift=(100, 200)), "drift: expected 100,200, found "),
    "flip": (plan(flip=0.1), "flip: expected 0.1, found 0.0"),
    "settings": (plan(settings="those"), "(settings: expected those, found these)"),
    "click models": (plan(OTHER_QUERIES), "(queries: other items or click models than expected)"),
    "queries": (plan(QUERIES[:1]), "query: expected x, found x | y"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_results_of_another_experiment_are_kept(made: Path, name: str) -> None:
    other, sentence = OTHERS[name]
    before = {path.name: path.read_bytes() for path in made.iterdir() if path.name != ".lock"}
    with pytest.raises(InputError) as refused, Folder.open(made, other):
        pass
    assert sentence in str(refused.value)
    assert "--restart" in str(refused.value)
    assert not re.search("[0-9a-f]{64}", str(refused.value)), "nobody compares hashes"
    assert before == {path.name: path.read_bytes() for path in made.iterdir() if path.name != ".lock"}
    expected = make(made.parent / "other", other)
    with Folder.open(made, other, restart=True) as folder:
        assert len(folder.unfinished) == len(other.units)
        run(folder)
        assert folder.finish().equals(expected)
    assert load_results(made).table.equals(expected)


def test_results_of_other_code_are_not_mixed_in(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = versions_module.versions()
    monkeypatch.setattr(
        "clickbandit.experiments.manifest.versions", lambda: {**now, "numpy": "0.1", "code": "abc"}
    )
    expected = f"code: expected abc, found {now['code']}; numpy: expected 0.1, found {now['numpy']}"
    with pytest.raises(InputError, match="another experiment") as refused, Folder.open(made, plan()):
        pass
    assert expected in str(refused.value)


def test_a_manifest_that_does_not_fit_the_results(made: Path) -> None:
    other = made.parent / "other"
    make(other, plan(seed=2))
    (made / "runs.log").write_bytes((other / "runs.log").read_bytes())
    for read in (lambda: load_results(made), lambda: Folder.open(made, plan()).__enter__()):
        with pytest.raises(InputError, match=r"do not fit their manifest.json \(seed: expected 1, found 2\)"):
            read()


def test_a_manifest_of_other_click_models(made: Path) -> None:
    other = made.parent / "other"
    make(other, plan(OTHER_QUERIES))
    (made / "runs.log").write_bytes((other / "runs.log").read_bytes())
    with pytest.raises(InputError, match="other runs or click models than expected"):
        load_results(made)
    (made / "queries.json").write_bytes((other / "queries.json").read_bytes())
    with pytest.raises(InputError, match=r"queries\.json is not what was run on"):
        load_results(made)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "manifest.json cannot be read"),
        ("[]", "must have format clickbandit/results"),
        ('{"format": "clickbandit/results", "version": 7}', "and version 1, found"),
        ('{"format": "clickbandit/results", "version": 1}', "must have settings, units"),
    ],
)
def test_a_manifest_that_is_none(made: Path, content: str, sentence: str) -> None:
    (made / "manifest.json").write_text(content)
    for read in (lambda: load_results(made), lambda: Folder.open(made, plan()).__enter__()):
        with pytest.raises(InputError, match=sentence):
            read()


def test_a_folder_with_other_files_is_left_alone(made: Path, tmp_path: Path) -> None:
    (made / "manifest.json").unlink()
    before = {path.name: path.read_bytes() for path in made.iterdir() if path.name != ".lock"}
    for restart in (False, True):
        sentence = (
            r"neither empty nor a folder of results: there is queries\.json in it but no manifest\.json"
        )
        with pytest.raises(InputError, match=sentence), Folder.open(made, plan(), restart=restart):
            pass
    assert before == {path.name: path.read_bytes() for path in made.iterdir() if path.name != ".lock"}
    with pytest.raises(InputError, match=r"nowhere holds no results: there is no manifest\.json"):
        load_results(tmp_path / "nowhere")


def test_killed_between_its_first_two_files(made: Path, whole: pa.Table) -> None:
    for name in ("queries.json", "runs.log", "results.parquet"):
        (made / name).unlink()
    assert make(made).equals(whole)
    assert load_results(made).queries == QUERIES


def test_the_manifest_says_what_was_run(made: Path) -> None:
    manifest = json.loads((made / "manifest.json").read_text())
    assert manifest["settings"] == {"settings": "these"}
    assert manifest["units"]["number"] == 8
    assert (manifest["units"]["seed"], manifest["units"]["steps"]) == ([1], [500])
    assert set(manifest["versions"]) == {"clickbandit", "code", "numpy", "numba", "python", "streams"}
    assert (manifest["queries"], manifest["plan"]) == (plan().input_digest, plan().digest)


# --- one writer ---------------------------------------------------------------------------------------------


HOLDING = """
import sys
from pathlib import Path
from clickbandit.experiments.folder import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        sentence = f"is being written by process {other.pid}: wait for it"
        with pytest.raises(InputError, match=sentence), Folder.open(tmp_path, plan()):
            pass
        other.kill()
    with Folder.open(tmp_path, plan()) as folder:
        assert len(folder.unfinished) == 8


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), Folder.open(tmp_path / "file" / "x", plan()):
        pass


def test_a_full_disk_gets_a_sentence(tmp_path: Path, whole: pa.Table) -> None:
    sentence = "cannot be written: No space left on device: fix that, and the same command resumes"
    with Folder.open(tmp_path, plan()) as folder, open("/dev/full", "ab", buffering=0) as full:
        folder._log.close()
        folder._log = full
        with pytest.raises(InputError, match=sentence):
            run(folder)
    assert make(tmp_path).equals(whole)


# --- plans --------------------------------------------------------------------------------------------------


def test_plans_that_cannot_be_run_are_refused() -> None:
    with pytest.raises(InputError, match="nothing to run"):
        Plan(QUERIES, [])
    with pytest.raises(InputError, match="the same run twice"):
        Plan(QUERIES, [*plan().units, plan(seed=3).units[0]])
    with pytest.raises(InputError, match="runs must be at least 1"):
        plan(runs=0)
    for changes, sentence in (
        ({"positions": 9}, "9 positions need as many items"),
        ({"steps": 3}, "at least 5 steps"),
        ({"steps": 10**17}, "at most"),
        ({"delay": 501}, "leaves no feedback"),
    ):
        with pytest.raises(InputError, match=sentence):
            _ = plan(**changes).problems


def test_an_edited_policy_is_another_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = (Path(__file__).parents[2] / "examples" / "my_policy.py").read_text()
    Path("mine.py").write_text(example)
    units = grid(["mine.py:EpsilonGreedy"], QUERIES, ["CM"], Conditions(200, 1, 2, 1))
    make(Path("made"), Plan(QUERIES, units))
    (digest,) = json.loads(Path("made/manifest.json").read_text())["own policies"].values()
    Path("mine.py").write_text(example + "\n")
    with pytest.raises(InputError, match=f"found {digest}"), Folder.open("made", Plan(QUERIES, units)):
        pass
