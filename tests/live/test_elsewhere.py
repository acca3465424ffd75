"""What becomes of a list that is asked of another worker."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from clickbandit.live.http import elsewhere
from clickbandit.live.http.lists import list_request, read_list
from clickbandit.live.http.wire import Away, Unasked


@pytest.mark.parametrize(("error", "is_void"), [(Away(), True), (Unasked(), False)])
def test_when_a_list_was_asked_for_is_told_however_long_somebody_waited(monkeypatch, error, is_void):
    """Should another be shown: what the other worker made since then is void, if it was asked at all."""
    seconds, disowned, waiting = [100.0], [], Future()
    monkeypatch.setattr(elsewhere, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    ranker = SimpleNamespace(
        begin=lambda request, waiting: waiting.set_result(SimpleNamespace(id="another")),
        disown=lambda request, ago: disowned.append((request.id, ago)),
    )
    request = list_request(read_list(b'{"query":"shoes","items":["A"]}')).with_id("x")
    asked = elsewhere.Elsewhere(ranker, request, waiting)
    seconds[0] += 3
    asked.set_exception(error)
    assert (disowned, waiting.result().id) == ([("x", 3.0)] * is_void, "another")
