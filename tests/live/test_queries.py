"""Queries: listed, frozen, reset, limited."""

from datetime import UTC, datetime

import pytest

from clickbandit import InputError
from clickbandit.live import Unknown
from clickbandit.live.values import LimitReached

ITEMS = list("ABCDEF")


def test_a_query_that_never_was(open_ranker):
    ranker = open_ranker()
    for method in (ranker.query, ranker.freeze, ranker.unfreeze, ranker.verify):
        with pytest.raises(Unknown, match="no query 'shoes'"):
            method("shoes")


def test_queries_by_the_page(open_ranker):
    ranker = open_ranker()
    for n, name in enumerate(["red shoes", "Blue Shoes", "hats", "red hats"]):
        for _ in range(n + 1):
            ranker.rank(name, ITEMS)

    def names(**page):
        return [entry.query for entry in ranker.queries(**page).queries]

    assert names() == ["Blue Shoes", "hats", "red hats", "red shoes"]
    assert names(search="shoes") == ["Blue Shoes", "red shoes"]
    assert names(search="ED") == ["red hats", "red shoes"]
    assert names(search="%") == []
    assert names(sort="impressions") == ["red shoes", "Blue Shoes", "hats", "red hats"]
    assert names(sort="impressions", descending=True, limit=2) == ["red hats", "hats"]
    assert names(sort="impressions", descending=True, limit=2, offset=2) == ["Blue Shoes", "red shoes"]
    assert ranker.queries(search="red", limit=1).total == 2
    with pytest.raises(InputError, match="sort must be"):
        ranker.queries(sort="policy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="1 to 1,000"):
        ranker.queries(limit=0)


def test_a_frozen_query_shows_its_best_list_and_does_not_learn(open_ranker):
    ranker = open_ranker(policy="cascade-kl-ucb")
    for _ in range(30):
        shown = ranker.rank("shoes", ITEMS)
        for item in shown.items:
            if item in "CE":
                ranker.click(shown.id, item)
        ranker.settle(shown.id)
    waiting = ranker.rank("shoes", ITEMS)
    best = ranker.query("shoes").best
    assert set(best[:2]) == set("CE")
    assert ranker.freeze("shoes").frozen
    learned = ranker.query("shoes").summary.learned
    for _ in range(5):
        shown = ranker.rank("shoes", ITEMS)
        assert (shown.source, list(shown.items), set(shown.propensities)) == ("frozen", best, {1.0})
        ranker.settle(shown.id)
    assert ranker.query("shoes").summary.learned == learned
    assert list(ranker.rank("shoes", [item for item in ITEMS if item != best[0]]).items[:2]) == best[1:]
    ranker.settle(waiting.id)  # was shown before, and is learned from
    assert ranker.query("shoes").summary.learned == learned + 1
    assert ranker.query("shoes").best == best
    assert not ranker.unfreeze("shoes").frozen
    assert ranker.rank("shoes", ITEMS).source == "policy"
    assert ranker.verify("shoes")


def test_reset_starts_afresh(open_ranker, clock):
    ranker = open_ranker(policy="cascade-kl-ucb")
    before = [ranker.rank("shoes", ITEMS) for _ in range(3)]
    ranker.settle(before[0].id)
    ranker.freeze("shoes")
    summary = ranker.reset("shoes", policy="random", positions=2, horizon=100, window="1m")
    assert (summary.policy, summary.positions, summary.horizon, summary.learned) == ("random", 2, 100, 0)
    assert not summary.frozen
    ranker.settle(before[1].id)  # of the old learner
    assert ranker.query("shoes").summary.learned == 0
    shown = ranker.rank("shoes", ITEMS)
    assert len(shown.items) == 2
    assert shown.expires_at == datetime.fromtimestamp(clock.now + 60, UTC)
    ranker.settle(shown.id)
    detail = ranker.query("shoes")
    assert (detail.summary.learned, detail.summary.settled, detail.generation) == (1, 3, 2)
    assert ranker.verify("shoes")
    assert ranker.reset("boots", policy="ranked-exp3").policy == "ranked-exp3"  # before its first use
    assert ranker.rank("boots", ITEMS).policy == "ranked-exp3"
    ranker.close()
    assert open_ranker().query("shoes").summary.policy == "random"


def test_a_query_keeps_the_settings_that_it_started_with(open_ranker):
    ranker = open_ranker()
    ranker.rank("shoes", ITEMS)
    ranker.close()
    ranker = open_ranker(policy="cascade-kl-ucb", positions=2, horizon=50)
    assert (ranker.rank("shoes", ITEMS).policy, len(ranker.rank("shoes", ITEMS).items)) == ("random", 3)
    assert (ranker.rank("boots", ITEMS).policy, len(ranker.rank("boots", ITEMS).items)) == (
        "cascade-kl-ucb",
        2,
    )


def test_learning_goes_on_past_the_horizon(open_ranker):
    ranker = open_ranker(horizon=5)
    for n in range(7):
        ranker.settle(ranker.rank("shoes", ITEMS).id)
        summary = ranker.query("shoes").summary
        assert (summary.learned, summary.past_horizon) == (n + 1, n + 1 > 5)
    assert ranker.stats().past_horizon == 1


def test_the_number_of_queries_is_limited(open_ranker):
    ranker = open_ranker(max_queries=2)
    for name in ("a", "b"):
        ranker.rank(name, ITEMS)
    shown = ranker.rank("c", ITEMS)
    assert (shown.source, shown.items) == ("fallback", tuple(ITEMS[:3]))
    with pytest.raises(LimitReached, match="'c' would be a new query"):
        ranker.reset("c")
    ranker.rank("a", ITEMS)
    assert ranker.stats().queries == 2
