"""Scanning a Yandex log in one pass counts what SQL counts, and leaves to SQL what it does not understand."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from clickbandit.compiling.kernel import callable_kernel, interpreted
from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log, files, seen
from clickbandit.logs.formats import _yandex
from clickbandit.logs.scan import N_SHOWN, hashes_of, make_scan

NEVER = 1 << 60
ITEM = st.sampled_from(["a", "ab", "b", "é", "c,d"])
FORMATS = ("yandex-relpred", "yandex-personalized")
Lines = list[str]


def a_list(format: str, query: str, items: list[str]) -> str:
    if format == "yandex-relpred":
        return "\t".join(["0\tQ", query, "7", *items])
    return "\t".join([f"0\tT\t{len(items)}", query, "t", *(f"{item[0]},{query}" for item in items)])


def a_click(format: str, item: str, page: int) -> str:
    return f"1\tC\t{item}" if format == "yandex-relpred" else f"1\tC\t{page}\t{item}"


@st.composite
def logs(draw: st.DrawFn) -> tuple[str, Lines]:
    """Sessions in the order of their numbers, some lines of which are none, or show nothing or too much."""
    format = draw(st.sampled_from(FORMATS))
    shown = st.builds(a_list, st.just(format), st.sampled_from("xy"), st.lists(ITEM, max_size=4))
    clicked = st.builds(a_click, st.just(format), ITEM, st.integers(1, 3))
    odd = st.sampled_from(["0\tC", "0\tZ\ta", "0\tQ\tx\t\t", "M\t1\t2", a_list(format, "x", ["a"] * 65)])
    line = st.one_of(shown, clicked, shown, clicked, odd)
    session, lines = 0, ["0\t" + a_list(format, "x", ["a"])]
    for content in draw(st.lists(st.lists(line, min_size=1, max_size=6), max_size=12)):
        session += draw(st.sampled_from([1, 1, 9]))
        lines += [f"{session}\t{rest}" for rest in content]
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), "no such line")
    return format, lines


def counted(path: Path, format: str, least: int, block: int = files.BLOCK) -> Counts:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_yandex, "MIN_SCANNED", least)
        patch.setattr(files, "BLOCK", block)
        return count_log(path, format)


def check_same(path: Path, format: str, block: int = files.BLOCK) -> Counts:
    scanned, read = counted(path, format, 0, block), counted(path, format, NEVER, block)
    assert scanned.table.equals(read.table)
    assert scanned.reading == read.reading
    return scanned


@given(logs(), st.sampled_from([100, 300, 1 << 20]))
@settings(max_examples=15, phases=[Phase.generate])  # to make a failing log smaller takes minutes
def test_orderly_logs(tmp_path_factory: pytest.TempPathFactory, log: tuple[str, Lines], block: int) -> None:
    format, lines = log
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_yandex, "MIN_SCANNED", 0)
        patch.setattr(_yandex.LineReader, "add", None)  # nothing is left to it
        patch.setattr(files, "BLOCK", block)
        count_log(path, format)
    check_same(path, format, block)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["2\t0\tQ\tx\t7\ta", "1\t0\tQ\tx\t7\ta", "2\t1\tC\ta"], id="sessions in another order"),
        pytest.param(["s\t0\tQ\tx\t7\ta", "s\t1\tC\ta"], id="sessions with names"),
        pytest.param(["1\t0\tQ\tx\t7\ta", "01\t0\tC\ta"], id="two names of a number"),
        pytest.param(["1\t0\tQ\tx\t7\ta", "2\t0\tQ", "1\t1\tC\ta"], id="an odd line between"),
        pytest.param([f"{2**64}\t0\tQ\tx\t7\ta", f"{2**64}\t1\tC\ta"], id="large numbers"),
    ],
)
@pytest.mark.parametrize("block", [20, 1 << 20])
def test_other_logs(tmp_path: Path, lines: Lines, block: int) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join(lines) + "\n")
    check_same(path, "yandex-relpred", block)


def test_sixty_four_positions_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "log"
    items = [f"i{k}" for k in range(64)]
    lines = ["1\t0\tQ\tx\t7\t" + "\t".join(items), "1\t1\tC\ti63", "1\t1\tC\ti0", "2\t0\tQ\tx\t7\ta"]
    path.write_bytes("\n".join(lines).encode() + b"\n2\t1\tC\t\xff\n")
    counts = check_same(path, "yandex-relpred")
    assert counts.table["clicks"].to_pylist() == [0, 1 | 1 << 63]
    assert counts.reading.odd["malformed lines"] == 1


def test_progress_is_taken_back_where_it_reads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, reported = tmp_path / "log", []
    path.write_text("1\t0\tQ\tx\t7\ta\n2\t0\tQ\tx\t7\ta\n" * 20)
    monkeypatch.setattr(_yandex, "MIN_SCANNED", 0)
    monkeypatch.setattr(files, "BLOCK", 100)
    count_log(
        path, "yandex-relpred", progress=lambda n_bytes, n_sessions: reported.append((n_bytes, n_sessions))
    )
    assert [sum(column) for column in zip(*reported, strict=True)] == [path.stat().st_size, 40]


def test_strict_stops_at_the_first_malformed_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_text("1\t0\tQ\tx\t7\ta\n2\t0\tQ\n3\tZ\n")
    monkeypatch.setattr(_yandex, "MIN_SCANNED", 0)
    with pytest.raises(InputError, match=r"log:2: malformed line: fewer than 4 fields"):
        count_log(path, "yandex-relpred", strict=True)


@pytest.mark.parametrize("room", [seen.MAX_SLOTS, 8, 0])
def test_a_list_is_taken_apart_once_where_there_is_room_to_remember_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Whichever of its blocks shows it, it is counted as the same list."""
    new, count = [], seen.Seen.count
    monkeypatch.setattr(seen, "MAX_SLOTS", room)
    monkeypatch.setattr(seen.Seen, "count", lambda *given: new.append(count(*given)) or new[-1])
    lists = [
        a_list("yandex-relpred", query, items) for query in "xy" for items in (["a"], ["a", "b"], ["b", "a"])
    ]
    path = tmp_path / "log"
    path.write_text("\n".join(f"{n}\t{lists[n % 5 if n < 40 else 5]}" for n in range(60)), encoding="utf-8")
    found = check_same(path, "yandex-relpred", block=100)
    assert found.reading.sessions == 60
    assert len(new) > 5
    n_new = sum(len(first) for first, _ in new)
    assert n_new == 6 if room > 8 else n_new > 6


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60), st.integers(1, 20))
@settings(max_examples=30)
def test_lists_are_counted_by_their_clicks(shown: list[tuple[int, int]], block: int) -> None:
    """Also where tables are so small that keys meet in them, and grow in between."""
    log = [(one % 3, one, clicks << 62) for one, clicks in shown]
    counted, numbers = seen.Seen(), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "_MIN_SLOTS", 1)
        counted = seen.Seen()
        for start in range(0, len(log), block):
            part = log[start : start + block]
            scan = make_scan(len(part), -1)
            scan.totals[N_SHOWN] = len(part)
            for of_field, values in zip(
                (scan.one, scan.other, scan.clicks), zip(*part, strict=True), strict=True
            ):
                of_field[:] = values
            assert counted.make_room(len(part)) is None
            first, number = counted.count(scan)
            numbers |= {number + i: part[place][:2] for i, place in enumerate(first)}
    assert sorted(numbers) == list(range(len(set(numbers.values()))))
    found = counted.patterns()
    by_list = {
        (*numbers[number], clicks): sessions
        for number, clicks, sessions in zip(*(column.tolist() for column in found), strict=True)
    }
    assert by_list == Counter(log)


def test_fingerprints_tell_lists_apart() -> None:
    """Both hashes do, by themselves, also lists that differ by a single byte, in their order or by what is nothing."""
    texts = [f"x\t7\t{a}\t{b}\t" for a in range(60) for b in range(60)] + ["\0" * n for n in range(9)]
    text = np.frombuffer("".join(texts).encode(), np.uint8)
    ends = np.cumsum([len(one) for one in texts]).tolist()
    hashes = [
        callable_kernel(hashes_of)(text, end - len(one), end) for one, end in zip(texts, ends, strict=True)
    ]
    assert hashes[-40:] == [
        interpreted(hashes_of)(text, end - len(one), end)
        for one, end in zip(texts[-40:], ends[-40:], strict=True)
    ]
    assert [len(set(one)) for one in zip(*hashes, strict=True)] == [len(texts)] * 2
