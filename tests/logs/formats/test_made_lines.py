"""Made-up lines: no reader crashes on them, and of UBI a plain reader counts the same."""

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickbandit.errors import InputError
from clickbandit.logs import count_log

TOKEN = st.sampled_from(["1", "2", "Q", "C", "M", "T", "a", "a,d", "é", "", "0", " ", '"', "\\", "{", "null"])
LINE = st.one_of(st.lists(TOKEN, max_size=9).map("\t".join), st.text(max_size=12))


@settings(max_examples=5, deadline=None)
@given(st.lists(LINE, max_size=30))
@pytest.mark.parametrize(
    "format", ["yandex-relpred", "yandex-personalized", "ubi", "counts", "csv", "jsonl", "parquet"]
)
def test_no_line_crashes_a_reader(
    tmp_path_factory: pytest.TempPathFactory, format: str, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("made") / "log"
    header = {"counts": "query,item,position,impressions,clicks\n", "csv": "query,list,clicks\n"}.get(
        format, ""
    )
    path.write_bytes((header + "\n".join(lines)).encode(errors="replace"))
    with suppress(InputError):
        assert count_log(path, format).n_sessions > 0


Data = dict[str, Any]
ID = st.sampled_from([*"123456", None])
ITEM = st.sampled_from("abc")
EVENT = st.builds(
    lambda query_id, action, item, ordinal: {
        "query_id": query_id,
        "action_name": action,
        "event_attributes": {"object": {"object_id": item}, "position": {"ordinal": ordinal}},
    },
    ID,
    st.sampled_from(["impression", "impression", "click", "click_through", "purchase"]),
    ITEM,
    st.integers(0, 3),
)
QUERY = st.builds(
    lambda query_id, text, hits: {"query_id": query_id, "user_query": text, "query_response_hit_ids": hits},
    ID,
    st.just("q"),
    st.one_of(st.just([]), st.just(["a", "b"]), st.just(["c"])),
)


def naive(rows: list[Data]) -> Counter[tuple[tuple[str, ...], int]]:
    """The lists of UBI's rows with their clicks as bits, one query after another."""
    events = [row for row in rows if "action_name" in row]
    shown = [row for row in events if row["action_name"] == "impression"]
    at = Counter(row["event_attributes"]["position"]["ordinal"] for row in shown)
    first = 0 if 2 * at[0] >= max(at[1], 1) else 1
    found: Counter[tuple[tuple[str, ...], int]] = Counter()
    for one in "123456":
        queries = [row for row in rows if row["query_id"] == one and "user_query" in row]
        hits = max((row["query_response_hit_ids"] for row in queries), key=len, default=[])
        if not hits:
            places: dict[int, set[str]] = {}
            for row in shown:
                if row["query_id"] == one:
                    place = row["event_attributes"]["position"]["ordinal"] - first
                    places.setdefault(place, set()).add(row["event_attributes"]["object"]["object_id"])
            top = next(k for k in range(9) if len(places.get(k, ())) != 1)
            hits = [next(iter(places[k])) for k in range(top)]
        clicked = {
            row["event_attributes"]["object"]["object_id"]
            for row in events
            if row["query_id"] == one and row["action_name"] in ("click", "click_through")
        }
        if queries and hits:
            bits = sum(1 << k for k, item in enumerate(hits) if item in clicked and item not in hits[:k])
            found[tuple(hits), bits] += 1
    return found


@settings(max_examples=12, deadline=None)
@given(st.lists(st.one_of(EVENT, EVENT, EVENT, QUERY), min_size=1, max_size=60))
def test_ubi_is_counted_as_a_plain_reader_counts_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Data]
) -> None:
    path: Path = tmp_path_factory.mktemp("made") / "log"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = naive(rows)
    if not expected:
        with pytest.raises(InputError, match="no usable session"):
            count_log(path, "ubi")
        return
    table = count_log(path, "ubi").table.to_pylist()
    assert {(tuple(row["list"]), row["clicks"]): row["sessions"] for row in table} == expected
