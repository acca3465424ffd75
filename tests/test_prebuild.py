"""Wheels with machine code: who installs one compiles nothing, and has the same numbers to the last bit."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numba
import pyarrow.parquet as pq
import pytest

from clickbandit import __version__
from clickbandit.prebuild import main

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="compilation is off (NUMBA_DISABLE_JIT)"
)

SOURCE = Path(__file__).parents[1] / "src"
ABOUT = f"clickbandit-{__version__}.dist-info"
SCRIPT = """
from numba.core import event
import clickbandit.cli

with event.install_recorder("numba:compile") as compiling:
    try:
        clickbandit.cli.main()
    except SystemExit as end:
        assert not end.code
print(clickbandit.__file__, *(event.data["dispatcher"] for _, event in compiling.buffer), sep="\\n")
"""


def make_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Path:
    """What a build writes, as far as it matters here, with machine code."""
    path = folder / f"clickbandit-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in SOURCE.joinpath("clickbandit").rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(SOURCE))
        archive.writestr(f"{ABOUT}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            f"{ABOUT}/METADATA", f"Metadata-Version: 2.1\nName: clickbandit\nVersion: {__version__}\n"
        )
        archive.writestr(f"{ABOUT}/RECORD", "")
    monkeypatch.setattr(sys, "argv", ["prebuild", str(path), *options])
    main()
    (written,) = set(folder.glob("*.whl")) - {path}
    return written


def run(package: Path, out: Path, *command: str, **environment: str) -> tuple[list[str], list[Any]]:
    """The functions that a command compiles with the package in a folder, and the results."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command, "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(package), **environment},
        capture_output=True,
        text=True,
        cwd=out.parent,
    )
    assert done.returncode == 0, done.stderr
    before, _, compiled = done.stdout.partition(f"{package}/clickbandit/__init__.py\n")
    assert before
    tables = [pq.read_table(path) for path in sorted([out, *out.rglob("*")]) if path.suffix == ".parquet"]
    assert tables
    return compiled.splitlines(), [table.to_pydict() for table in tables]


def check_wheel(tmp_path: Path, wheel: Path, out: str, *command: str) -> None:
    """Installed and run with an empty home it compiles nothing and writes no machine code; results are as ever."""
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*install, "--target", str(tmp_path / "site"), str(wheel)], check=True)
    home = {"HOME": str(tmp_path / "home"), "CLICKBANDIT_CACHE": "", "XDG_CACHE_HOME": ""}
    compiled, results = run(tmp_path / "site", tmp_path / f"here{out}", *command, **home)
    assert compiled == []
    assert not (tmp_path / "home").exists()
    assert results == run(SOURCE, tmp_path / f"there{out}", *command)[1]


def test_a_wheel_with_machine_code_compiles_nothing(tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path, monkeypatch, "--policy", "ranked-exp3", "--model", "CM", "--no-logs")
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("clickbandit/prebuilt/") and name.endswith(".nbc") for name in names)
    assert wheel.stem.split("-")[2:4] == [f"cp3{sys.version_info.minor}", "none"]
    what = (
        "--queries",
        "example",
        "--policy",
        "ranked-exp3",
        "--model",
        "CM",
        "--steps",
        "2e4",
        "--runs",
        "1",
    )
    check_wheel(tmp_path, wheel, ".parquet", "simulate", *what)


@pytest.mark.long
def test_the_readmes_command_compiles_nothing(tmp_path, monkeypatch):
    check_wheel(tmp_path, make_wheel(tmp_path, monkeypatch), "", "reproduce")
