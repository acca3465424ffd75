"""Counting equals counting session by session, in whatever pieces and order the log comes."""

import os
import signal
import threading
import time
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log, files
from clickbandit.logs.tally import LogDatabase
from naive import logs as naive

item = st.sampled_from(["a", "b", "c", "d", "é"])
shown = st.lists(item, min_size=1, max_size=5)
event = st.one_of(
    st.tuples(st.sampled_from("12"), st.just("Q"), st.sampled_from("xy"), shown),
    st.tuples(st.sampled_from("12"), st.just("C"), item),
)
events = st.lists(event, min_size=1, max_size=30).filter(lambda found: any(e[1] == "Q" for e in found))


def lines_of(found: list[tuple]) -> list[str]:  # type: ignore[type-arg]
    """The lines of a `yandex-relpred` log."""
    return [
        "\t".join([session, str(time), kind, rest[0], *(["7", *rest[1]] if kind == "Q" else [])])
        for time, (session, kind, *rest) in enumerate(found)
    ]


def as_counter(counts: Counts) -> Counter[tuple[str, tuple[str, ...], int]]:
    return Counter(
        {
            (row["query"], tuple(row["list"]), row["clicks"]): row["sessions"]
            for row in counts.table.to_pylist()
        }
    )


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@given(events, st.sampled_from([40, 100, 1 << 20]))
@settings(max_examples=20)
def test_sessions_may_be_mixed_and_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple], block: int
) -> None:
    path = write(tmp_path_factory.mktemp("log") / "log.tsv", lines_of(found))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        counts = count_log(path, "yandex-relpred")
    sessions, dropped, repeated = naive.relevance_sessions(lines_of(found))
    assert as_counter(counts) == naive.grouped(sessions)
    rows = [(row["query"], row["list"], row["clicks"]) for row in counts.table.to_pylist()]
    assert rows == sorted(rows)
    odd = counts.reading.odd
    assert (odd["clicks on nothing shown"], odd["repeated clicks"]) == (dropped, repeated)
    assert odd["lists with an item twice"] == sum(len(set(items)) < len(items) for _, items, _ in sessions)
    assert counts.reading.sessions == counts.n_sessions == len(sessions)


@given(events, events)
@settings(max_examples=6)
def test_merged_halves_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory, first: list[tuple], second: list[tuple]
) -> None:
    folder = tmp_path_factory.mktemp("halves")
    write(folder / "1.tsv", lines_of(first))
    write(folder / "2.tsv", lines_of(second))
    whole = count_log(str(folder / "*.tsv"), "yandex-relpred")
    halves = [count_log(folder / f"{i}.tsv", "yandex-relpred") for i in (1, 2)]
    merged = halves[0].merge(halves[1])
    assert merged.table.equals(whole.table)
    assert merged.reading == whole.reading
    for left, right in zip((*merged.cells, *merged.endings), (*whole.cells, *whole.endings), strict=True):
        np.testing.assert_array_equal(left, right)


@given(st.lists(st.lists(event, min_size=1, max_size=8), min_size=1, max_size=6), st.randoms())
@settings(max_examples=10)
def test_order_of_sessions_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[list[tuple]], random: object
) -> None:
    named = [[(str(i), *e[1:]) for e in session] for i, session in enumerate(sessions)]
    named.append([("last", "Q", "x", ["a"])])
    folder = tmp_path_factory.mktemp("order")
    straight = count_log(write(folder / "1", lines_of([*chain.from_iterable(named)])), "yandex-relpred")
    random.shuffle(named)  # type: ignore[attr-defined]
    shuffled = count_log(write(folder / "2", lines_of([*chain.from_iterable(named)])), "yandex-relpred")
    assert shuffled.table.equals(straight.table)


@pytest.mark.parametrize("clicked", [[0, 47, 48, 49, 52, 53, 62, 63], range(64), range(50), [63]])
def test_previous_and_last_click_are_right_up_to_position_64(tmp_path: Path, clicked: list[int]) -> None:
    items = [f"i{k:02}" for k in range(64)]
    lines = ["\t".join(["1", "0", "Q", "q", "0", *items]), *(f"1\t1\tC\ti{k:02}" for k in clicked)]
    counts = count_log(write(tmp_path / "log", lines), "yandex-relpred")
    cells, last = counts.cells, max(clicked)
    found = np.flatnonzero(cells.clicked)
    assert cells.position[found].tolist() == list(clicked)
    assert cells.previous[found].tolist() == [clicked[0], *clicked[:-1]]
    assert np.flatnonzero(cells.last).tolist() == np.flatnonzero(counts.endings.last).tolist() == [last]
    assert cells.until_last.sum() == last + 1


def test_counts_are_saved_and_loaded(tmp_path: Path) -> None:
    lines = ["1\t0\tQ\tit's\t0\ta\tb", "1\t1\tC\tb", "1\t1\tC\tz", "2\t0\tQ\tit's\t0\ta\tb"]
    counts = count_log(write(tmp_path / "log", lines), "yandex-relpred")
    counts.save(tmp_path / "counts.parquet")
    loaded = Counts.load(tmp_path / "counts.parquet")
    assert loaded.table.equals(counts.table)
    assert loaded.reading == counts.reading
    again = count_log(tmp_path / "counts.parquet", "counts")
    assert again.table.equals(counts.table)
    assert (counts + loaded).n_sessions == 4


DATA = Path(__file__).parent / "data"


def test_counts_saved_by_the_first_version_are_read() -> None:
    lists = Counts.load(DATA / "saved-lists.parquet")
    assert lists.table.to_pylist() == [
        {"query": "it's", "list": ["a", "b"], "clicks": 0b00, "sessions": 1},
        {"query": "it's", "list": ["a", "b"], "clicks": 0b10, "sessions": 1},
        {"query": "é", "list": ["b", "a", "a"], "clicks": 0b010, "sessions": 1},
    ]
    assert lists.reading.as_dict() == {
        "sessions": 3,
        "clicks": 2,
        "lines": 8,
        "files": 1,
        "odd": {
            "malformed lines": 1,
            "clicks on nothing shown": 1,
            "repeated clicks": 1,
            "lists with an item twice": 1,
        },
        "malformed": ["log.tsv:8: fewer than 4 fields"],
        "causes": {},
    }
    twice = count_log([DATA / "saved-lists.parquet", DATA / ".." / "data" / "saved-lists.parquet"])
    assert twice.reading.odd["lists with an item twice"] == 2
    items = count_log(DATA / "saved-items.parquet")
    assert items.table.to_pylist() == [
        {"query": "q", "item": "a", "position": 1, "impressions": 3, "clicks": 2},
        {"query": "q", "item": "b", "position": 2, "impressions": 3, "clicks": 1},
    ]
    assert (items.n_sessions, items.reading.sessions) == (3, 3)
    with pytest.raises(InputError, match="counts of one kind"):
        count_log(DATA / "saved-*.parquet")


def test_saving_fails_with_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    counts = count_log(write(tmp_path / "log", ["1\t0\tQ\tq\t0\ta"]), "yandex-relpred")
    with pytest.raises(InputError, match="cannot be written"):
        counts.save(tmp_path / "none" / "counts.parquet")
    with pytest.raises(InputError, match="not a file of saved counts"):
        Counts.load(tmp_path / "log")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("limit", ["1", "lots", "-2GiB", "2 GB GB"])
def test_memory_limit_is_checked(limit: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="memory limit"):
        count_log(write(tmp_path / "log", ["1\t0\tQ\tq\t0\ta"]), memory_limit=limit)


def test_ctrl_c_in_a_statement_is_ctrl_c() -> None:
    database = LogDatabase()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        began = time.monotonic()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            database.run("SELECT sum(hash(i)) FROM range(10_000_000_000) AS numbers(i)")
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 20, "it waited for the end of the statement, which takes a minute"
    assert database.value("SELECT 1") == 1
