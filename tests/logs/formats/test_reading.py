"""Every format is read, and whatever real logs hold is counted and explained."""

import gzip
from pathlib import Path
from random import Random
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log, fit
from clickbandit.logs.reading import EXPLANATIONS

Row = tuple[str, str, str, int]


def rows(counts: Counts) -> list[Row]:
    """Query, list, clicks (a 1 or 0 for each position) and sessions."""
    return [
        (
            row["query"],
            " ".join(row["list"]),
            "".join(str(row["clicks"] >> k & 1) for k in range(len(row["list"]))),
            row["sessions"],
        )
        for row in counts.table.to_pylist()
    ]


def put(folder: Path, text: str, name: str = "log") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


RELEVANCE = "1\t0\tQ\tq\t5\ta\tb\tc\n1\t1\tC\tb\n2\t0\tQ\tr\t5\tx\ty\n"

# --- Yandex -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "odd"),
    [
        pytest.param(RELEVANCE, [("q", "a b c", "010", 1), ("r", "x y", "00", 1)], {}, id="plain"),
        pytest.param(
            RELEVANCE.replace("\n", "\r\n"), [("q", "a b c", "010", 1), ("r", "x y", "00", 1)], {}, id="CRLF"
        ),
        pytest.param("\ufeff" + RELEVANCE, [("q", "a b c", "010", 1), ("r", "x y", "00", 1)], {}, id="BOM"),
        pytest.param(
            "1\t0\tQ\tq\t5\ta\tb\n1\t1\tC\tb\n1\t2\tC\tb\n",
            [("q", "a b", "01", 1)],
            {"repeated clicks": 1},
            id="repeated click",
        ),
        pytest.param(
            "1\t0\tC\ta\n1\t0\tQ\tq\t5\ta\tb\n1\t1\tC\tz\n2\t1\tC\ta\n",
            [("q", "a b", "00", 1)],
            {"clicks on nothing shown": 3},
            id="clicks on nothing, before its list, of another session",
        ),
        pytest.param(
            "1\t0\tQ\tq\t5\ta\tb\n1\t1\tQ\tq\t5\ta\tc\n1\t2\tC\ta\n1\t3\tC\tb\n",
            [("q", "a b", "01", 1), ("q", "a c", "10", 1)],
            {},
            id="latest list that shows the item",
        ),
        pytest.param(
            "1\t0\tQ\tq\t5\ta\tb\ta\n1\t1\tC\ta\n",
            [("q", "a b a", "100", 1)],
            {"lists with an item twice": 1},
            id="first place of an item shown twice",
        ),
        pytest.param(
            "1\t0\tQ\tq\t5\n1\t0\tQ\tq\t5\t\n1\t0\tQ\tq\t5\ta\n",
            [("q", "a", "0", 1)],
            {"empty lists": 2},
            id="empty lists",
        ),
        pytest.param(
            "1\t0\tQ\tq\t5\t" + "\t".join(map(str, range(65))) + "\n2\t0\tQ\tq\t5\ta\n",
            [("q", "a", "0", 1)],
            {"lists longer than 64": 1},
            id="too long",
        ),
        pytest.param(
            "1\t0\tQ\tq\t5\ta\tb\n1\t1\tC\tb\n2\t0\tQ\tq\t5\tc",
            [("q", "a b", "01", 1), ("q", "c", "0", 1)],
            {"files without a last line end": 1},
            id="no last line end",
        ),
        pytest.param(
            "1\t0\tQ\tq\t5\ta\n2\t0\tQ",
            [("q", "a", "0", 1)],
            {"malformed lines": 1, "files without a last line end": 1},
            id="truncated last line",
        ),
        pytest.param(
            "s-é\tt0\tQ\tkaffee münchen\tby\ta/1\tb?2\ns-é\tt1\tC\tb?2\n",
            [("kaffee münchen", "a/1 b?2", "01", 1)],
            {},
            id="ids that are no numbers",
        ),
        pytest.param(
            "hello\n\n1\t0\tX\tq\n1\t0\tC\ta\tb\n1\t0\tQ\tq\n1\t0\tQ\tq\t5\ta\t\tb\n\t0\tC\ta\n1\t0\tQ\tq\t5\ta\n",
            [("q", "a", "0", 1)],
            {"malformed lines": 7},
            id="malformed",
        ),
    ],
)
def test_relevance_log(tmp_path: Path, text: str, expected: list[Row], odd: dict[str, int]) -> None:
    counts = count_log(put(tmp_path, text), "yandex-relpred")
    assert rows(counts) == expected
    assert counts.reading.odd == odd
    for name, times in odd.items():
        assert f"{times} {name} ({EXPLANATIONS[name]})" in str(counts.reading)


def test_malformed_lines_are_shown_with_their_numbers(tmp_path: Path) -> None:
    path = put(tmp_path, "1\t0\tQ\tq\t5\ta\nnonsense\n1\t0\tX\tq\tr\n")
    assert count_log(path, "yandex-relpred").reading.malformed == [
        f"{path}:2: fewer than 4 fields",
        f"{path}:3: the third field is neither Q nor C",
    ]
    with pytest.raises(InputError, match=r"log:2: malformed line: fewer than 4 fields"):
        count_log(path, "yandex-relpred", strict=True)


def test_bytes_that_are_not_utf8_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"1\t0\tQ\tq\t5\ta\n1\t0\tQ\tq\t5\t\xff\n1\t1\tC\ta\n")
    counts = count_log(path, "yandex-relpred")
    assert rows(counts) == [("q", "a", "1", 1)]
    assert counts.reading.malformed == [f"{path}:2: bytes that are not UTF-8"]


def test_region_is_part_of_the_query_when_asked(tmp_path: Path) -> None:
    path = put(tmp_path, "1\t0\tQ\tq\t5\ta\n2\t0\tQ\tq\t6\ta\n")
    assert count_log(path).n_queries == 1
    assert count_log(path, query_key="query+region").query_sessions[0] == ["q_5", "q_6"]
    with pytest.raises(InputError, match=r"query or query.region, found 'region'"):
        count_log(path, query_key="region")


PERSONALIZED = (
    "1\tM\t3\tu\n1\t0\tQ\t0\tq\t7,8\ta,d1\tb,d2\n1\t5\tT\t1\tq\t7\ta,d1\tc,d3\n1\t6\tC\t0\ta\n1\t7\tC\t1\tc\n"
)


def test_personalized_log(tmp_path: Path) -> None:
    more = "1\t8\tC\t2\ta\n1\t8\tC\t0\tc\n2\t0\tC\t0\ta\n1\t9\tQ\t3\tq\t7\ta\n1\t9\tQ\t4\tq\t7\n"
    counts = count_log(put(tmp_path, PERSONALIZED + more), "yandex-personalized")
    assert rows(counts) == [("q", "a b", "10", 1), ("q", "a c", "01", 1)]
    assert counts.reading.odd == {"clicks on nothing shown": 3, "malformed lines": 1, "empty lists": 1}


# --- files --------------------------------------------------------------------------------------------------


def test_many_files_packed_or_not(tmp_path: Path) -> None:
    put(tmp_path, RELEVANCE, "1.tsv")
    (tmp_path / "2.tsv").write_bytes(gzip.compress(RELEVANCE.encode()) + gzip.compress(RELEVANCE.encode()))
    with pa.CompressedOutputStream(str(tmp_path / "3.tsv"), "zstd") as file:
        file.write(RELEVANCE.encode())
    counts = count_log([tmp_path / "*.tsv", tmp_path / "1.tsv"], "yandex-relpred")
    assert counts.n_sessions == 8
    assert counts.reading.files == 3
    assert rows(counts) == [("q", "a b c", "010", 4), ("r", "x y", "00", 4)]


def test_a_list_in_two_formats_is_one(tmp_path: Path) -> None:
    paths = [put(tmp_path, RELEVANCE, "1"), put(tmp_path, "query,list,clicks\nq,a|b|c,0|1|0\n", "2")]
    counts = count_log(paths)
    assert rows(counts) == [("q", "a b c", "010", 2), ("r", "x y", "00", 1)]
    assert len(counts.endings.none) == 2


@pytest.mark.parametrize("text", ["", "Once upon a time\n"])
def test_a_file_with_nothing_among_others_is_counted(tmp_path: Path, text: str) -> None:
    paths = [put(tmp_path, text, "1"), put(tmp_path, RELEVANCE, "2")]
    reading = count_log(paths, "yandex-relpred").reading
    assert (reading.sessions, reading.files, reading.odd["files without a session"]) == (2, 2, 1)
    if text:
        with pytest.raises(InputError, match="1:1: malformed"):
            count_log(paths, "yandex-relpred", strict=True)


def test_sessions_of_two_files_are_apart(tmp_path: Path) -> None:
    paths = [put(tmp_path, "1\t0\tQ\tq\t5\ta\n", "1"), put(tmp_path, "1\t1\tC\ta\n1\t2\tQ\tq\t5\ta\n", "2")]
    assert count_log(paths, "yandex-relpred").reading.odd == {"clicks on nothing shown": 1}


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_packed_file_that_breaks_off_gives_what_was_there(tmp_path: Path, packing: str) -> None:
    random = Random(1)  # zstd packs 128 KiB at a time, so there must be many
    text = "".join(f"{i}\t0\tQ\tq\t5\ta{random.randrange(10**9)}\n" for i in range(40_000))
    packed = pa.compress(text.encode(), codec=packing, asbytes=True)
    path = tmp_path / "log"
    path.write_bytes(packed[: len(packed) // 2])
    counts = count_log(path, "yandex-relpred")
    assert 10_000 < counts.n_sessions < 30_000
    assert counts.reading.odd["files cut short"] == 1
    with pytest.raises(InputError, match="ends early"):
        count_log(path, "yandex-relpred", strict=True)


def test_progress_adds_up(tmp_path: Path) -> None:
    path = put(tmp_path, RELEVANCE)
    steps: list[tuple[int, int]] = []
    count_log(path, progress=lambda n_bytes, sessions: steps.append((n_bytes, sessions)))
    assert (sum(step[0] for step in steps), sum(step[1] for step in steps)) == (path.stat().st_size, 2)


@pytest.mark.parametrize(
    ("text", "format", "message"),
    [
        (RELEVANCE, "yandex-personalized", "looks like yandex-relpred"),
        (PERSONALIZED, "yandex-relpred", "looks like yandex-personalized"),
        (RELEVANCE, "csv", "looks like yandex-relpred"),
        ("query,list,clicks\nq,a b,0 1\n", "yandex-relpred", "looks like csv"),
        ("query,item,position,impressions,clicks\nq,a,1,2,1\n", "csv", "looks like counts"),
        ("Once upon a time\nthere was no log.\n", "yandex-relpred", "no usable session"),
        ("Once upon a time\n", "csv", "must have the columns query, list, clicks; or"),
        ("Once upon a time\n", "counts", "must have the columns query, item, position"),
        ("Once upon a time\n", "parquet", "cannot be read"),
        ("Once upon a time\n", None, "looks like no log format"),
        ("", "yandex-relpred", "no usable session"),
        ("1\t0\tC\ta\n", "yandex-relpred", "no usable session"),
        ("query,list,clicks\nq,a,x\n", "csv", "no usable session"),
        (RELEVANCE, "yandex", "did you mean yandex-relpred"),
    ],
)
def test_what_is_not_such_a_log_gets_a_sentence(
    tmp_path: Path, text: str, format: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        count_log(put(tmp_path, text), format)
    assert "\n" not in str(error.value)


def test_binary_files_and_no_files_get_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(bytes(range(256)) * 300)
    with pytest.raises(InputError, match="no usable session"):
        count_log(path, "yandex-relpred")
    for wrong in (tmp_path / "none.tsv", tmp_path / "*.tsv", tmp_path, []):
        with pytest.raises(InputError, match="expected"):
            count_log(wrong, "yandex-relpred")


# --- plain logs ---------------------------------------------------------------------------------------------

LISTS = {"query": ["q", "q", "r"], "list": [["a", "b"], ["a", "b"], ["x"]], "clicks": [[0, 1], [0, 1], [0]]}
EXPECTED = [("q", "a b", "01", 2), ("r", "x", "0", 1)]
ITEMS = {
    "impression": [1, 2, 2, 1, 3],
    "query": ["q", "q", "q", "q", "r"],
    "position": [2, 1, 2, 1, 1],
    "item": ["b", "a", "b", "a", "x"],
    "click": [1, 0, 1, 0, 0],
}


@pytest.mark.parametrize("data", [LISTS, ITEMS], ids=["lists", "items"])
@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, polars.LazyFrame, pa.table])
def test_data_frames(data: dict[str, Any], frame: Any) -> None:
    assert rows(count_log(frame(data))) == EXPECTED


@pytest.mark.parametrize("data", [LISTS, ITEMS], ids=["lists", "items"])
def test_parquet(data: dict[str, Any], tmp_path: Path) -> None:
    pq.write_table(pa.table(data), tmp_path / "log.parquet")
    assert rows(count_log(tmp_path / "log.parquet", "parquet")) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "query,list,clicks\nq,a b,0 1\nq,a|b,0|1\nr,x,0\n",
        'query,list,clicks\nq,"a,b","0,1"\nq,"[""a"", ""b""]","[0, 1]"\nr,[x],[0]\n',
        "query;list;clicks\nq;a b;01\nq;a  b;false true\nr;x;0\n",
        "other\tClicks\tlist\tQUERY\n1\t0,1\ta,b\tq\n1\t0,1\ta,b\tq\n1\t0\tx\tr\n",
        "impression,query,position,item,click\n1,q,1,a,0\n1,q,2,b,1\n2,q,2,b,1\n2,q,1,a,0\n3,r,1,x,0",
    ],
)
@pytest.mark.parametrize("pack", [str.encode, lambda text: gzip.compress(text.encode())])
def test_csv(text: str, pack: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(pack(text))
    assert rows(count_log(tmp_path / "log.csv", "csv")) == EXPECTED


def test_malformed_rows_of_csv(tmp_path: Path) -> None:
    path = put(tmp_path, "query,list,clicks\nq,a b,0 1\nq,a b,0\nonly\n,a,0\nq,a b,0 x\nq,,\nq,a  b,1 0\n")
    counts = count_log(path, "csv")
    assert rows(counts) == [("q", "a b", "10", 1), ("q", "a b", "01", 1)]
    assert counts.reading.odd == {"malformed lines": 4, "empty lists": 1}
    assert [text.removeprefix(f"{path}:").partition(":")[0] for text in counts.reading.malformed] == list(
        "3456"
    )
    with pytest.raises(InputError, match="log:3: malformed"):
        count_log(put(tmp_path, "query,list,clicks\nq,a b,0 1\nq,a b,0\n"), "csv", strict=True)


def test_lines_that_are_no_rows_are_explained(tmp_path: Path) -> None:
    text = 'query,list,clicks\nq,a|b,0|1,more\nk\xe4se,a|b,0|1\nq,a|b,1|0\n"open,a|b,0|1\n'
    path = tmp_path / "log"
    path.write_bytes(text.encode("latin-1"))
    counts = count_log(path)
    assert rows(counts) == [("q", "a b", "10", 1)]
    assert counts.reading.malformed == [
        f"{path}:2: not as many fields as the header: q,a|b,0|1,more",
        f"{path}:3: bytes that are not UTF-8: k\ufffdse, a|b, 0|1",
        f'{path}:5: quotes that do not close: "open,a|b,0|1',
    ]
    with pytest.raises(InputError, match="log:2: malformed line: not as many fields as the header"):
        count_log(path, strict=True)


def test_lines_that_are_no_rows_are_those_of_their_own_file(tmp_path: Path) -> None:
    bad = put(tmp_path, "query,list,clicks\nonly\nq,a|b,0|1\n", "bad")
    good = put(tmp_path, "query,list,clicks\nq,a|b,0|1\n", "good")
    assert count_log([bad, good]).reading.malformed == [f"{bad}:2: not as many fields as the header: only"]


def test_impressions_are_kept_up_to_what_is_not_known(tmp_path: Path) -> None:
    lines = [
        *("1,q,1,a,0", "1,q,3,c,1"),  # a gap
        *("2,q,1,a,0", "2,r,2,b,0"),  # two queries
        *("3,q,1,a,0", "3,q,1,b,0"),  # two items at the top
        *("4,q,1,a,x", "4,q,2,b,0"),  # a malformed row at the top
        *("5,q,1,a,1", "5,q,2,b,0", "5,q,2,c,0"),  # two items further down
        *("6,q,1,a,1", "6,q,1,a,1", "6,q,1,a,0"),  # a copy, and the same result again
    ]
    counts = count_log(put(tmp_path, "\n".join(["impression,query,position,item,click", *lines])), "csv")
    assert rows(counts) == [("q", "a", "0", 1), ("q", "a", "1", 2)]
    assert counts.reading.odd == {
        "malformed lines": 1,
        "impressions with a gap": 2,
        "impressions of two queries": 1,
        "impressions without a first position": 2,
        "rows that are copies": 1,
        "rows that repeat a result": 1,
    }


# --- counts -------------------------------------------------------------------------------------------------


def test_counts_by_item_give_the_same_pbm(tmp_path: Path) -> None:
    log = count_log(pandas.DataFrame(LISTS | {"clicks": [[0, 1], [1, 0], [1]]}))
    text = "query,item,position,impressions,clicks\nq,a,1,1,0\nq,a,1,1,1\nq,b,2,2,1\nr,x,1,1,1\n"
    given = count_log(put(tmp_path, text), "counts")
    assert given.n_sessions == 3
    assert (
        fit(given, "PBM").parameters["attraction"].tolist()
        == fit(log, "PBM").parameters["attraction"].tolist()
    )
    with pytest.raises(InputError, match="need a log of whole lists"):
        fit(given, "DBN")
    given.save(tmp_path / "counts.parquet")
    assert given.merge(Counts.load(tmp_path / "counts.parquet")).impressions.tolist() == [4, 4, 2]
    with pytest.raises(InputError, match="counts of one kind"):
        given.merge(log)


def test_malformed_counts(tmp_path: Path) -> None:
    rows = ["q,a,1,2,1", "q,a,1", "q,a,0,2,1", "q,a,1,1,2", "q,a,1,-1,0", "q,,1,1,0", "q,a,65,1,0"]
    path = put(tmp_path, "\n".join(["query,item,position,impressions,clicks", *rows]))
    counts = count_log(path, "counts")
    assert counts.table.to_pylist() == [
        {"query": "q", "item": "a", "position": 1, "impressions": 2, "clicks": 1}
    ]
    assert counts.reading.odd == {"malformed lines": 6}
    assert counts.reading.malformed[0] == f"{path}:3: not as many fields as the header: q,a,1"
    with pytest.raises(InputError, match="correct it"):
        count_log(path, "counts", strict=True)
