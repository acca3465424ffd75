"""Figures of commands are drawn coarsely: how fine they are is a matter of `tests/report`."""

import pytest

from clickbandit.report import printing


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "_RESOLUTION", 30)
