"""Opening and closing a ranker: settings, stores, threads and event loops."""

import asyncio
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from clickbandit import InputError
from clickbandit.live import AsyncRanker, Conflict, Event, Ranker, StoreError
from clickbandit.live.values import Closed
from live.conftest import only_sqlite

ITEMS = list("ABCDEF")
WINDOW = 1800


def verdicts(found):
    return [verdict.verdict for verdict in found]


def test_a_new_database_is_for_its_owner_alone(tmp_path):
    with Ranker(f"sqlite:///{tmp_path / 'clicks.db'}"):
        assert stat.S_IMODE((tmp_path / "clicks.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": "soon"}, "window must be seconds or text"),
        ({"window": "8d"}, "retention must be at least as long"),
        ({"positions": 51}, "from 1 to 50"),
        ({"horizon": 4}, "horizon must be"),
        ({"holdout": 1.5}, "holdout must be a share"),
        ({"learners": 0}, "learners must be at least 1"),
        ({"policy": "optimal"}, "only a simulation knows"),
        ({"policy": "batchrnk"}, "did you mean batchrank"),
    ],
)
def test_wrong_settings(open_ranker, settings, message):
    with pytest.raises(InputError, match=message):
        open_ranker(**settings)


def test_a_store_must_be_known():
    with pytest.raises(InputError, match=r"a store must be sqlite:///FILE.*found mysql:"):
        Ranker("mysql://localhost/clicks")
    with pytest.raises(InputError, match=r"a store must be a URL.*found 'clicks.db'"):
        Ranker("clicks.db")


@only_sqlite
def test_a_file_of_something_else_is_refused(open_ranker, folder):
    with closing(sqlite3.connect(folder / "clicks.db")) as connection, connection:
        connection.execute("create table recipes (name text)")
    with pytest.raises(InputError, match="found other tables"):
        open_ranker()
    (folder / "clicks.db").write_text(
        "no database at all, but a text that is long enough to be read as one" * 9
    )
    with pytest.raises(InputError, match="file is not a database"):
        open_ranker()


@only_sqlite
def test_a_second_process_is_refused(open_ranker, url):
    open_ranker()
    code = f"from clickbandit.live import Ranker; Ranker({url!r}, policy='random')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "is in use by process" in done.stderr
    with pytest.raises(InputError, match="is in use by process"):
        Ranker(url, policy="random")


def test_nothing_is_done_after_closing(open_ranker):
    ranker = open_ranker()
    ranker.rank("shoes", ITEMS)
    ranker.close()
    ranker.close()
    with pytest.raises(Closed):
        ranker.rank("shoes", ITEMS)
    with pytest.raises(StoreError):
        ranker.stats()


def test_a_program_that_never_closes_its_ranker_ends_and_loses_nothing(url):
    program = f"""
import threading
from clickbandit.live import Ranker
ranker = Ranker({url!r}, policy="random", positions=3)
def visit(n):
    for k in range(10):
        shown = ranker.rank("shoes", list("ABCDEF"), id=f"{{n}}-{{k}}")
        assert ranker.click(shown.id, shown.items[0], event_id=shown.id).verdict == "accepted"
threads = [threading.Thread(target=visit, args=[n]) for n in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert ranker.stats().impressions == 30
print("done", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "done\n"
        assert (process.wait(5), process.stderr.read()) == (0, "")
    with Ranker(url, policy="random", positions=3) as ranker:
        lists = [ranker.rank("shoes", ITEMS, id=f"{n}-{k}") for n in range(3) for k in range(10)]
        assert ranker.query("shoes").summary.impressions == 30
        assert {ranker.click(s.id, s.items[0], event_id=s.id).verdict for s in lists} == {"duplicate"}
        assert ranker.verify("shoes")


def test_async(url, clock):
    async def use() -> None:
        async with AsyncRanker(url, policy="random", positions=3, clock=clock) as ranker:
            lists = await asyncio.gather(*[ranker.rank("shoes", ITEMS) for _ in range(50)])
            assert len({shown.id for shown in lists}) == 50
            found = await ranker.events([Event(shown.id, shown.items[0]) for shown in lists])
            assert verdicts(found) == ["accepted"] * 50
            assert (await ranker.click(lists[0].id, lists[0].items[0])).verdict == "duplicate"
            assert (await ranker.settle(lists[0].id)).clicked == lists[0].items[:1]
            assert (await ranker.void(lists[1].id)).outcome == "void"
            with pytest.raises(Conflict):
                await ranker.void(lists[0].id)
            clock.now += WINDOW
            stats = await ranker.stats()
            assert (stats.settled, stats.voided, stats.clicks) == (49, 1, 49)
            assert stats.batches < 30  # many lists were committed together
            assert (await ranker.queries()).total == 1
            assert (await ranker.freeze("shoes")).frozen
            assert not (await ranker.unfreeze("shoes")).frozen
            assert (await ranker.reset("shoes")).learned == 0
            assert (await ranker.query("shoes")).generation == 2
            assert await ranker.verify("shoes")

    asyncio.run(use())
