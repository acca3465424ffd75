"""Memory is bounded by bytes: a few large queries must not take what many small ones may."""

import logging

import pytest

from live.conftest import PlainAlgorithms, only_sqlite

pytestmark = only_sqlite


@pytest.fixture(autouse=True)
def plain(monkeypatch, caplog):
    """Nothing here is worth the time to compile."""
    caplog.set_level(logging.CRITICAL, "clickbandit.live")
    monkeypatch.setattr("clickbandit.live.methods.Algorithms", PlainAlgorithms)


def items(n):
    return [f"item {k}" for k in range(n)]


def test_large_queries_are_let_go_by_their_bytes(open_ranker):
    """Each takes about 120 KB of 1 MiB."""
    ranker = open_ranker(policy="toprank", memory=1)
    for k in range(20):
        assert ranker.rank(f"query {k}", items(70)).source == "policy"
        stats = ranker.stats()
        assert stats.learner_bytes <= 2**20
    assert 5 <= stats.learners <= 9
    for k in range(20):  # nothing is lost
        assert ranker.query(f"query {k}").summary.items == 70
        assert ranker.rank(f"query {k}", items(70)).source == "policy"
    ranker._core._engine.learners.clear()
    assert ranker._core._engine.learners.n_bytes == 0


def test_small_queries_are_let_go_by_their_number(open_ranker):
    ranker = open_ranker(learners=3)
    for k in range(6):
        ranker.rank(f"query {k}", items(5))
    assert ranker.stats().learners == 3


def test_those_that_are_in_use_stay(open_ranker):
    ranker = open_ranker(learners=4)
    for k in range(8):
        ranker.rank(f"query {k}", items(5))
        ranker.rank("query 0", items(5))
    known = {learner.query for learner in ranker._core._engine.learners._known.values()}
    assert known == {"query 0", "query 5", "query 6", "query 7"}
    assert ranker.stats().loaded == 8  # each once


def test_more_items_take_more(open_ranker):
    ranker = open_ranker(policy="cts")
    sizes = []
    for n in (10, 100, 100, 20):
        ranker.rank("shoes", items(n))
        sizes.append(ranker.stats().learner_bytes)
    assert sizes[0] + 90 * 200 < sizes[1] == sizes[2] == sizes[3]  # items that are left out once are kept
    ranker._core._engine.learners.clear()
    assert ranker._core._engine.learners._n_bytes == 0


def test_one_in_the_place_of_another_is_counted_once(open_ranker):
    ranker = open_ranker(policy="toprank")
    ranker.rank("shoes", items(30))
    before = ranker.stats().learner_bytes
    for _ in range(3):
        ranker.reset("shoes", policy="toprank", replay=True)
        ranker.rank("shoes", items(30))
    assert ranker.stats().learner_bytes == before
    ranker._core._engine.learners.clear()
    assert ranker._core._engine.learners._n_bytes == 0


def test_a_state_that_is_too_large_is_not_begun(open_ranker):
    ranker = open_ranker(policy="toprank", memory=1)
    shown = ranker.rank("shoes", items(200))
    assert (shown.source, shown.items) == ("fallback", tuple(items(3)))
    assert ranker.stats().learner_bytes < 20_000
    assert ranker.rank("hats", items(60)).source == "policy"
    assert ranker.rank("hats", items(200)).source == "fallback"  # nor grown into
    assert ranker.rank("hats", items(60)).source == "policy"
    assert ranker.verify("hats")
    ranker.reset("shoes", policy="random")
    assert ranker.rank("shoes", items(200)).source == "policy"


def test_what_is_said_of_items_counts(open_ranker):
    """1,000 numbers of each query, and as many again where it teaches others: 1 MiB has room for some 16."""
    ranker = open_ranker(policy="click-ts", memory=1)
    learners = ranker._core._engine.learners
    features = [[float(k + n) for k in range(100)] for n in range(10)]
    for k in range(40):
        ranker.rank(f"query {k}", items(10), features=features)
        before = len(learners) * 1000 * 32
        assert before < ranker.stats().learner_bytes <= 2**20
    assert len(learners) < 30
