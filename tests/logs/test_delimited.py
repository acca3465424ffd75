"""CSV is cut into rows as a plain reader cuts it, and no line costs another."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.delimited import Row, rows_of

from clickbandit.logs import delimited, files
from clickbandit.logs.delimited import header_of, read_rows

PIECE = st.sampled_from(
    [
        '"',
        '"',
        ",",
        ",",
        "a",
        "b,c",
        "\n",
        "\n",
        "\r",
        "\r\n",
        '""',
        "x,y,z\n",
        '"p""q",r,"s"\n',
        'a","c\n',
        "é",
    ]
)


def read(path: Path, block: int = files.BLOCK, max_rows: int = delimited.MAX_ROWS) -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        patch.setitem(files._PIECES, "none", lambda file, size: iter(lambda: file.read(block), b""))
        patch.setattr(delimited, "MAX_ROWS", max_rows)
        header = header_of(files.head(path))
        found: list[Row] = []
        for part in read_rows(path, header, range(header.n_fields)):
            assert part.rows.num_rows <= max_rows
            found += [
                (row.pop("n"), row.pop("malformed"), list(row.values())) for row in part.rows.to_pylist()
            ]
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.lists(PIECE, max_size=40),
    st.booleans(),
    st.sampled_from([1, 7, 40, 1 << 20]),
    st.sampled_from([1, 2, 1 << 20]),
    st.sampled_from([3, 3, 9]),
)
def test_rows_are_cut_as_a_plain_reader_cuts_them(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[str],
    ends_in_cr: bool,
    block: int,
    max_rows: int,
    n_fields: int,
) -> None:
    path, text = tmp_path_factory.getbasetemp() / "log.csv", "".join(pieces)
    header = ",".join("abcdefghi"[:n_fields])
    path.write_bytes((header + ("\r" if ends_in_cr else "\n") + text).encode())
    if ends_in_cr and text.startswith("\n"):  # then the header ends in both
        return
    assert read(path, block, max_rows) == rows_of(text, ",", n_fields, ends_in_cr)


def test_a_field_goes_on_over_lines_that_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('a,b\n"two\nlines",1\n2,"three\n\nlines"\n"open,3\n4,5\n6,"end')
    assert read(path) == [
        (2, None, ["two\nlines", "1"]),
        (4, None, ["2", "three\n\nlines"]),
        (7, "quotes that do not close", ['"open,3', ""]),
        (8, None, ["4", "5"]),
        (9, "quotes that do not close", ['6,"end', ""]),
    ]


@pytest.mark.parametrize(
    ("line", "names", "n_fields"),
    [
        ('"a";b;"c;d"\r\n', ["a", "b", "c;d"], 3),
        (",a, b\n", ["", "a", "b"], 3),
        ("a,b,,\n", ["a", "b", "", ""], 2),
        ("a\tb", ["a", "b"], 2),
        ('\n"two\nlines","b, c"\n', ["two\nlines", "b, c"], 2),
        ('"a, b, c";d\r', ["a, b, c", "d"], 2),
        ('a,5" b\n', ["a", '5" b'], 2),
    ],
)
def test_headers(line: str, names: list[str], n_fields: int) -> None:
    header = header_of(line.encode())
    assert (header.names, header.n_fields, header.size) == (names, n_fields, len(line))


def test_a_header_may_go_on_over_lines_unless_its_quotes_do_not_close(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('\r\n"a\r\n""(b)""",c\r\n1,2\r\n')
    assert read(path) == [(4, None, ["1", "2"])]
    path.write_text('a,"b\n1,2\n"3",4\n')
    assert read(path) == [(2, None, ["1", "2"]), (3, None, ["3", "4"])]
