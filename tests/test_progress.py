"""Progress in a notebook, and how many cores there are where the system does not say."""

import os

import pytest
from rich import console

from clickbandit import progress
from clickbandit.cores import cores
from clickbandit.progress import progress_bar, reading_bar


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without ipywidgets, for which rich warns."""
    monkeypatch.setattr(console, "_is_jupyter", lambda: True)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    monkeypatch.setattr(progress, "_REDRAW_SECONDS", 0.0)


def test_a_notebook_without_widgets_has_one_quiet_line(
    notebook: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar(10, "simulating") as advance:
        advance(3)
        advance(7)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.split("\r")[1:3] == ["simulating: 30%", "simulating: 100%"]
    assert "\n" not in err
    assert err.split("\r")[-1] == "", "the line is gone in the end"
    with reading_bar(200) as read:
        read(100, 7)
    assert "reading: 50%" in capsys.readouterr().err


def test_work_that_is_quickly_done_says_nothing(
    notebook: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_REDRAW_SECONDS", 60.0)
    with progress_bar(10, "simulating") as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert cores() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1
