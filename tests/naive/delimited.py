"""CSV cut into rows line by line, in plain Python."""

import re

MAX_LINES = 100
QUOTED = re.compile(r'"((?:[^"]|"")*+)"', re.DOTALL)
WHY = {
    "fields": "not as many fields as the header",
    "open": "quotes that do not close",
    "junk": "text after closing quotes",
}
Row = tuple[int, str | None, list[str]]
"""The number of its line, why it is no row, and its fields; or the line, if it is none."""


def rows_of(text: str, delimiter: str, n_fields: int, ends_in_cr: bool) -> list[Row]:
    """The rows of a file without its header, whose first line is 2."""
    lines, ends = (re.split(r"([\r\n])" if ends_in_cr else "(\n)", text)[i::2] for i in (0, 1))
    rows: list[Row] = []
    i = 0
    while i < len(lines):
        first, last = i, i
        i += 1
        if lines[first] in ("", "\r"):
            continue
        kind, cells = fields_of(lines[first], delimiter, n_fields, ends_in_cr)
        while kind == "open" and last + 1 < len(lines) and last + 1 - first < MAX_LINES:
            if fields_of(lines[last + 1], delimiter, n_fields, ends_in_cr)[0] == "whole":
                break
            last += 1
            joined = "".join(
                line + end for line, end in zip(lines[first:last], ends[first:last], strict=True)
            )
            kind, cells = fields_of(joined + lines[last], delimiter, n_fields, ends_in_cr)
        if kind in ("whole", "stray"):
            rows.append((first + 2, None, cells[:n_fields]))
            i = last + 1
        else:
            rows.append((first + 2, WHY[kind], [lines[first], *[""] * (n_fields - 1)]))
    return rows


def fields_of(line: str, delimiter: str, n_fields: int, ends_in_cr: bool) -> tuple[str, list[str]]:
    """What a line is, and its fields."""
    if not ends_in_cr:
        line = line.removesuffix("\r")
    cells: list[str] = []
    at, stray = 0, False
    while True:
        if line[at : at + 1] == '"':
            quoted = QUOTED.match(line, at)
            if not quoted:
                return "open", []
            at = quoted.end()
            cell = quoted[1].replace('""', '"')
        else:
            end = line.find(delimiter, at)
            cell = line[at:] if end < 0 else line[at:end]
            stray = stray or '"' in cell
            at += len(cell)
            quoted = None
        if cell and len(cells) >= n_fields:
            return "fields", []
        cells.append(cell)
        if quoted and line[at : at + 1] not in ("", delimiter):
            return "junk", []
        if at == len(line):
            return ("fields" if len(cells) < n_fields else "stray" if stray else "whole"), cells
        at += 1
