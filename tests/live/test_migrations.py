"""A store that an earlier version wrote is upgraded in place, serves as it would have then, and is kept as it was."""

import json
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from clickbandit import InputError
from clickbandit.live import Ranker
from clickbandit.live.settings import RankerSettings
from clickbandit.live.stores import migrations, open_store
from live import old_store
from live.conftest import new_schema

OLD = old_store.DATA / f"{old_store.NAME}.db"
"""The version before this one writes the same, row for row."""
TABLES = ("meta", "queries", "impressions", "events", "log", "snapshots", "histories")


@pytest.fixture
def copy(folder: Path) -> Path:
    return Path(shutil.copy(OLD, folder / "copy.db"))


@pytest.fixture
def old_database(postgres_server: str) -> str:
    """The rows of that store in PostgreSQL."""
    url = new_schema(postgres_server)
    booleans = {"compared", "late", "base"}
    with psycopg.connect(url) as database, closing(sqlite3.connect(OLD)) as file:
        database.execute((old_store.DATA / "tables-2.sql").read_text())
        file.row_factory = sqlite3.Row
        for table in TABLES[1:]:
            rows = [dict(row) for row in file.execute(f"select * from {table}")]
            names = [f'"{name}"' for name in rows[0]]
            values = [
                [bool(v) if k in booleans and table != "queries" else v for k, v in row.items()]
                for row in rows
            ]
            with database.cursor() as cursor:
                cursor.executemany(
                    f"insert into {table} ({', '.join(names)}) overriding system value values "
                    f"({', '.join(['%s'] * len(names))})",
                    values,
                )
        for table, key in (("queries", "id"), ("impressions", "number"), ("events", "number")):
            database.execute(
                f"select setval(pg_get_serial_sequence('{table}', '{key}'), max({key})) from {table}"
            )
    return url


def check_what_is_said(url: str) -> None:
    expected = json.loads((old_store.DATA / f"{old_store.NAME}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(old_store.said(url)), object_hook=in_clicks)
    assert found.keys() == expected.keys()
    for arm in ("treated", "held_out"):
        one, other = (said["before"]["stats"]["holdout"][arm] for said in (found, expected))
        assert (one["impressions"], one["clicks"]) == (other["impressions"], other["clicks"])
    for said in (found, expected):
        forget_comparisons(said)
    for when in ("before", "after"):
        for history in found[when]["histories"]:
            counted, counts = history.pop("counted"), history.pop("counts")  # which version 0.1 did not say
            assert (counted > 0) == any(item["impressions"] for item in counts)
    for part in ("stats", "summaries", "details", "histories", "verified"):
        assert found["before"][part] == expected["before"][part], part
    assert found == expected


def in_clicks(said):
    """What was earned, which was clicks alone then; and queries were listed without their best lists."""
    if said.get("best", ()) is None:
        del said["best"]
    if "reward" not in said:
        return said
    reward = said.pop("reward")
    assert said.get("clicks", reward) == reward
    return {**said, "clicks": reward}


def forget_comparisons(said):
    """Their intervals are others since, which may be watched, and come once there are more clicks."""
    for when in ("before", "after"):
        for part in (said[when]["stats"], *said[when]["details"]):
            del part["holdout"]


def everything(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as file:
        return {table: file.execute(f"select * from {table}").fetchall() for table in TABLES}


def columns(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as file:
        return {
            table: [name for _, name, *_ in file.execute(f"pragma table_info({table})")] for table in TABLES
        }


def test_a_store_of_version_0_1(copy):
    """Counts, histories, learners from a snapshot and from the log alone, and every list that comes next."""
    check_what_is_said(f"sqlite:///{copy}")


def test_a_database_of_the_version_before(old_database):
    check_what_is_said(old_database)
    with psycopg.connect(old_database) as database:
        assert database.execute("select version from meta").fetchone() == (migrations.VERSION,)
        assert database.execute("select version from meta_version_2").fetchone() == (2,)
        kept = database.execute("select count(*) from impressions_version_2").fetchone()
    assert kept == (len(everything(OLD)["impressions"]),)


def test_what_an_upgrade_of_a_database_kept_is_not_lost_to_another(old_database):
    """As when the tables of before were restored, which leaves those that were kept."""
    with psycopg.connect(old_database, autocommit=True) as database:
        database.execute("create table events_version_2 as table events")
        with pytest.raises(
            InputError, match="found events_version_2 of another upgrade: drop or rename them"
        ):
            open_store(old_database)
        assert database.execute("select version from meta").fetchone() == (2,)
        database.execute("alter table events_version_2 rename to kept")
        open_store(old_database).close()
        assert database.execute("select version from meta").fetchone() == (migrations.VERSION,)


def test_what_was_there_is_kept_beside_it(copy, folder):
    open_store(f"sqlite:///{copy}").close()
    backup = folder / "copy.db.version-2"
    assert everything(backup) == everything(OLD)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir() if "lock" not in path.name) == [
        "copy.db",
        "copy.db.version-2",
    ]
    open_store(f"sqlite:///{folder}/new.db").close()
    assert columns(copy) == columns(folder / "new.db")
    backup.unlink()
    open_store(f"sqlite:///{copy}").close()
    assert not backup.exists()  # what is up to date is not upgraded again


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(copy, old_database, monkeypatch):
    monkeypatch.setitem(migrations.STEPS, 2, (*migrations.STEPS[2], "alter table nothing add column x text"))
    for url in (f"sqlite:///{copy}", old_database):
        with pytest.raises(InputError, match=r"cannot be used as a store: .*nothing"):
            open_store(url)
    assert everything(copy) == everything(OLD)
    monkeypatch.undo()
    for url in (f"sqlite:///{copy}", old_database):
        with Ranker(url, policy="batchrank") as ranker:
            assert ranker.verify("batched")


def test_a_later_version_is_refused(url, sql):
    open_store(url).close()
    later = f"update meta set version = {migrations.VERSION + 1}"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
            file.execute(later)
    else:
        with psycopg.connect(url) as database:
            database.execute(later)
    with pytest.raises(
        InputError,
        match=rf"later version of clickbandit: .* {migrations.VERSION}, found {migrations.VERSION + 1}: install",
    ):
        open_store(url)


def test_a_version_from_before_any_release_is_refused(copy):
    with closing(sqlite3.connect(copy)) as file, file:
        file.execute("update meta set version = 1")
    with pytest.raises(InputError, match="version 2 or later, found 1"):
        open_store(f"sqlite:///{copy}")


def test_old_queries_learn_on_with_their_policy(copy):
    """The default was another then, and none is named now: only a new query gets today's."""
    with Ranker(f"sqlite:///{copy}", positions=3) as ranker:
        before = {summary.query: summary for summary in ranker.queries().queries}
        shown = ranker.rank("batched", [*old_store.ITEMS, "new"])
        ranker.settle(shown.id)
        new = ranker.rank("today", old_store.ITEMS)
        assert (shown.policy, new.policy) == ("batchrank", RankerSettings().policy)
        after = ranker.query("batched")
        assert after.summary.learned == before["batched"].learned + 1
        assert after.generation == 1
        assert ranker.verify("batched")
        assert {query: summary.policy for query, summary in before.items()} == {
            **old_store.POLICIES,
            "frozen": "batchrank",
            "started over": "batchrank",
        }
