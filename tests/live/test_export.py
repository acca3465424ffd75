"""Settled impressions are exported with how they were chosen, and archived before they are forgotten: each once."""

import io
import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from clickbandit import InputError
from clickbandit.cli import app
from clickbandit.live import export as exporting
from clickbandit.live.stores import open_reader
from clickbandit.live.values import StoreError
from live.conftest import only_sqlite

ITEMS = list("ABCDE")


def visit(ranker, n, settle=True):
    shown = ranker.rank("shoes", ITEMS, id=f"i{n}", user="me" if n % 2 else None)
    ranker.click(shown.id, shown.items[n % 3])
    if settle:
        ranker.settle(shown.id)
    return shown


def test_each_impression_is_in_one_of_the_exports(url, open_ranker, folder):
    """What is pending is exported when it has settled, and what is void never."""
    ranker = open_ranker(holdout=0.3, holdout_by="user")
    shown = [visit(ranker, n, settle=n % 4 > 0) for n in range(12)]
    ranker.void("i0")
    reader = open_reader(url)
    n, mark = exporting.export(reader, folder / "one.parquet")
    assert n == 9
    assert exporting.last_mark(folder / "one.parquet") == mark
    ranker.settle("i4")
    shown += [visit(ranker, n) for n in range(12, 15)]
    assert exporting.export(reader, folder / "two.parquet", mark)[0] == 4
    assert (
        exporting.export(reader, folder / "none.parquet", exporting.last_mark(folder / "two.parquet"))[0] == 0
    )
    reader.close()
    rows = [row for name in ("one", "two") for row in pq.read_table(folder / f"{name}.parquet").to_pylist()]
    by_id = {row["impression"]: row for row in rows}
    assert len(rows) == len(by_id)
    assert by_id.keys() == {f"i{n}" for n in range(1, 15)} - {"i8"}
    for n, list_ in enumerate(shown):
        if (row := by_id.get(f"i{n}")) is None:
            continue
        assert (row["list"], row["candidates"], row["source"]) == ([*list_.items], ITEMS, list_.source)
        assert row["clicks"] == [int(k == n % 3) for k in range(3)]
        assert (row["reward"], row["user"], row["query"]) == (1, "me" if n % 2 else None, "shoes")
        assert (row["policy"], row["positions"], row["horizon"], row["seed"]) == ("random", 3, 10**6, 0)
        assert row["propensities"] == list(list_.propensities)
        expected = [1] * 3 if list_.source == "holdout" else [1 / 5, 1 / 20, 1 / 60]
        assert row["prefix_propensities"] == pytest.approx(expected)
        assert row["propensity_errors"] is None


@only_sqlite
def test_estimated_propensities_have_errors_and_others_are_unknown(url, open_ranker):
    for draws in (50, 0):
        with open_ranker(policy="cts", propensity_draws=draws) as ranker:
            visit(ranker, draws)
    reader = open_reader(url)
    rows = {row["impression"]: row for row in exporting.rows_of(reader.decisions(0, 10))}
    reader.close()
    estimated, unknown = rows["i50"], rows["i0"]
    assert all(0 < error < 0.2 for error in estimated["propensity_errors"] + estimated["prefix_errors"])
    chances, prefixes = estimated["propensities"], estimated["prefix_propensities"]
    assert all(prefix <= chance for prefix, chance in zip(prefixes, chances, strict=True))
    assert prefixes == sorted(prefixes, reverse=True)
    assert unknown["propensities"] is None
    assert unknown["prefix_propensities"] is None


def test_over_http(open_service):
    service = open_service()
    for n in range(5):
        service.rank(id=str(n))
        service.post(f"/v1/impressions/{n}/settle")
    lines = service.get("/v1/export?limit=2").body.splitlines()
    first = [json.loads(line) for line in lines]
    assert [row["impression"] for row in first] == ["0", "1"]
    arrow = service.get(f"/v1/export?format=arrow&since={first[-1]['mark']}")
    assert arrow.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(io.BytesIO(arrow.body)).read_all()
    assert table["impression"].to_pylist() == ["2", "3", "4"]
    assert table.schema == exporting.schema()
    assert service.get(f"/v1/export?since={table['mark'].to_pylist()[-1]}").body == b""
    assert service.get("/v1/export?since=-1").status == 422


@pytest.mark.parametrize("format", ["ndjson", "arrow"])
def test_an_answer_has_so_many_bytes_and_is_written_beside_the_requests(open_service, monkeypatch, format):
    service = open_service()
    for n in range(7):
        service.rank(id=str(n))
        service.post(f"/v1/impressions/{n}/settle")
    threads = set()
    rows_of = exporting.rows_of

    def watched(decisions):
        threads.add(threading.current_thread().name.rpartition("_")[0])
        return rows_of(decisions)

    monkeypatch.setattr(exporting, "rows_of", watched)
    whole = service.get(f"/v1/export?format={format}").body
    monkeypatch.setattr(exporting, "_FEW", 1)
    monkeypatch.setattr(exporting, "MAX_BYTES", len(whole) // 2)
    found, sizes = [], []
    while not sizes or sizes[-1]:
        since = found[-1]["mark"] if found else 0
        body = service.get(f"/v1/export?format={format}&since={since}").body
        if format == "arrow":
            some = pa.ipc.open_stream(io.BytesIO(body)).read_all().to_pylist()
        else:
            some = [json.loads(line) for line in body.splitlines()]
        found += some
        sizes.append(len(some))
    assert [row["impression"] for row in found] == list("0123456")
    assert max(sizes) < 7
    assert threads == {"clickbandit-live-reader"}


def archived(folder):
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    return [id for table in tables for id in table["impression"].to_pylist()]


@only_sqlite
def test_what_is_forgotten_is_in_the_archive_once(open_ranker, clock, folder, monkeypatch):
    """Also if the process is gone, or the disk full, after the file was written and before the rows were deleted."""
    ranker = open_ranker(archive=str(folder / "old"), retention="1h", window="30m")
    for n in range(6):
        visit(ranker, n, settle=n != 3)
    ranker.void(ranker.rank("shoes", ITEMS, id="void").id)
    store = ranker._core._engine._store
    before = int(clock.now * 1000) + 1
    with monkeypatch.context() as patch:
        patch.setattr(store.database, "run", failing(store.database.run))
        with pytest.raises(StoreError):
            store.prune(before, 4)
    assert archived(folder / "old") == ["i0", "i1", "i2"]
    visit(ranker, 6)
    assert store.prune(before, 10) > 0
    assert archived(folder / "old") == ["i0", "i1", "i2", "i4", "i5", "i6"]
    ranker.settle("i3")
    store.prune(before, 10)
    assert sorted(archived(folder / "old")) == [f"i{n}" for n in range(7)]
    assert [path.suffix for path in (folder / "old").iterdir()] == [".parquet"] * 2
    visit(ranker, 7)
    with monkeypatch.context() as patch:
        patch.setattr(exporting.os, "replace", failing(None))
        with pytest.raises(StoreError, match=r"the archive .* cannot be written"):
            store.prune(before, 10)
    assert ranker.settle("i7").outcome == "settled"  # it is still there


def failing(run):
    def fail(statement, *values):
        if run is None or str(statement).startswith("delete from impressions"):
            raise OSError("no space left") if run is None else StoreError("killed")
        return run(statement, *values)

    return fail


@only_sqlite
def test_the_command(url, open_ranker, folder):
    ranker = open_ranker()
    visit(ranker, 1)
    run = CliRunner().invoke
    first, second = str(folder / "a.parquet"), str(folder / "b.parquet")
    assert run(app, ["export", "--store", url, "--out", first]).exit_code == 0
    visit(ranker, 2)
    result = run(app, ["export", "--store", url, "--out", second, "--since", first])
    assert "(1 impression)" in result.output
    assert pq.read_table(second)["impression"].to_pylist() == ["i2"]
    pq.write_table(pa.table({"a": [1]}), folder / "foreign.parquet")
    for options, said in (
        ({"--store": url, "--out": first}, "exists"),
        ({"--store": f"sqlite:///{folder}/missing.db", "--out": folder / "c"}, "must be the file of a store"),
        ({"--store": f"sqlite:///{first}", "--out": folder / "c"}, "cannot be read as a store"),
        (
            {"--store": url, "--out": folder / "c", "--since": folder / "foreign.parquet"},
            "must be a file that",
        ),
        ({"--store": url, "--out": folder / "c", "--since": folder / "missing"}, "must be a file that"),
    ):
        result = run(app, ["export", *(str(text) for pair in options.items() for text in pair)])
        assert isinstance(result.exception, InputError)
        assert said in str(result.exception)
        assert "\n" not in str(result.exception)
