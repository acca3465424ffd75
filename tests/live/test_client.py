"""A client of the service gives what a ranker in this process gives; and when there is no service, the given order."""

import inspect
import threading
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from clickbandit import InputError
from clickbandit.live import AsyncRanker, Client, Conflict, Event, Ranker, StoreError, Unknown
from clickbandit.live.http.auth import Keys
from clickbandit.live.values import LimitReached
from live.serving import serve

ITEMS = list("ABCDEF")
KEY = "correct-horse-battery"


@pytest.fixture
def both(folder, clock):
    """A ranker and a client of a service, each with a store of its own and the same seed, for the same settings."""
    with ExitStack() as stack:

        def open_(**settings):
            settings = {
                "policy": "batchrank",
                "positions": 3,
                "horizon": 20,
                "seed": 5,
                "clock": clock,
                **settings,
            }
            ranker = stack.enter_context(Ranker(f"sqlite:///{folder}/ranker.db", **settings))
            served = stack.enter_context(serve(AsyncRanker(f"sqlite:///{folder}/service.db", **settings)))
            return ranker, stack.enter_context(Client(served.url, timeout=20))

        yield open_


def public(kind: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in vars(kind).items()
        if not name.startswith("_") and callable(method)
    }


def test_the_methods_are_those_of_a_ranker():
    rankers = public(Ranker)
    for name in ("history", "stats"):
        rankers[name].remove("flush")
    assert public(Client) == rankers


def outcome(function, *args, **kwargs):
    """What it returns or raises."""
    try:
        return function(*args, **kwargs)
    except (InputError, StoreError) as error:
        return type(error), str(error)


def visits():
    """Lists, clicks and settlements of three queries."""
    calls = []
    for k in range(200):
        query = ("red shoes", "a/b?c#%", "..")[k % 3]
        calls.append(("rank", (query, ITEMS), {"id": f"i{k}"}))
        if k % 4 != 2:
            calls.append(("click", (f"i{k}", ITEMS[k % 6]), {}))
            calls.append(
                ("events", ([Event(f"i{k}", ITEMS[k % 5], f"e{k}", "2024-05-01T12:00:00Z")] * 2,), {})
            )
        if k % 4:
            calls.append(("settle", (f"i{k}",), {}))
    return calls


OTHER_CALLS = [
    ("rank", ("red shoes", ITEMS), {"id": "i0"}),
    ("rank", ("red shoes", ITEMS), {"id": "i1"}),
    ("rank", ("red shoes", ITEMS), {"id": "p", "pinned": {"F": 1}, "excluded": ["A"], "positions": 3}),
    ("rank", ("red shoes", ITEMS), {"positions": 4}),
    ("rank", ("red shoes", ["A", "A"]), {}),
    ("rank", ("x" * 1001, ITEMS), {}),
    ("rank", ("\ud800", ITEMS), {}),
    ("rank", ("none", []), {"id": "none"}),
    ("void", ("i0",), {}),
    ("void", ("i0",), {}),
    ("settle", ("i0",), {}),
    ("settle", ("nothing",), {}),
    ("settle", ("",), {}),
    ("click", ("i4", "Z"), {}),
    ("click", ("nothing", "A"), {"event_id": "e"}),
    ("click", ("i1", "A"), {"event_id": "late"}),
    ("click", ("i1", "A"), {"event_id": ""}),
    ("events", ([],), {}),
    (
        "events",
        ([5, {"id": "i4", "item": "A", "colour": 1}, {"id": "i4", "item": ITEMS[4], "timestamp": 5}],),
        {},
    ),
    (
        "events",
        ([{"id": "i8", "item": item, "timestamp": datetime(2024, 5, 1, tzinfo=UTC)} for item in ITEMS],),
        {},
    ),
    ("freeze", ("red shoes",), {}),
    ("rank", ("red shoes", ITEMS), {"id": "frozen"}),
    ("unfreeze", ("red shoes",), {}),
    ("freeze", ("nowhere",), {}),
    ("query", ("red shoes",), {}),
    ("query", ("a/b?c#%",), {}),
    ("query", ("..",), {}),
    ("query", ("nowhere",), {}),
    ("queries", (), {}),
    ("queries", (), {"search": "b?c#", "sort": "clicks", "descending": True, "limit": 1}),
    ("queries", (), {"offset": 3}),
    ("reset", ("red shoes",), {"policy": "random", "positions": 2, "horizon": 100, "window": "1h"}),
    ("reset", ("red shoes",), {"policy": "batchrak"}),
    ("reset", ("new",), {"window": 5.5}),
    ("rank", ("red shoes", ITEMS), {"id": "reset"}),
    ("query", ("red shoes",), {}),
    ("verify", ("..",), {}),
    ("verify", ("nowhere",), {}),
    ("rank", ("red shoes", ITEMS), {"id": "of a user", "user": "u 1/2"}),
    ("forget", ("u 1/2",), {}),
    ("forget", ("u 1/2",), {}),
    ("forget", ("",), {}),
    ("delete", ("a/b?c#%",), {}),
    ("delete", ("a/b?c#%",), {}),
    ("queries", (), {}),
    ("ping", (), {}),
]


def test_a_client_is_a_ranker_elsewhere(both, clock):
    ranker, client = both(holdout=0.5)
    for name, args, kwargs in [*visits(), *OTHER_CALLS]:
        there, here = (outcome(getattr(one, name), *args, **kwargs) for one in (client, ranker))
        assert there == here, (name, args, kwargs)
        assert type(there) is type(here)
    here, there = ranker.stats(), client.stats()
    for name in (
        "queries",
        "impressions",
        "learned",
        "settled",
        "voided",
        "clicks",
        "late",
        "holdout",
        "frozen",
    ):
        assert getattr(there, name) == getattr(here, name), name
    assert here.holdout is not None


def test_ids_are_made_up_for_whoever_gives_none(both):
    _, client = both()
    ids = {client.rank("shoes", ITEMS).id for _ in range(10)}
    assert len(ids) == 10
    assert client.query("shoes").summary.impressions == 10


def test_many_events_go_in_parts(both):
    _, client = both()
    id = "\N{GRINNING FACE}" * 200
    shown = client.rank("shoes", ["\N{GRINNING FACE}" * 199 + item for item in "ABC"], id=id)
    events = [Event(id, shown.items[k % 3], f"{k:03}" + "\N{GRINNING FACE}" * 197) for k in range(900)]
    found = client.events([*events[:500], {"id": 5}, *events[500:], Event("nowhere", "A")])
    assert [verdict.verdict for verdict in found] == ["accepted"] * 500 + ["invalid"] + ["accepted"] * 400 + [
        "unknown"
    ]
    assert [verdict.event_id for verdict in found[:500]] == [event.event_id for event in events[:500]]


def test_errors_are_those_of_a_ranker(both):
    _, client = both(max_queries=1)
    client.rank("shoes", ITEMS, id="x")
    for error, call in [
        (Conflict, lambda: client.rank("shoes", ITEMS[::-1], id="x")),
        (Unknown, lambda: client.settle("y")),
        (LimitReached, lambda: client.reset("boots")),
        (InputError, lambda: client.reset("shoes", policy="nothing")),
        (InputError, lambda: client.queries(limit=0)),
    ]:
        with pytest.raises(error):
            call()
    assert client.rank("boots", ITEMS).source == "fallback"


def test_keys(folder, clock):
    with serve(AsyncRanker(f"sqlite:///{folder}/c.db", policy="random"), keys=Keys([KEY])) as served:
        with Client(served.url, key=KEY) as client:
            assert client.rank("shoes", ITEMS).source == "policy"
        with Client(served.url) as client, pytest.raises(InputError, match="an API key is needed"):
            client.rank("shoes", ITEMS)


def test_threads_share_a_client(both):
    _, client = both(policy="random")
    found = []

    def work(number):
        for k in range(20):
            shown = client.rank("shoes", ITEMS, id=f"{number}-{k}")
            found.append((shown.id, client.click(shown.id, shown.items[0]).verdict))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 160
    assert {verdict for _, verdict in found} == {"accepted"}
    assert client.query("shoes").summary.impressions == 160


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", ""])
def test_urls_that_cannot_be(url):
    with pytest.raises(InputError, match="a service must be http://HOST:PORT"):
        Client(url)
