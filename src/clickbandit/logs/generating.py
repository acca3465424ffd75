"""Synthetic logs: sessions of users who click by the models of a queries file."""

import gzip
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
import pyarrow as pa

from clickbandit.compilation import specialise
from clickbandit.errors import InputError
from clickbandit.kernel import FloatArray, IntArray
from clickbandit.queries import Query
from clickbandit.registry import suggestion

BATCH = 100_000
"""How many sessions are made at a time."""


class _Lists(NamedTuple):
    """The lists of one query."""

    items: IntArray
    """A row of item indices for each list."""
    texts: list[str]
    """The items of each list, as they stand in a line."""


def generate_log(
    queries: Sequence[Query],
    path: str | PathLike[str],
    *,
    model: str,
    sessions: int,
    positions: int = 10,
    lists: int = 40,
    format: str = "yandex-relpred",
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write a log of `sessions` lists shown to users of a click model, a batch at a time.

    Queries and their lists are drawn with frequencies 1, 1/2, 1/3, .. (Zipf): each query has up to `lists`
    different orders of its items, so that lists repeat as in real logs. The file is complete or not there; its name
    may end in .gz or .zst. The same seed gives the same file.
    """
    if format not in _WRITERS:
        raise InputError(f"logs cannot be generated as {format!r}: {suggestion(format, _WRITERS)}")
    if sessions < 1 or lists < 1:
        raise InputError(f"expected at least 1 session and 1 list, found {sessions} and {lists}")
    rng = np.random.default_rng(seed)
    models = [query.model(model) for query in queries]
    shown = [
        _lists(query, min(positions, m.max_positions), lists, rng)
        for query, m in zip(queries, models, strict=True)
    ]
    params = [m.params for m in models]
    loop = specialise("clickbandit.logs.clicking", model=models[0].module)
    often = _zipf(len(queries))
    with _written_whole(Path(path)) as file:
        file.write(_WRITERS[format].header)
        for first in range(0, sessions, BATCH):
            n = min(BATCH, sessions - first)
            query = np.searchsorted(often, rng.random(n), side="right")
            rank = rng.random(n)
            lines: list[str] = [""] * n
            for q in np.unique(query):
                users = np.flatnonzero(query == q)
                which = np.searchsorted(_zipf(len(shown[q].items)), rank[users], side="right")
                clicks = np.zeros((len(users), shown[q].items.shape[1]), np.int64)
                loop.simulate(params[q], rng, shown[q].items, which, clicks)
                _WRITERS[format].write(lines, users, first, queries[q], shown[q], which, clicks)
            file.write("".join(lines))
            if progress:
                progress(n)


def _zipf(n: int) -> FloatArray:
    """The cumulative probabilities of 1, 1/2, 1/3, .."""
    weights = 1 / np.arange(1, n + 1)
    return cast(FloatArray, np.cumsum(weights) / weights.sum() + 1e-15)


def _lists(query: Query, positions: int, n: int, rng: np.random.Generator) -> _Lists:
    """Up to n different lists of a query's items."""
    orders = dict.fromkeys(tuple(rng.permutation(len(query.items))[:positions].tolist()) for _ in range(n))
    items = np.array(list(orders), np.int64)
    return _Lists(items, ["\t".join(query.items[i] for i in row) for row in items])


# --- formats ------------------------------------------------------------------------------------------------


def _write_yandex(
    lines: list[str],
    users: IntArray,
    first: int,
    query: Query,
    shown: _Lists,
    which: IntArray,
    clicks: IntArray,
) -> None:
    for i, user in enumerate(users.tolist()):
        session = first + user
        row = shown.items[which[i]]
        lines[user] = f"{session}\t0\tQ\t{query.query}\t0\t{shown.texts[which[i]]}\n" + "".join(
            f"{session}\t{k + 1}\tC\t{query.items[row[k]]}\n" for k in np.flatnonzero(clicks[i])
        )


def _write_csv(
    lines: list[str],
    users: IntArray,
    first: int,
    query: Query,
    shown: _Lists,
    which: IntArray,
    clicks: IntArray,
) -> None:
    for i, user in enumerate(users.tolist()):
        marks = "|".join(map(str, clicks[i].tolist()))
        lines[user] = f"{query.query},{shown.texts[which[i]].replace(chr(9), '|')},{marks}\n"


class _Writer(NamedTuple):
    header: str
    write: Callable[[list[str], IntArray, int, Query, _Lists, IntArray, IntArray], None]


_WRITERS = {
    "yandex-relpred": _Writer("", _write_yandex),
    "csv": _Writer("query,list,clicks\n", _write_csv),
}


@contextmanager
def _written_whole(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name only when all of it is written."""
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".clickbandit-")
    except OSError as error:
        raise InputError(f"the log cannot be written to {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as raw:
            if path.suffix == ".gz":
                # without a time and a name in its header, the same log is the same file
                with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:
                    with _text(packed) as text:
                        yield text
            elif path.suffix == ".zst":
                with (
                    pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), "zstd") as packed,
                    _text(packed) as text,
                ):
                    yield text
            else:
                with _text(raw) as text:
                    yield text
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


class _text:
    """Writes text to a binary file, and leaves closing it to its owner."""

    def __init__(self, file: object) -> None:
        self._file = file

    def __enter__(self) -> IO[str]:
        return cast(IO[str], self)

    def __exit__(self, *error: object) -> None:
        return None

    def write(self, text: str) -> None:
        self._file.write(text.encode())  # type: ignore[attr-defined]
