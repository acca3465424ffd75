"""Bodies that came before, word for word, are not read again, and mean the same."""

import json

import pytest

from clickbandit.errors import InputError
from clickbandit.live.http import lists
from clickbandit.live.http.lists import list_request, read_list
from clickbandit.live.http.messages import RankBody
from clickbandit.live.requests import RankRequest

PLAIN = {"query": "boots", "items": ["A", "B", "C"]}


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Those that are remembered."""
    monkeypatch.setattr(lists, "_known", {})
    return lists._known


def written(**more) -> bytes:
    return json.dumps(PLAIN | more).encode()


@pytest.mark.parametrize("more", [{}, {"positions": 2}, {"query": "größe"}])
def test_the_same_body_is_the_same_request_with_another_id(more, known, monkeypatch):
    first = list_request(read_list(written(**more)))
    assert len(known) == 1
    monkeypatch.setattr(lists, "_decode", lambda body: 1 / 0)
    again = read_list(written(**more))
    assert type(again) is RankRequest
    assert again.id != first.id
    assert again._replace(id="") == first._replace(id="")
    assert (again.query, again.items, again.is_new) == (more.get("query", "boots"), ("A", "B", "C"), True)


@pytest.mark.parametrize(
    "more",
    [
        {"id": "visit"},
        {"pinned": {"A": 1}},
        {"excluded": ["A"]},
        {"user": "someone"},
        {"scores": [1, 2, 3]},
        {"features": [[1], [2], [3]]},
        {"context": [1]},
        {"items": [{"id": "A", "score": 1.5}]},
        {"items": [f"item {k}" for k in range(300)]},
    ],
)
def test_a_body_that_says_more_or_is_long_is_read_each_time(more, known):
    assert isinstance(read_list(written(**more)), RankBody)
    assert not known


def test_what_is_wrong_is_not_remembered(known):
    with pytest.raises(InputError, match="'A' twice"):
        read_list(written(items=["A", "A"]))
    assert not known


def test_only_so_many_are_remembered(known, monkeypatch):
    monkeypatch.setattr(lists, "MAX_BODIES", 3)
    for k in range(10):
        read_list(written(query=f"query {k}"))
        assert len(known) <= 3


def test_a_service_gives_each_a_list_of_its_own(service):
    shown = [service.post("/v1/rank", PLAIN) for _ in range(3)]
    assert {answer.status for answer in shown} == {200}
    assert len({answer.json["id"] for answer in shown}) == 3
