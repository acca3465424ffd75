"""OpenSearch's User Behavior Insights as a log."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log
from clickbandit.logs.formats.base import format_of

Data = dict[str, Any]


def event(query_id: str, action: str, item: str, ordinal: int) -> Data:
    attributes = {"object": {"object_id": item}, "position": {"ordinal": ordinal}}
    return {"action_name": action, "query_id": query_id, "event_attributes": attributes}


QUERIES: list[Data] = [
    {"query_id": "1", "user_query": "rote schuhe", "query_response_hit_ids": ["a", "b", "a"]},
    {"query_id": "2", "user_query": "rote schuhe", "query_response_hit_ids": []},
    {"query_id": "3", "user_query": "boots", "query_response_hit_ids": ["x"]},
]
EVENTS: list[Data] = [
    event("1", "click", "a", 2),
    event("1", "impression", "z", 0),  # the query's own hits count
    *(event("2", "impression", item, k) for k, item in enumerate("cde")),
    event("2", "click_through", "d", 1),
    event("2", "click", "d", 1),
    event("2", "click", "q", 1),  # was not shown
    event("3", "purchase", "x", 0),
]
EXPECTED = [
    {"query": "boots", "list": ["x"], "clicks": 0, "sessions": 1},
    {"query": "rote schuhe", "list": ["a", "b", "a"], "clicks": 0b001, "sessions": 1},
    {"query": "rote schuhe", "list": ["c", "d", "e"], "clicks": 0b010, "sessions": 1},
]
ODD = {"clicks on nothing shown": 1, "events of other kinds": 1, "lists with an item twice": 1}


def lines(rows: list[Data]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def check(counts: Counts) -> None:
    assert counts.table.to_pylist() == EXPECTED
    assert counts.reading.odd == ODD
    assert counts.reading.lines == len(QUERIES) + len(EVENTS)


def test_a_bulk_export(tmp_path: Path) -> None:
    path = tmp_path / "ubi.ndjson"
    rows = [({"index": {"_index": "ubi_queries"}}, row) for row in QUERIES]
    rows += [({"create": {"_index": "ubi_events"}}, row) for row in EVENTS]
    path.write_text(lines([part for pair in rows for part in pair]))
    assert format_of(path) == "ubi"
    check(count_log(path))


def test_queries_and_events_apart(tmp_path: Path) -> None:
    (tmp_path / "queries").write_text(lines(QUERIES))
    (tmp_path / "events").write_text(lines(EVENTS))
    check(count_log([tmp_path / "events", tmp_path / "queries"]))
    pq.write_table(pa.Table.from_pylist(QUERIES), tmp_path / "queries")
    pq.write_table(pa.Table.from_pylist(EVENTS), tmp_path / "events")
    check(count_log([tmp_path / "events", tmp_path / "queries"]))
    texts = [row | {"event_attributes": json.dumps(row["event_attributes"])} for row in EVENTS]
    pq.write_table(pa.Table.from_pylist(texts), tmp_path / "events")
    counts = count_log([tmp_path / "events", tmp_path / "queries"])
    check(counts)
    assert counts.reading.files == 2
    (tmp_path / "events").write_text(lines(EVENTS[:1]))  # clicks alone
    assert count_log([tmp_path / "events", tmp_path / "queries"]).reading.odd == {
        "lists with an item twice": 1
    }
    with pytest.raises(InputError, match="files of ubi are read together"):
        count_log(tmp_path / "queries", cluster="tcp://nowhere:1")


def test_lines_that_are_none_are_counted_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\ufeff" + lines([*QUERIES, {"action_name": "click"}]) + "no JSON\n")
    reading = count_log(path).reading
    assert reading.causes == {"no query_id": 1, "not a JSON object": 1}
    assert reading.dropped == (
        "2 of 5 lines (40.0%) were dropped: for example\n"
        f'  {path}:4: no query_id: {{"action_name": "click"}}\n'
        f"  {path}:5: not a JSON object: no JSON"
    )


def test_the_public_sample() -> None:
    folder = Path(os.environ.get("CLICKBANDIT_SHARED", Path(__file__).parents[4] / "shared"))
    path = folder / "ubi" / "queries-events.ndjson.gz"
    if not path.exists():
        pytest.skip("the sample of UBI is not here (CLICKBANDIT_SHARED)")
    counts = count_log(path)
    assert (counts.n_sessions, counts.reading.clicks) == (278, 180)
    assert counts.reading.odd["impressions without a query"] == 6
