"""CSV files, cut into rows and fields in one pass, whatever ends their lines.

A line that is no row is kept by itself, so that it costs no other. In particular a quote that is opened and not closed
does not swallow the lines below it: a field in quotes goes on over lines only as long as these are no rows themselves.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clickbandit.compiling.kernel import IntArray, entry_point, kernel
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.logs import files

Bytes = npt.NDArray[np.uint8]

DELIMITERS = ",;\t"
MAX_LINES = 100
"""A field in quotes does not go on over more lines."""
MAX_ROWS = 1 << 18
"""How many rows are made at a time: of short lines a block has too many for memory."""
QUOTE, LF, CR = (ord(character) for character in '"\n\r')
WHOLE, STRAY, FIELDS, OPEN, JUNK, UNDECODABLE = range(6)
"""What a line is: a row, a row with quotes that quote nothing, or none since it has not as many fields as the header,
since quotes are still open at its end, since something follows closing quotes, or since its bytes are no text."""
CAUSES = {
    WHOLE: None,
    STRAY: None,
    FIELDS: "not as many fields as the header",
    OPEN: "quotes that do not close",
    JUNK: "text after closing quotes",
    UNDECODABLE: "bytes that are not UTF-8",
}
N_ROWS, N_READ, LINE = range(3)
_FIELD = rb'(?:"(?:[^"]|"")*+"|[^"\r\n,;\t][^\r\n,;\t]*+|)'
_END = rb"(?P<end>\r?\n|\r|\Z)"
_HEADER = re.compile(rb"[\r\n]*+(?P<names>%b(?:[,;\t]%b)*+)%b" % (_FIELD, _FIELD, _END))
_LINE = re.compile(rb"(?P<names>[^\r\n]*+)%b" % _END)
"""A header may stand below empty lines and go on over lines in quotes; if these do not close, it is the first line."""


class Header(NamedTuple):
    """How a file begins."""

    names: list[str]
    """Empty where a column has none."""
    delimiter: str
    ends_in_cr: bool
    """Lines end in CR alone; otherwise in LF or in CR and LF, each as it comes."""
    size: int
    """How many bytes it takes, with its line end."""
    n_lines: int

    @property
    def n_fields(self) -> int:
        """How many fields rows have: further ones, as columns without a name at the end, are empty or not there."""
        return max((i + 1 for i, name in enumerate(self.names) if name), default=0)


class RowLayout(NamedTuple):
    """How lines are cut."""

    delimiter: int
    ends_in_cr: bool
    columns: IntArray
    """By field: its column among those asked for, or -1."""


class RowBuffers(NamedTuple):
    """What is found, with room for a fixed number of rows and bytes."""

    line: IntArray
    """By row: its first line."""
    kind: IntArray
    """By row: `WHOLE` or another; a line that is no row is whole in the first column."""
    ends: IntArray
    """By column and row: where its text begins, and the last one ends."""
    data: Bytes
    """By column: the texts of its rows, one after another."""
    bounds: IntArray
    """Of the current row, and of the line below: where each field begins and ends; then, if quotes are open, the number
    of their field and where they stand."""
    totals: IntArray
    """Rows, bytes that were read, the next line."""


def header_of(start: bytes) -> Header:
    """The header of a file that begins like this."""
    found = _HEADER.match(start) or _LINE.match(start)
    assert found
    text = found["names"].decode(errors="replace")
    delimiter = max(DELIMITERS, key=re.sub('"[^"]*"', "", text).count)
    names = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    ends_in_cr = found["end"] == b"\r"
    n_lines = found[0].count(b"\n") + (found[0].count(b"\r") if ends_in_cr else 0)
    return Header([name.strip() for name in names], delimiter, ends_in_cr, found.end(), n_lines)


class RowBlock(NamedTuple):
    """Rows of a file."""

    rows: pa.Table
    """`n`, the number of a row's line, `malformed`, why it is no row, and the columns asked for: `c0`, `c1`, .."""
    bytes_read: int
    truncated: bool


def read_rows(path: Path, header: Header, fields: Sequence[int]) -> Iterator[RowBlock]:
    """Some fields of a file's rows, block by block."""
    columns = np.full(header.n_fields, -1)
    columns[list(fields)] = range(len(fields))
    layout = RowLayout(ord(header.delimiter), header.ends_in_cr, columns)
    rest, line, at, truncated, skip = b"", 1 + header.n_lines, 0, False, header.size
    for piece in files.pieces(path):
        at, truncated = piece.bytes_read, piece.truncated
        data = rest + piece.data[skip:]
        skip = max(0, skip - len(piece.data))
        whole = max(data.rfind(b"\n"), data.rfind(b"\r") if header.ends_in_cr else -1) + 1
        n_read = 0
        for rows in _cut(data[:whole], layout, line, is_last=False):
            _, n_read, line = rows.totals.tolist()
            yield RowBlock(_table(rows), at, False)
        rest = data[n_read:]
        if len(rest) > files.MAX_LINE:
            raise InputError(f"{path} is not a log: a line is longer than {files.MAX_LINE >> 20} MiB")
    for rows in _cut(rest + b"\n", layout, line, is_last=True):
        yield RowBlock(_table(rows), at, truncated)


def _cut(data: bytes, layout: RowLayout, line: int, *, is_last: bool) -> Iterator[RowBuffers]:
    """The rows of whole lines, some at a time."""
    n_lines = data.count(b"\n") + (data.count(b"\r") if layout.ends_in_cr else 0)
    n_columns, n_fields = layout.columns.max(initial=-1) + 1, len(layout.columns)
    n_rows = room = min(n_lines, MAX_ROWS)
    n_read = 0
    while n_rows == room and n_read < len(data):
        rows = RowBuffers(
            line=np.zeros(room, np.int64),
            kind=np.zeros(room, np.int64),
            ends=np.zeros((n_columns, room + 1), np.int64),
            data=np.empty((n_columns, len(data) - n_read), np.uint8),
            bounds=np.zeros((2, 2 * n_fields + 2), np.int64),
            totals=np.array([0, n_read, line]),
        )
        cut_rows(np.frombuffer(data, np.uint8), layout, is_last, rows)
        n_rows, n_read, line = rows.totals.tolist()
        yield rows


def _table(rows: RowBuffers) -> pa.Table:
    n = int(rows.totals[N_ROWS])
    kind = rows.kind[:n]
    columns = []
    for ends, data in zip(rows.ends, rows.data, strict=True):
        column = pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(data))
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:  # bytes that are not UTF-8
            cells = [data[ends[i] : ends[i + 1]].tobytes() for i in range(n)]
            kind[[i for i, cell in enumerate(cells) if not files.is_utf8(cell)]] = UNDECODABLE
            column = pa.array([cell.decode(errors="replace") for cell in cells], pa.large_string())
        columns.append(column)
    causes = pa.array([CAUSES[i] for i in sorted(CAUSES)], pa.string())
    named = {f"c{i}": column for i, column in enumerate(columns)}
    return pa.table({"n": rows.line[:n], "malformed": causes.take(pa.array(kind))} | named)


# --- one pass -----------------------------------------------------------------------------------------------


@entry_point
def cut_rows(text: Bytes, layout: RowLayout, is_last: bool, rows: RowBuffers) -> None:
    """Cut lines into as many rows as there is room for, up to one that may go on in what follows, if anything does."""
    start, row, line = rows.totals[N_READ], 0, rows.totals[LINE]
    while start < len(text) and row < len(rows.line):
        end = line_end(text, start, layout)
        if is_blank(text, start, end):
            start, line = end + 1, line + 1
            continue
        kind, last, n_lines = cut_row(text, start, end, layout, rows.bounds[0], 0), end, 1
        while kind == OPEN and n_lines < MAX_LINES and last + 1 < len(text):
            below = line_end(text, last + 1, layout)
            if cut_row(text, last + 1, below, layout, rows.bounds[1], 0) == WHOLE:
                break
            last, n_lines = below, n_lines + 1
            n, quote = rows.bounds[0, -2], rows.bounds[0, -1]
            kind = cut_row(text, quote, last, layout, rows.bounds[0], n)
        if kind == OPEN and last + 1 == len(text) and n_lines < MAX_LINES and not is_last:
            break
        rows.line[row] = line
        rows.kind[row] = kind
        if kind <= STRAY:
            put_fields(text, start, layout, rows, row)
            start, line = last + 1, line + n_lines
        else:
            put_line(text, start, end, rows, row)
            start, line = end + 1, line + 1
        row += 1
    rows.totals[N_ROWS], rows.totals[N_READ], rows.totals[LINE] = row, start, line


@kernel
def line_end(text: Bytes, start: int, layout: RowLayout) -> int:
    """Where a line's end stands; there always is one."""
    i = start
    while text[i] != LF and not (layout.ends_in_cr and text[i] == CR):
        i += 1
    return i


@kernel
def is_blank(text: Bytes, start: int, end: int) -> bool:
    return bool(end == start or (end == start + 1 and text[start] == CR))


@kernel
def cut_row(text: Bytes, start: int, end: int, layout: RowLayout, bounds: IntArray, n: int) -> int:
    """Note where the fields of a row from the n-th on begin and end, without their quotes; what the row is."""
    n_fields, i, stray = len(layout.columns), start, False
    if end > start and text[end - 1] == CR and not layout.ends_in_cr:
        end -= 1
    while True:
        quoted = i < end and text[i] == QUOTE
        begin = i + 1 if quoted else i
        if quoted:
            i = closing_quote(text, begin, end)
            if i == end:
                bounds[-2], bounds[-1] = n, begin - 1
                return OPEN
        else:
            while i < end and text[i] != layout.delimiter:
                stray = stray or text[i] == QUOTE
                i += 1
        if n < n_fields:
            bounds[2 * n], bounds[2 * n + 1] = begin, i
        elif i > begin:
            return FIELDS
        n += 1
        if quoted:
            i += 1
            if i < end and text[i] != layout.delimiter:
                return JUNK
        if i == end:
            return FIELDS if n < n_fields else STRAY if stray else WHOLE
        i += 1


@kernel
def closing_quote(text: Bytes, begin: int, end: int) -> int:
    """Where the quotes of a field close that begins there, or the end if they do not; two quotes stand for one."""
    i = begin
    while i < end:
        if text[i] == QUOTE:
            if i + 1 < end and text[i + 1] == QUOTE:
                i += 1
            else:
                return i
        i += 1
    return end


@kernel
def put_fields(text: Bytes, start: int, layout: RowLayout, rows: RowBuffers, row: int) -> None:
    """Copy the fields of the current row to their columns."""
    for n in range(len(layout.columns)):
        column = layout.columns[n]
        if column < 0:
            continue
        begin, end = rows.bounds[0, 2 * n], rows.bounds[0, 2 * n + 1]
        quoted = begin > start and text[begin - 1] == QUOTE
        at, i = rows.ends[column, row], begin
        while i < end:
            rows.data[column, at] = text[i]
            at += 1
            i += 2 if quoted and text[i] == QUOTE else 1
        rows.ends[column, row + 1] = at


@kernel
def put_line(text: Bytes, start: int, end: int, rows: RowBuffers, row: int) -> None:
    """Copy a line that is no row to the first column."""
    for column in range(len(rows.ends)):
        at = rows.ends[column, row]
        if column == 0:
            for i in range(start, end):
                rows.data[column, at] = text[i]
                at += 1
        rows.ends[column, row + 1] = at
