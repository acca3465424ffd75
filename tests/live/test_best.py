"""The best list of every query of a store: the same from Python, over HTTP and from the command line."""

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from clickbandit import InputError
from clickbandit.cli import app
from clickbandit.live import Client, methods
from clickbandit.live.comparison import certainty
from live.conftest import only_sqlite

ITEMS = list("ABCDE")


def learn(ranker, query, n, best=("C",)):
    for _ in range(n):
        shown = ranker.rank(query, ITEMS)
        for item in {*best} & {*shown.items}:
            ranker.click(shown.id, item)
        ranker.settle(shown.id)


def asked(url, *options):
    return CliRunner().invoke(app, ["best", "--store", url, *options])


def lines(url):
    return {line["query"]: line for line in map(json.loads, asked(url, "--json").stdout.splitlines())}


def test_it_is_what_each_query_says(url, open_ranker):
    """With a snapshot and records after it, without one, and without anything."""
    ranker = open_ranker(policy="click-ts")
    for query, n in (("shoes", 140), ("hats", 3)):
        learn(ranker, query, n)
    ranker.reset("socks")
    said = {one.query: one for one in ranker.queries(include="best").queries}
    written = lines(url)
    assert [*written] == ["shoes", "hats", "socks"]
    for query, line in written.items():
        detail = ranker.query(query)
        assert said[query].best == line["best"] == detail.best
        assert said[query].certainty == line["certainty"] == certainty(detail.learned, detail.best)
        assert line["learned"] == detail.summary.learned
    assert written["shoes"]["best"][0] == "C"
    assert 0 <= written["shoes"]["certainty"] < 1
    assert (written["socks"]["best"], written["socks"]["certainty"]) == ([], None)
    assert {one.best for one in ranker.queries().queries} == {None}
    with pytest.raises(InputError, match="include must be best"):
        ranker.queries(include="all")


@only_sqlite
def test_for_people(url, open_ranker):
    ranker = open_ranker()
    assert "no queries yet" in asked(url).stdout
    for k in range(52):
        ranker.rank(f"q{k}", ITEMS)
    learn(ranker, "shoes", 2)
    said = asked(url).stdout
    assert said.split("\n")[3].split()[0] == "shoes"
    assert "the 50 queries with most impressions of 53" in said


@only_sqlite
def test_some_at_a_time(open_ranker, monkeypatch):
    """Whatever the limit: each has to be worked out."""
    monkeypatch.setattr(methods, "MAX_INCLUDED", 3)
    ranker = open_ranker()
    for k in range(5):
        ranker.rank(f"q{k}", ITEMS)
    for limit, included, listed in ((2, 2, 2), (1000, 3, 5)):
        page = ranker.queries(include="best", limit=limit)
        assert (len(page.queries), page.total) == (included, 5)
        assert len(ranker.queries(limit=limit).queries) == listed


@only_sqlite
def test_a_frozen_query_has_the_list_that_it_shows(url, open_ranker):
    """Though it goes on to learn from what was shown before."""
    ranker = open_ranker(policy="cts")
    learn(ranker, "shoes", 10, best="A")
    pending = [ranker.rank("shoes", ITEMS) for _ in range(40)]
    ranker.freeze("shoes")
    frozen = list(ranker.rank("shoes", ITEMS).items)
    assert frozen[0] == "A"
    for shown in pending:
        for item in {"D", "E"} & {*shown.items}:
            ranker.click(shown.id, item)
        ranker.settle(shown.id)
    line = lines(url)["shoes"]
    assert (line["best"], line["certainty"], line["state"]) == (frozen, None, "frozen")
    ranker.unfreeze("shoes")
    assert lines(url)["shoes"]["best"] != frozen


@only_sqlite
def test_what_is_damaged_spoils_nothing_for_others(url, open_ranker):
    ranker = open_ranker(policy="batchrank")
    learn(ranker, "shoes", 300)
    learn(ranker, "hats", 5)
    best = {query: line["best"] for query, line in lines(url).items()}
    ranker.close()
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        file.execute("update snapshots set state = x'00' where number = (select max(number) from snapshots)")
        file.commit()
        assert {query: line["best"] for query, line in lines(url).items()} == best
        file.execute("update log set records = x'00' where query = 1")
        file.commit()
    found = asked(url, "--json")
    assert found.exit_code == 1
    assert "about 1 query cannot be loaded" in found.output
    assert {query: line["best"] for query, line in lines(url).items()} == {
        "shoes": None,
        "hats": best["hats"],
    }


def test_over_http(open_service):
    service = open_service({"policy": "batchrank"})
    service.rank("shoes")
    assert service.get("/v1/queries").json["queries"][0]["best"] is None
    (found,) = service.get("/v1/queries?include=best").json["queries"]
    assert found["best"] == service.get("/v1/queries/shoes").json["best"]
    assert found["certainty"] is None
    assert service.get("/v1/queries?include=all").status == 422
    assert service.get("/v1/stream?include=best").status == 422
    with Client(service.url) as client:
        assert client.queries(include="best").queries[0].best == found["best"]
