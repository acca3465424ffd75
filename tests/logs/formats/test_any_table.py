"""Any table is a log: columns of other names, messy values, and every dropped row explained."""

import csv
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickbandit import cli
from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log
from clickbandit.logs.columns import Columns, guess
from clickbandit.logs.reading import Reading

NAMES = ["session_id", "search_term", "product_id", "rank", "clicked"]
COLUMNS = Columns("session_id", "search_term", "product_id", "rank", "clicked")
GUESS = "impression=session_id,query=search_term,item=product_id,position=rank,click=clicked"
Cells = list[Any]


def lists_of(counts: Counts) -> Counter[tuple[str, tuple[str, ...], int]]:
    return Counter(
        {
            (row["query"], tuple(row["list"]), row["clicks"]): row["sessions"]
            for row in counts.table.to_pylist()
        }
    )


def write_csv(path: Path, rows: list[Cells], names: list[str] = NAMES) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


ROWS: list[Cells] = [
    ["1", "schöne schuhe", "a", "1", "0.0"],
    ["1", "schöne schuhe", "b", "2", "1.0"],
    ["2", "schöne schuhe", "a", "1.0", "false"],
    ["2", "", "c", "2", "TRUE"],
    ["3", "boots", "x", "1", "0"],
    ["3", "boots", "y", "2", "3"],
]
EXPECTED = {
    ("schöne schuhe", ("a", "b"), 0b10): 1,
    ("schöne schuhe", ("a", "c"), 0b10): 1,
    ("boots", ("x", "y"), 0b10): 1,
}


# --- columns ------------------------------------------------------------------------------------------------


def test_every_kind_of_table_is_read_by_its_columns(tmp_path: Path) -> None:
    objects = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    write_csv(tmp_path / "log.csv", ROWS)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects))
    pq.write_table(pa.Table.from_pylist(objects), tmp_path / "log.parquet")
    logs = [tmp_path / "log.csv", tmp_path / "log.jsonl", tmp_path / "log.parquet", pandas.DataFrame(objects)]
    for log in logs:
        assert lists_of(count_log(log, columns=COLUMNS)) == EXPECTED, log


def test_names_that_make_it_plain_are_asked_about(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", ROWS)
    with pytest.raises(InputError, match=f"if these are they, give --columns {GUESS}"):
        count_log(path)
    with pytest.raises(InputError, match=f"if these are they, give --columns {GUESS}"):
        count_log(pandas.DataFrame(ROWS, columns=NAMES))
    assert guess(["Query", "items", "clicked"]) == "--columns query=Query,list=items,clicks=clicked"
    assert guess(["name", "price"]) is None


def test_one_row_per_list_with_arrays_or_texts(tmp_path: Path) -> None:
    columns = Columns(query="q.text", item="shown", click="c", one_row_per="list")
    rows = [
        {"q": {"text": "x"}, "shown": ["a", "b"], "c": [0, 2]},
        {"q": {"text": "x"}, "shown": "a|b", "c": "0|0"},
    ]
    (tmp_path / "log").write_text("".join(json.dumps(row) + "\n" for row in rows[:1]) + "rubbish\n")
    counts = count_log(tmp_path / "log", columns=columns)
    assert lists_of(counts) == {("x", ("a", "b"), 0b10): 1}
    assert counts.reading.causes == {"not a JSON object": 1}
    (tmp_path / "log").write_text(json.dumps(rows[1]) + "\n")
    assert lists_of(count_log(tmp_path / "log", columns=columns)) == {("x", ("a", "b"), 0): 1}


def test_copies_of_lists_are_known_by_their_impressions() -> None:
    log = {"id": [1, 1, 2], "query": ["q"] * 3, "list": ["a b"] * 3, "clicks": ["0 1"] * 3}
    counts = count_log(pandas.DataFrame(log), columns=Columns("id", "query", list="list", clicks="clicks"))
    assert counts.n_sessions == 2
    assert counts.reading.odd == {"rows that are copies": 1}
    assert counts.reading.lines == 3


def test_an_impression_may_be_several_columns() -> None:
    rows = [["u", 5, "q", "a", 1, 0], ["u", 6, "q", "b", 1, 1]]
    frame = pandas.DataFrame(rows, columns=["user", "time", "query", "item", "position", "click"])
    names = {name: name for name in ("query", "item", "position", "click")}
    assert count_log(frame, columns=Columns(impression="user+time", **names)).n_sessions == 2


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("impression", {}, "expected columns as NAME=COLUMN"),
        ("nothing=a", {}, "with one of the names impression, query"),
        ("query=", {}, "found 'query='"),
        ("query=q", {"one_row_per": "page"}, "one row per list or result, found 'page'"),
        ("query=q", {"second_pages": "apart"}, "give --page-size"),
        ("query=q,page=p", {}, "give --page-size"),
        ("query=q,row=r", {}, "both row and column"),
        ("query=q", {"page_size": 0}, "at least 1 result"),
        ("query=q", {"second_pages": "off"}, "on or apart, found 'off'"),
    ],
)
def test_wrong_columns_get_a_sentence(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Columns.parse(text, **options)


def test_a_column_that_is_not_there_gets_a_sentence() -> None:
    with pytest.raises(
        InputError, match="has no column 'session' for impression: it has session_id, search_term"
    ):
        count_log(pandas.DataFrame(ROWS, columns=NAMES), columns=Columns.parse("impression=session"))


# --- values -------------------------------------------------------------------------------------------------


def counted(rows: list[Cells], columns: Columns = COLUMNS) -> Counts:
    return count_log(pandas.DataFrame(rows, columns=NAMES), columns=columns)


def test_positions_may_begin_with_0() -> None:
    counts = counted([["1", "q", "a", "0", "0"], ["1", "q", "b", "1", "1"]])
    assert lists_of(counts) == {("q", ("a", "b"), 0b10): 1}
    assert counts.reading.odd == {"files with positions from 0": 1}


def test_a_stray_position_0_is_a_malformed_row() -> None:
    rows = [[str(i), "q", "a", "1", "0"] for i in range(5)] + [["9", "q", "b", "0", "0"]]
    assert counted(rows).reading.causes == {"a position that is not 1, 2, ..": 1}


def test_a_time_is_a_click_and_nothing_is_none_where_nobody_says_no() -> None:
    rows = [["1", "q", "a", "1", None], ["1", "q", "b", "2", "2024-05-01 10:00:00"]]
    assert lists_of(counted(rows)) == {("q", ("a", "b"), 0b10): 1}
    rows += [["2", "q", "c", "1", "0"]]
    counts = counted(rows)
    assert lists_of(counts) == {("q", ("c",), 0): 1}
    assert counts.reading.causes == {"no click, yes or no": 1}


def test_second_pages_go_on_or_stand_apart() -> None:
    rows = [["1", "q", f"i{k}", k, int(k in (2, 13))] for k in range(1, 15)]
    (only,) = lists_of(counted(rows))
    assert (only[0], len(only[1]), only[2]) == ("q", 14, 1 << 1 | 1 << 12)
    apart = Columns(*NAMES, second_pages="apart", page_size=10)
    assert sorted((query, len(items), clicks) for query, items, clicks in lists_of(counted(rows, apart))) == [
        ("q", 10, 0b10),
        ("q (page 2)", 4, 0b100),
    ]


def test_pages_may_begin_anew_and_a_grid_be_read_by_rows() -> None:
    rows = [["1", "q", f"i{page}{k}", k, int(page * k == 6), page] for page in (1, 2) for k in (1, 2, 3)]
    frame = pandas.DataFrame(rows, columns=[*NAMES, "page"])
    counts = count_log(frame, columns=Columns(*NAMES, page="page", page_size=3))
    assert lists_of(counts) == {("q", ("i11", "i12", "i13", "i21", "i22", "i23"), 1 << 5): 1}
    grid = [["1", "q", f"{r}{c}", r, c, int((r, c) == (2, 1))] for r in (1, 2) for c in (1, 2, 3)]
    frame = pandas.DataFrame(grid, columns=["impression", "query", "item", "row", "column", "click"])
    assert lists_of(count_log(frame)) == {("q", ("11", "12", "13", "21", "22", "23"), 1 << 3): 1}


def test_each_cause_is_counted_by_itself_and_much_is_said_in_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [
        " q a 1 0",
        "8 q  1 0",
        "8 q  2 0",
        "8 q c  0",
        "8 q c  1",
        "8 q c -1 0",
        "8 q c 1.5 0",
        "8 q c 5 maybe",
    ]
    bad: list[Cells] = [text.split(" ") for text in texts]
    path = write_csv(tmp_path / "log.csv", ROWS * 20 + bad)
    counts = count_log(path, columns=COLUMNS)
    assert counts.reading.causes == {
        "no impression": 1,
        "no item": 2,
        "no position": 1,
        "a click on nothing shown (no position)": 1,
        "a position that is not 1, 2, ..": 2,
        "a click that is neither yes nor no": 1,
    }
    monkeypatch.setattr("sys.argv", ["clickbandit", "fit", str(path), "--columns", GUESS, "--models", "CM"])
    with pytest.raises(SystemExit):
        cli.main()
    out, err = capsys.readouterr()
    assert "2 no item" in out
    told = err[err.index("warning: ") :].splitlines()
    assert told[0] == "warning: 8 of 128 lines (6.2%) were dropped: for example"
    assert told[1:4] == [
        f"  {path}:122: no impression: q, a, 1, 0",
        f"  {path}:123: no item: 8, q, 1, 0",
        f"  {path}:124: no item: 8, q, 2, 0",
    ]


def test_little_that_is_dropped_needs_no_warning() -> None:
    few = Reading(sessions=1000, lines=1000)
    few.note_malformed("log", [], {"no item": 10}, strict=False)
    assert few.dropped is None
    few.note_malformed("log", [], {"no item": 1}, strict=False)
    assert few.dropped == "11 of 1,000 lines (1.1%) were dropped"


# --- made rows, and a plain twin ----------------------------------------------------------------------------

YES, NO = ("1", "1.0", "true", "Yes", "4"), ("0", "0.0", "FALSE", "no")


def naive(rows: list[Cells]) -> Counter[tuple[str, tuple[str, ...], int]]:
    """What a table with a row for each result says, row by row."""
    click = {**dict.fromkeys(YES, 1), **dict.fromkeys(NO, 0)}
    says_no = any(row[4] in NO for row in rows)
    zeros, ones = sum(row[3] == "0" for row in rows), sum(row[3] in ("1", "1.0") for row in rows)
    shift = 1 if zeros and 2 * zeros >= ones else 0
    impressions: dict[str, list[Cells]] = {}
    for impression, query, item, position, mark in rows:
        place = int(float(position)) + shift if position not in ("", "x", "1.5", "-2") else 0
        clicked = click.get(mark, 0 if mark == "" and not says_no else None)
        if impression and item and place > 0 and clicked is not None:
            impressions.setdefault(impression, []).append([query, item, place, clicked])
    found: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    for mine in impressions.values():
        queries = {query for query, *_ in mine if query}
        items, bits = [], 0
        for place in range(1, 70):
            here = {item for _, item, at, _ in mine if at == place}
            if len(here) != 1:
                break
            items.append(*here)
            bits |= any(clicked for _, _, at, clicked in mine if at == place) << (place - 1)
        if len(queries) == 1 and 1 <= len(items) <= 64:
            found[(*queries, tuple(items), bits)] += 1
    return found


SMALL = st.tuples(
    st.sampled_from([*"12345678", ""]),
    st.sampled_from(["q", "q", "q", "é ü", ""]),
    st.sampled_from(["a", "b", "c", ""]),
    st.sampled_from(["1", "1", "2", "2.0", "3", "0", "", "x", "1.5", "-2"]),
    st.sampled_from([*YES, *NO, "", "maybe"]),
).map(list)


@settings(max_examples=12, deadline=None)
@given(st.lists(SMALL, max_size=60))
def test_messy_rows_are_counted_as_a_plain_reader_counts_them(rows: list[Cells]) -> None:
    expected = naive(rows)
    try:
        counts = counted(rows)
    except InputError:
        assert not expected
        return
    assert lists_of(counts) == expected
    assert counts.reading.sessions == sum(expected.values())
    assert counts.reading.clicks == sum(bits.bit_count() * n for (_, _, bits), n in expected.items())
    assert counts.reading.lines == len(rows)


ANYTHING = st.one_of(
    st.none(), st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.just("\0,\"'|;")
)


def typed(cells: Cells) -> pa.Array:
    """A column of the cells' own type, or of texts where they have none in common."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([str(cell) for cell in cells])


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.lists(ANYTHING, min_size=5, max_size=5), min_size=1, max_size=5),
    st.sampled_from(["csv", "jsonl", "parquet"]),
)
def test_no_row_crashes_a_reader(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Cells], kind: str
) -> None:
    path = tmp_path_factory.mktemp("made") / "log"
    if kind == "csv":
        lines = [",".join(str(cell).replace("\n", " ") for cell in row) for row in rows]
        path.write_bytes("\n".join([",".join(NAMES), *lines]).encode(errors="replace"))
    elif kind == "jsonl":
        text = "\n".join(json.dumps(dict(zip(NAMES, row, strict=True))) for row in rows)
        path.write_bytes(text.encode(errors="replace"))
    else:
        pq.write_table(pa.table(dict(zip(NAMES, map(typed, zip(*rows, strict=True)), strict=True))), path)
    for columns in (COLUMNS, Columns(query="search_term", list="product_id", clicks="clicked")):
        with suppress(InputError):
            assert count_log(path, kind, columns=columns).n_sessions > 0
