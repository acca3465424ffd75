"""How the columns of somebody else's table are called, and what a row of it is."""

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from clickbandit.errors import InputError

RowKind = Literal["list", "result"]
Pages = Literal["on", "apart"]
NAMES = {
    "impression": "impression impressionid searchid requestid serpid sessionid session visitid visit queryid",
    "query": "query searchterm searchquery userquery querytext searchtext keyword keywords term phrase q queryid",
    "item": "item itemid productid product sku asin docid documentid objectid resultid doc url",
    "position": "position rank pos ordinal slot place",
    "click": "click clicked isclick isclicked wasclicked clicks nclicks clickcount clickedat clicktime",
}
"""What columns are often called, in a table with a row for each result; small letters and digits alone."""
_LIST_NAMES = {
    "query": NAMES["query"],
    "list": "list items results products shown hits itemids productids",
    "clicks": "clicks clicked click",
}
EXAMPLE = "--columns impression=session_id,query=search_term,item=product_id,position=rank,click=clicked"
"""What to give where nothing can be guessed."""
_OPTIONS = 3
"""How many of the fields below name no columns."""


@dataclass(frozen=True)
class Columns:
    """The names of columns: of a column of ours the one (or several, `a+b`) that it is in the table.

    >>> Columns.parse("impression=session_id+time, query=search_term")
    Columns(impression='session_id+time', query='search_term')
    """

    impression: str | None = None
    """What the rows of one list have in common."""
    query: str | None = None
    item: str | None = None
    position: str | None = None
    """From 1, or from 0."""
    click: str | None = None
    """Yes or no, a number of clicks, or when it was."""
    page: str | None = None
    """The number of the page of results, from 1 or from 0, if positions start over on each."""
    row: str | None = None
    """Of a grid, from 1 or from 0, instead of a position."""
    column: str | None = None
    """Of a grid, from 1 or from 0."""
    list: str | None = None
    """All items of a list in one cell."""
    clicks: str | None = None
    """In the same order."""
    one_row_per: RowKind | None = None
    second_pages: Pages = "on"
    """Whether the results of second pages are positions 11 and on of their list, or a query of their own (`apart`)."""
    page_size: int | None = None
    """How many results a page has."""

    def __post_init__(self) -> None:
        if self.one_row_per not in (None, "list", "result"):
            raise InputError(f"expected one row per list or result, found {self.one_row_per!r}")
        if self.page_size is not None and self.page_size < 1:
            raise InputError(f"expected a page to have at least 1 result, found {self.page_size}")
        if (self.row is None) != (self.column is None):
            raise InputError("expected both row and column of a grid, or neither: name the other one too")
        if self.second_pages not in ("on", "apart"):
            raise InputError(f"expected second pages to be on or apart, found {self.second_pages!r}")
        if (self.page or self.second_pages == "apart") and not self.page_size:
            raise InputError("to number the results of pages, the size of a page is needed: give --page-size")

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = [f"{name}={value!r}" for name, value in values.items() if value not in (None, "on")]
        return f"Columns({', '.join(given)})"

    @classmethod
    def parse(
        cls,
        text: str | None,
        one_row_per: str | None = None,
        second_pages: str = "on",
        page_size: int | None = None,
    ) -> "Columns":
        """From a text such as `impression=session_id,query=search_term`."""
        known = [field.name for field in fields(cls)][:-_OPTIONS]
        found: dict[str, str] = {}
        for part in (text or "").split(","):
            ours, is_pair, theirs = (piece.strip() for piece in part.partition("="))
            if not part.strip():
                continue
            if not is_pair or not theirs or ours not in known:
                raise InputError(
                    f"expected columns as NAME=COLUMN with one of the names {', '.join(known)}, found {part.strip()!r}"
                )
            found[ours] = theirs
        options = {"one_row_per": one_row_per, "second_pages": second_pages, "page_size": page_size}
        return cls(**found, **options)  # type: ignore[arg-type]  # checked there

    @property
    def given(self) -> dict[str, Sequence[str]]:
        """The columns that are named: for each of ours, those of the table."""
        names = {field.name: getattr(self, field.name) for field in fields(self)[:-_OPTIONS]}
        found = {ours: theirs.split("+") for ours, theirs in names.items() if theirs}
        if self.one_row_per == "list":  # a cell has all items of a list, whatever the column is called
            found = {
                {"item": "list", "click": "clicks"}.get(ours, ours): theirs for ours, theirs in found.items()
            }
        return found


def guess(columns: Collection[str]) -> str | None:
    """What to give as `--columns` for a table with these columns, if their names make it plain.

    >>> guess(["Session ID", "searchTerm", "sku", "rank", "is_clicked"])
    "--columns 'impression=Session ID,query=searchTerm,item=sku,position=rank,click=is_clicked'"
    """
    theirs = {re.sub("[^a-z0-9]", "", name.lower()): name for name in reversed([*columns])}
    for names in (NAMES, _LIST_NAMES):
        found = {
            ours: next((theirs[name] for name in often.split() if name in theirs), None)
            for ours, often in names.items()
        }
        if all(found.values()) and len(set(found.values())) == len(found):
            return f"--columns {shlex.quote(','.join(f'{ours}={name}' for ours, name in found.items()))}"
    return None
