"""One pass over the lines of a Yandex log: which lists were shown, and how each was clicked.

This is for lines as they should be, of sessions in the order of their numbers, which is what such logs have. A line of
any other kind is marked as odd and left to SQL (`formats._yandex`), which also has the names of lists: a list is known
here by the first line that showed it. SQL counts the same, with more than twice the work.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.compiling.kernel import IntArray, entry_point, kernel

Bytes = npt.NDArray[np.uint8]

TAB, COMMA, ZERO, NINE = (ord(character) for character in "\t,09")
MARK, QUERY, AGAIN, CLICK = (ord(character) for character in "MQTC")
MAX_DIGITS = 18
MAX_FIELDS = 6 + MAX_POSITIONS
PRIME, LOW_BITS = 1_099_511_628_211, 2**63 - 1
"""The prime of FNV-1a, and what keeps its products in 63 bits."""
OTHER_PRIME = 2_654_435_761
"""Of the second hash of a list."""


class LineLayout(NamedTuple):
    """The fields of a format's lines, from 0. The third is always the kind, and the first the session."""

    query: int
    """From here on lines that show the same list are the same."""
    page: int
    """Which lists of a session a click may be on, or -1 for all; then M lines and T lines are known too."""
    items: int
    """The first result."""
    target: int
    """The item of a click, which is the last field."""


class Scan(NamedTuple):
    """What a pass works on and finds, with room for a fixed number of lines."""

    field: IntArray
    """Where the fields of a line start; one more is where the next line does."""
    line: IntArray
    """By list shown: its line."""
    page: IntArray
    """By list shown: where its page stands, and its results, and where these end."""
    items: IntArray
    end: IntArray
    clicks: Any
    """By list shown: bit k is set when position k, from 0, was clicked."""
    bits: IntArray
    """The same as signed numbers."""
    one: IntArray
    """By list shown: two hashes of its query and results."""
    other: IntArray
    totals: IntArray
    """Lists shown, clicks on a list, clicks on none, the last session's number."""


N_SHOWN, N_PLACED, N_UNPLACED, SESSION = range(4)


def make_scan(n_lines: int, session: int) -> Scan:
    """Room for a pass over `n_lines` lines, which follow those of a session, or of none, -1."""
    numbers = {name: np.zeros(n_lines, np.int64) for name in Scan._fields}
    numbers["field"] = np.zeros(MAX_FIELDS + 2, np.int64)
    numbers["clicks"] = numbers["bits"].view(np.uint64)
    numbers["totals"] = np.zeros(4, np.int64)
    numbers["totals"][SESSION] = session
    return Scan(**numbers)


# --- lines --------------------------------------------------------------------------------------------------


@entry_point
def last_session(text: Bytes, starts: IntArray) -> int:
    """Where the lines of the last session begin, with those that are of none."""
    session, line = -1, len(starts) - 1
    while line > 0:
        number = session_of(text, starts[line - 1], starts[line])
        if session < 0:
            session = number
        elif number not in (session, -1):
            break
        line -= 1
    return line


@kernel
def session_of(text: Bytes, start: int, end: int) -> int:
    """The number in the first field of a line, or -1."""
    for i in range(start, end):
        if text[i] == TAB:
            return number_of(text, start, i)
    return -1


@entry_point
def scan_lines(
    text: Bytes, starts: IntArray, odd: npt.NDArray[np.bool_], layout: LineLayout, scan: Scan
) -> bool:
    """Find the lists and clicks of whole sessions; or find that sessions are not in order.

    Lines end in a tab, and begin at `starts`; those in `odd` are passed over, and further ones marked there.
    """
    totals, newest = scan.totals, 0
    totals[:SESSION] = 0
    before = session = totals[SESSION]
    for i in range(len(starts) - 1):
        if odd[i]:
            continue
        n_fields = cut(text, starts[i], starts[i + 1], scan.field)
        number = number_of(text, scan.field[0], scan.field[1] - 1)
        if layout.page >= 0 and n_fields == 4 and is_letter(text, scan.field, 1, MARK):
            continue
        if n_fields < 4 or number < 0:
            odd[i] = True
        elif number < session or number == before:
            return False
        elif is_letter(text, scan.field, 2, CLICK) and n_fields == layout.target + 1:
            newest, session = totals[N_SHOWN] if number > session else newest, number
            place_click(text, layout, scan, newest)
        elif is_list(text, layout, scan.field, n_fields):
            newest, session = totals[N_SHOWN] if number > session else newest, number
            add_list(text, i, starts[i + 1], layout, scan)
        else:
            odd[i] = True
    totals[SESSION] = session
    return True


@kernel
def cut(text: Bytes, start: int, end: int, field: IntArray) -> int:
    """Note where each field of a line starts; how many there are, or 0 if one is empty or they are too many."""
    n = 0
    field[0] = start
    for i in range(start, end):
        if text[i] == TAB:
            if i == field[n] or n == MAX_FIELDS:
                field[1] = start + 1
                return 0
            n += 1
            field[n] = i + 1
    return n


@kernel
def number_of(text: Bytes, start: int, end: int) -> int:
    """The number that stands there, if it is written as numbers are; else -1."""
    if not 0 < end - start <= MAX_DIGITS or (end - start > 1 and text[start] == ZERO):
        return -1
    number = 0
    for i in range(start, end):
        if text[i] < ZERO or text[i] > NINE:
            return -1
        number = 10 * number + byte(text, i) - ZERO
    return number


@kernel
def byte(text: Bytes, i: int) -> int:
    """A byte as a number like others: compiled, an unsigned one would make a float of what it is added to."""
    return int(np.int64(text[i]))


@kernel
def is_letter(text: Bytes, field: IntArray, n: int, letter: int) -> bool:
    """Whether a field is this letter."""
    return bool(field[n + 1] - field[n] == 2 and text[field[n]] == letter)


@kernel
def is_list(text: Bytes, layout: LineLayout, field: IntArray, n_fields: int) -> bool:
    """Whether a line shows a list: a Q line or, where there are pages, a T line, with a URL,Domain for each result
    there."""
    known = is_letter(text, field, 2, QUERY) or (layout.page >= 0 and is_letter(text, field, 2, AGAIN))
    if not known or n_fields <= layout.items or n_fields - layout.items > MAX_POSITIONS:
        return False
    if layout.page < 0:
        return True
    for n in range(layout.items, n_fields):
        commas = 0
        for i in range(field[n], field[n + 1] - 1):
            commas += text[i] == COMMA
        if commas != 1 or text[field[n]] == COMMA or text[field[n + 1] - 2] == COMMA:
            return False
    return True


# --- lists and clicks ---------------------------------------------------------------------------------------


@kernel
def add_list(text: Bytes, line: int, end: int, layout: LineLayout, scan: Scan) -> None:
    """Note a list."""
    field, shown = scan.field, scan.totals[N_SHOWN]
    scan.totals[N_SHOWN] += 1
    scan.line[shown] = line
    scan.page[shown] = field[max(layout.page, 0)]
    scan.items[shown] = field[layout.items]
    scan.end[shown] = end
    scan.bits[shown] = 0
    scan.one[shown], scan.other[shown] = hashes_of(text, field[layout.query], end)


@kernel
def hashes_of(text: Bytes, start: int, end: int) -> tuple[int, int]:
    """Two hashes like FNV-1a, of four bytes at a time: each step is one to one, so both must meet for two texts to."""
    one = other = end - start
    for i in range(start, end - 3, 4):
        four = byte(text, i) | byte(text, i + 1) << 8 | byte(text, i + 2) << 16 | byte(text, i + 3) << 24
        one = ((one ^ four) * PRIME) & LOW_BITS
        one ^= one >> 31
        other = ((other ^ four) * OTHER_PRIME) & LOW_BITS
        other ^= other >> 29
    for i in range(end - (end - start) % 4, end):
        one = ((one ^ byte(text, i)) * PRIME) & LOW_BITS
        other = ((other ^ byte(text, i)) * OTHER_PRIME) & LOW_BITS
    return one, other


@kernel
def same_field(text: Bytes, one: int, other: int) -> bool:
    """Whether the same stands at two places, up to a tab."""
    for i in range(len(text) - max(one, other)):
        if text[one + i] != text[other + i]:
            return False
        if text[one + i] == TAB:
            break
    return True


@kernel
def place_click(text: Bytes, layout: LineLayout, scan: Scan, newest: int) -> None:
    """Find the latest list of the session, which begins with the list `newest`, that shows the item."""
    target = scan.field[layout.target]
    for shown in range(scan.totals[N_SHOWN] - 1, newest - 1, -1):
        if layout.page < 0 or same_field(text, scan.page[shown], scan.field[layout.page]):
            k = position_of(text, scan.items[shown], scan.end[shown], target, layout.page >= 0)
            if k >= 0:
                scan.clicks[shown] |= np.uint64(1) << np.uint64(k)
                scan.totals[N_PLACED] += 1
                return
    scan.totals[N_UNPLACED] += 1


@kernel
def position_of(text: Bytes, start: int, end: int, target: int, domains: bool) -> int:
    """The first position of an item in a list, or -1; where there are domains, results are item,domain."""
    k, matched, same, inside = 0, 0, True, True
    for i in range(start, end):
        if text[i] == TAB:
            if same and text[target + matched] == TAB:
                return k
            k, matched, same, inside = k + 1, 0, True, True
        elif domains and text[i] == COMMA:
            inside = False
        elif same and inside:
            same = text[i] == text[target + matched]
            matched += 1
    return -1
