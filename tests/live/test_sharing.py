"""Several engines on one store, as many processes share a database: each brings its learners up to date from the log.

SQLite is for one process, and refuses a second; without its lock on the file it shows what the engine does.
"""

import fcntl
from concurrent.futures import ThreadPoolExecutor

import pytest

from clickbandit.live import Ranker

ITEMS = list("ABCDEF")


@pytest.fixture
def unlocked(monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda file, operation: None)


def ask(ranker, n):
    """Users who like C and E."""
    shown = ranker.rank("shoes", ITEMS, id=f"i{n}")
    for item in set(shown.items) & set("CE"):
        ranker.click(shown.id, item)
    return shown.items


def test_together_they_are_as_one(open_ranker, unlocked, folder, clock, url):
    settings = {"policy": "batchrank", "horizon": 20, "seed": 3}
    two = [open_ranker(**settings) for _ in range(2)]
    shared = []
    for n in range(150):
        shared.append(ask(two[n % 2], n))
        if n >= 3:
            (two[n % 3 % 2].void if n % 10 == 0 else two[n % 3 % 2].settle)(f"i{n - 3}")
    detail = two[0].query("shoes")
    assert detail == two[1].query("shoes")
    assert all(ranker.verify("shoes") for ranker in two)
    if not url.startswith(
        "sqlite"
    ):  # whose rows of a log are put together, where another may be in their midst
        assert all(ranker.stats().loaded < 5 for ranker in two)  # the rest was replayed
    with Ranker(f"sqlite:///{folder}/one.db", positions=3, clock=clock, **settings) as one:
        for n in range(150):
            assert ask(one, n) == shared[n], n
            if n >= 3:
                (one.void if n % 10 == 0 else one.settle)(f"i{n - 3}")
        assert one.query("shoes").learned == detail.learned


def test_at_the_same_time(open_ranker, unlocked):
    """Nothing is lost and nothing counts twice, whoever comes first."""
    rankers = [open_ranker(policy="batchrank", horizon=20, learners=2) for _ in range(3)]
    queries = [f"q{n}" for n in range(5)]

    def visit(n):
        query = queries[n % 5]
        shown = rankers[n % 3].rank(query, ITEMS, id=f"i{n}")
        assert rankers[(n + 1) % 3].rank(query, ITEMS, id=f"i{n}") == shown
        verdicts = [
            rankers[(n + k) % 3].click(shown.id, shown.items[0], event_id=f"e{n}").verdict for k in range(2)
        ]
        rankers[(n + 2) % 3].settle(shown.id)
        return sorted(verdicts)

    with ThreadPoolExecutor(6) as pool:
        assert set(map(tuple, pool.map(visit, range(150)))) == {("accepted", "duplicate")}
    for ranker in rankers:
        for query in queries:
            summary = ranker.query(query).summary
            assert (summary.impressions, summary.learned, summary.clicks) == (30, 30, 30)
            assert ranker.verify(query)
        assert ranker.stats().failures == 0
