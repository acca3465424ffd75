"""Classes whose fields are explained under them."""

from dataclasses import dataclass

import pytest

from clickbandit import documented


def test_no_source_is_read_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took a third of the time until a policy was at hand, in every process."""
    asked: list[type] = []
    monkeypatch.setattr(documented, "field_docs", lambda kind: asked.append(kind) or {"size": "How large."})

    @dataclass(frozen=True)
    class Thing(documented.Documented):
        """A thing."""

        size: int = 1
        """How large."""

    assert asked == []
    assert "size\n        How large." in (Thing.__doc__ or "")
    assert asked == [Thing]
