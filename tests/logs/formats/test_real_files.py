"""Files as they come: odd quotes, headers and line ends, times of all kinds, several files, and pages of lists."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from clickbandit import cli
from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log, results
from clickbandit.logs.columns import Columns, guess

HEADER = "impression,query,position,item,click"
LINES = [f"i{i},q,{k},{'abc'[k - 1]},{int(i % 3 == k)}" for i in range(6) for k in (1, 2, 3)]
LISTS = {("q", "a b c", bits): 2 for bits in (0b000, 0b001, 0b010)}
Found = dict[tuple[str, str, int], int]


def put(folder: Path, *lines: str, name: str = "log.csv", end: str = "\n") -> Path:
    path = folder / name
    path.write_bytes(end.join(lines).encode())
    return path


def lists_of(counts: Counts) -> Found:
    rows = counts.table.to_pylist()
    return {(row["query"], " ".join(row["list"]), row["clicks"]): row["sessions"] for row in rows}


# --- quotes, headers and line ends --------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["i90,q,1,a,1", 'i90,q",1,a,1', 'i90,"q,1,a,1'])
def test_an_open_quote_costs_its_own_line(tmp_path: Path, other: str) -> None:
    path = put(tmp_path, HEADER, 'i70,"q,1,a,1', *LINES, other)
    counts = count_log(path)
    assert {one: n for one, n in lists_of(counts).items() if one[1] == "a b c"} == LISTS
    assert counts.reading.causes["quotes that do not close"] == 1 + other.count('"q')
    assert counts.reading.malformed[0] == f'{path}:2: quotes that do not close: i70,"q,1,a,1'
    assert counts.reading.lines == 20
    assert "of 20 lines" in (counts.reading.dropped or "")


@pytest.mark.parametrize(
    ("header", "row", "end"),
    [
        pytest.param("," + HEADER, "7,{}", "\n", id="pandas' index"),
        pytest.param(HEADER + ",", "{},", "\r\n", id="a comma more"),
        pytest.param(HEADER + ",", "{}", "\r", id="a comma more in the header alone"),
        pytest.param(HEADER + ",other,other", "{},1,2", "\n", id="two columns of a name that are not needed"),
        pytest.param('"Impression","query","position","item","click"', "{}", "\r", id="in quotes"),
    ],
)
def test_whatever_is_not_needed_is_ignored(tmp_path: Path, header: str, row: str, end: str) -> None:
    assert lists_of(count_log(put(tmp_path, header, *(row.format(line) for line in LINES), end=end))) == LISTS


def test_line_ends_may_be_mixed_and_data_end_early(tmp_path: Path) -> None:
    mixed = put(tmp_path, HEADER, *(line + "\r" * (i % 2) for i, line in enumerate(LINES)))
    assert lists_of(count_log(mixed)) == LISTS
    path = tmp_path / "log.csv.gz"
    lines = [f"{i},q,1,a,{i % 2}" for i in range(3000)]
    path.write_bytes(gzip.compress("\n".join([HEADER, *lines]).encode())[:-500])
    counts = count_log(path)
    assert 0 < counts.n_sessions < 3000
    assert counts.reading.odd["files cut short"] == 1
    with pytest.raises(InputError, match="ends early"):
        count_log(path, strict=True)


def test_a_needed_column_that_is_there_twice_gets_a_sentence(tmp_path: Path) -> None:
    path = put(tmp_path, HEADER + ",click", *(line + ",0" for line in LINES))
    with pytest.raises(InputError, match=r"two columns called 'click': give one of them another name$"):
        count_log(path)
    frame = pandas.DataFrame([["1", "q", 1, "a", 0, 1]], columns=(HEADER + ",click").split(","))
    with pytest.raises(InputError, match="two columns called 'click'"):
        count_log(frame)


def test_what_cannot_be_read_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for data, said in (("a,b\n".encode("utf-16"), "is UTF-16: save it as UTF-8"), (b"PAR1...", "as Parquet")):
        path.write_bytes(data)
        with pytest.raises(InputError, match=said) as error:
            count_log(path, columns=Columns(query="q"))
        assert "\n" not in str(error.value)


def test_json_lines_may_begin_with_a_mark_and_a_line_be_none(tmp_path: Path) -> None:
    rows = [json.dumps(dict(zip(HEADER.split(","), line.split(","), strict=True))) for line in LINES]
    path = put(tmp_path, "\ufeff" + rows[0], "", *rows[1:], "[1]", '{"impression', "", name="log.jsonl")
    counts = count_log(path)
    assert lists_of(counts) == LISTS
    assert counts.reading.malformed == [
        f"{path}:20: not a JSON object: [1]",
        f'{path}:21: not a JSON object: {{"impression',
    ]


# --- columns ------------------------------------------------------------------------------------------------


def test_columns_that_are_not_named_have_our_names(tmp_path: Path) -> None:
    path = put(tmp_path, HEADER.replace("click", "hit"), *LINES)
    assert lists_of(count_log(path, columns=Columns(click="hit"))) == LISTS


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            "sessionId,searchTerm,productId,rank,isClicked",
            "impression=sessionId,query=searchTerm,item=productId",
        ),
        ("Session ID,Search Term,Product-ID,Rank,Clicked", "'impression=Session ID,query=Search Term,"),
        ("visit,query,sku,rank,clicks", "impression=visit,query=query,item=sku,position=rank,click=clicks"),
        ("session_id,query_id,query,item,rank,click", "impression=session_id,query=query,"),
        ("session_id,query_id,doc_id,rank,click", "impression=session_id,query=query_id,item=doc_id"),
        ("who,what,where,when", "as in --columns impression=session_id,query=search_term"),
    ],
)
def test_names_are_guessed_or_an_example_is_given(tmp_path: Path, header: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        count_log(put(tmp_path, header, "1,2,3,4,5"))
    assert expected in str(error.value)
    with pytest.raises(InputError, match="--columns"):
        count_log(pandas.DataFrame(columns=header.split(",")))


def test_a_guess_can_be_given_as_it_is(tmp_path: Path) -> None:
    names = ["Session ID", "Search Term", "Rank", "Product ID", "Clicked?"]
    path = put(tmp_path, ",".join(names), *LINES)
    given = (guess(names) or "").removeprefix("--columns '").removesuffix("'")
    assert lists_of(count_log(path, columns=Columns.parse(given))) == LISTS


# --- values -------------------------------------------------------------------------------------------------


TIMES = [
    *("05/01/2024 12:00", "01.05.2024 12:00:00", "5/1/2024 12:00 PM", "01/May/2024:12:00:00 +0000"),
    *(
        "Wed, 01 May 2024 12:00:00 GMT",
        "May 1 2024 12:00",
        "May 1, 2024",
        "1-May-24",
        "2024-05-01",
        "12:00:00",
    ),
    *("2024-05-01T12:00:00.123Z", "1714556400", "0 days 00:00:03", "3 days"),
]
NOTHING = ["", "NaT", "<NA>", "\\N", "NaN", "0000-00-00 00:00:00"]
CLICKED = {("q", "a b c", 0b010)}


def counted(marks: list[tuple[Any, Any]]) -> Counts:
    """A list for each pair, of which the second result has the first mark and others have the second."""
    rows = [
        [i, "q", k, "abc"[k - 1], yes if k == 2 else no]
        for i, (yes, no) in enumerate(marks)
        for k in (1, 2, 3)
    ]
    return count_log(pandas.DataFrame(rows, columns=HEADER.split(",")))


def test_what_is_plainly_a_time_is_a_click() -> None:
    kinds: list[list[tuple[Any, Any]]] = [
        [(time, NOTHING[i % len(NOTHING)]) for i, time in enumerate(TIMES)],
        [("1,0", "0,0")],
        [(pandas.Timedelta(3, "s"), None)],
    ]
    for marks in kinds:
        counts = counted(marks)
        assert counts.reading.causes == {}
        assert lists_of(counts) == dict.fromkeys(CLICKED, len(marks))


def test_what_is_none_of_these_is_malformed() -> None:
    cells = ["maybe", "clicked", "1.2.3.4.5", "sku-12"]
    assert counted([(cell, "0") for cell in cells]).reading.causes == {
        "a click that is neither yes nor no": len(cells)
    }


def test_cells_of_several_types_are_texts() -> None:
    rows = [[1, "q", 1, 7, 0], ["x", "q", 1, "C", "1"]]
    frame = pandas.DataFrame(rows, columns=HEADER.split(",")).assign(unused=[{1}, object()])
    assert lists_of(count_log(frame)) == {("q", "7", 0): 1, ("q", "C", 1): 1}
    lists = [["q", ["a", 7], [True, "no"]], ["q", ("a", 7), [True, None]], ["q", np.array(["a"]), [0]]]
    counts = count_log(pandas.DataFrame(lists, columns=["query", "list", "clicks"]))
    assert lists_of(counts) == {("q", "a", 0): 1, ("q", "a 7", 1): 1}
    assert counts.reading.causes == {"a click that is neither yes nor no": 1}


@pytest.mark.parametrize("first", [0, 1])
def test_grids_and_pages_may_begin_with_0(first: int) -> None:
    grid = [["1", "q", r + first, c + first, f"{r}{c}", int(r > c)] for r in (0, 1) for c in (0, 1, 2)]
    names = "impression,query,{},{},item,click"
    for columns, kind in (({}, ("row", "column")), ({"page": "p", "page_size": 3}, ("p", "position"))):
        frame = pandas.DataFrame(grid, columns=names.format(*kind).split(","))
        counts = count_log(frame, columns=Columns(**columns))  # type: ignore[arg-type]
        assert lists_of(counts) == {("q", "00 01 02 10 11 12", 1 << 3): 1}
        assert counts.reading.odd == ({} if first else {"files with positions from 0": 1})


# --- pages of lists, and several files ----------------------------------------------------------------------

PAGES = ["1,q,1,a|b,0|1", "1,q,2,c|d,1|0", "2,q,1,a|b,0|0", "2,q,1,a|b,0|0"]


def test_pages_of_lists_are_put_together_or_stand_apart(tmp_path: Path) -> None:
    path = put(tmp_path, "impression,query,page,list,clicks", *PAGES)
    on, apart = (
        count_log(path, columns=Columns(page_size=2, second_pages=pages)) for pages in ("on", "apart")
    )
    assert lists_of(on) == {("q", "a b c d", 0b0110): 1, ("q", "a b", 0): 1}
    assert on.reading.odd == {"rows that are copies": 1}
    assert lists_of(apart) == {("q", "a b", 0b10): 1, ("q (page 2)", "c d", 1): 1, ("q", "a b", 0): 1}
    whole = put(tmp_path, "query,list,clicks", "q,a|b|c,0|1|1", "q,a|b|c,0|1|1", name="whole.csv")
    counts = count_log(whole, columns=Columns(page_size=2, second_pages="apart"))
    assert lists_of(counts) == {("q", "a b", 0b10): 2, ("q (page 2)", "c", 1): 2}
    with pytest.raises(InputError, match="name impression too"):
        count_log(
            put(tmp_path, "query,page,list,clicks", "q,1,a,0"), columns=Columns(page="page", page_size=2)
        )


def test_rows_of_one_impression_that_differ_are_one_list(tmp_path: Path) -> None:
    rows = ["1,q,a|b,0|1", "1,q,a|b,1|0", "2,q,a|b,0|0", "3,q,a,0", "3,r,a,0"]
    counts = count_log(put(tmp_path, "impression,query,list,clicks", *rows))
    assert lists_of(counts) == {("q", "a b", 0b11): 1, ("q", "a b", 0): 1}
    assert counts.reading.lines == 5
    assert counts.reading.odd["rows that repeat a result"] == 3
    assert counts.reading.odd["impressions of two queries"] == 1
    assert counts.reading.dropped == (
        "1 of 3 lists (33.3%) were dropped: for example\n  impression 3: q and r"
    )


def test_several_files_are_one_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = [put(tmp_path, HEADER, *lines, name=name) for name, lines in (("1", LINES[:8]), ("2", LINES[8:]))]
    assert lists_of(count_log(cut)) == LISTS
    monkeypatch.setattr(results, "ROWS_AT_ONCE", 15)  # then it is done in several parts
    copy = put(tmp_path, HEADER, *LINES, "i9,q,2", name="3")
    counts = count_log([*cut, copy])
    assert lists_of(counts) == LISTS
    assert counts.reading.odd == {"rows that are copies": 18, "malformed lines": 1}
    assert counts.reading.malformed == [f"{copy}:20: not as many fields as the header: i9,q,2"]
    assert counts.reading.files == 3
    nothing = put(tmp_path, HEADER, "i9,q,2", name="4")
    assert count_log([*cut, nothing]).reading.odd["files without a session"] == 1


def test_positions_begin_where_each_file_says(tmp_path: Path) -> None:
    zero = [f"z{i},q,{k},{'abc'[k]},{int(i % 3 == k + 1)}" for i in range(6) for k in (0, 1, 2)]
    logs = [put(tmp_path, HEADER, *LINES, name="1"), put(tmp_path, HEADER, *zero, name="2")]
    counts = count_log(logs)
    assert lists_of(counts) == Counter(LISTS) + Counter(LISTS)
    assert counts.reading.odd == {"files with positions from 0": 1}


# --- warnings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", [True, False])
def test_a_log_without_clicks_is_warned_of_in_red_unless_without_colour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], colour: bool
) -> None:
    path = put(tmp_path, HEADER, *(line[:-1] + "0" for line in LINES))
    monkeypatch.setattr("sys.argv", ["clickbandit", "fit", str(path), "--models", "CM"])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "" if colour else "1")
    with pytest.raises(SystemExit):
        cli.main()
    told = capsys.readouterr().err
    assert "warning: no click was found in 6 sessions" in told
    assert ("\x1b[31m" in told) == colour
