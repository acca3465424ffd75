"""Synthetic logs: sessions of users who click by the models of a queries file."""

import gzip
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.logs.formats.base import SESSION, Writer, format_names, log_format
from clickbandit.queries import Query
from clickbandit.registry import suggestion

BATCH = 200_000
"""How many sessions are made at a time."""
_MAX_TEXTS = 500_000  # how many different sessions are remembered as texts
_PIECE = 1 << 20  # how many bytes are packed at a time


class Traffic(NamedTuple):
    """A query, how its users click, and the lists that they are shown."""

    query: Query
    model: ClickModel
    lists: IntArray
    """A row for each list: indices into the query's items."""


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
    different orders of its items, so that lists repeat as in real logs. The file is complete or not written
    at all; its name may end in .gz or .zst. The same seed gives the same file.
    """
    if sessions < 1 or lists < 1 or positions < 1:
        raise InputError(
            f"expected at least 1 session, list and position, found {sessions}, {lists} and {positions}"
        )
    rng = np.random.default_rng(seed)
    laws = [query.model(model) for query in queries]
    traffic = [
        Traffic(query, law, _lists(len(query.items), min(positions, law.max_positions), lists, rng))
        for query, law in zip(queries, laws, strict=True)
    ]
    write_sessions(traffic, path, sessions=sessions, rng=rng, format=format, progress=progress)


def write_sessions(
    traffic: Sequence[Traffic],
    path: str | PathLike[str],
    *,
    sessions: int,
    rng: np.random.Generator,
    format: str = "yandex-relpred",
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write a log of users who click by each query's model on its lists.

    Queries, and the lists of each, are drawn with frequencies 1, 1/2, 1/3, .. in the order in which they are
    given. All models are of one kind.
    """
    writer = _writer(format, traffic)
    law = traffic[0].model
    loop = specialise("clickbandit.logs.kernels", model=vars(law.functions), sources=law.sources)
    params = [entry.model.params for entry in traffic]
    often = _zipf(len(traffic))
    often_list = {n: _zipf(n) for n in {len(entry.lists) for entry in traffic}}

    @lru_cache(_MAX_TEXTS)
    def text_of(q: int, row: int, bits: int) -> str:
        query, _, lists = traffic[q]
        items = [query.items[item] for item in lists[row]]
        return writer.session(query.query, items, [bits >> k & 1 for k in range(len(items))])

    with _written_whole(Path(path)) as write:
        write(writer.header)
        for first in range(0, sessions, BATCH):
            n = min(BATCH, sessions - first)
            query = np.searchsorted(often, rng.random(n), side="right")
            rank = rng.random(n)
            lines = [""] * n
            order = np.argsort(query, kind="stable")
            for users in np.split(order, np.flatnonzero(np.diff(query[order])) + 1):
                q = int(query[users[0]])
                lists = traffic[q].lists
                which = np.searchsorted(often_list[len(lists)], rank[users], side="right")
                clicks = np.zeros((len(users), lists.shape[1]), np.int64)
                loop.simulate(params[q], rng, lists, which, clicks)
                bits = clicks @ (1 << np.arange(clicks.shape[1]))
                for user, row, pattern in zip(users.tolist(), which.tolist(), bits.tolist(), strict=True):
                    lines[user] = text_of(q, row, pattern).replace(SESSION, str(first + user))
            write("".join(lines))
            if progress:
                progress(n)


def _writer(format: str, traffic: Sequence[Traffic]) -> Writer:
    """How to write a format, which must be able to hold all names."""
    writer = log_format(format).writer if format in format_names() else None
    if writer is None:
        known = format_names(writable=True)
        raise InputError(f"logs cannot be generated as {format!r}: {suggestion(format, known)}")
    for query in (entry.query for entry in traffic):
        of_query = writer.forbidden_in_queries or writer.forbidden
        for name, forbidden in [(query.query, of_query), *((item, writer.forbidden) for item in query.items)]:
            if not name or forbidden.search(name):
                raise InputError(f"{format} cannot hold the name {name!r} of query {query.query}: change it")
    return writer


def _zipf(n: int) -> FloatArray:
    """The cumulative probabilities of 1, 1/2, 1/3, .."""
    weights: FloatArray = 1 / np.arange(1, n + 1)
    cumulative: FloatArray = np.cumsum(weights) / weights.sum()
    return cumulative + 1e-15  # so that the last is not below 1


def _lists(n_items: int, positions: int, n: int, rng: np.random.Generator) -> IntArray:
    """Up to n different lists of a query's items, a row each."""
    orders = dict.fromkeys(tuple(rng.permutation(n_items)[:positions].tolist()) for _ in range(n))
    return np.array(list(orders), np.int64)


@contextmanager
def _written_whole(path: Path) -> Iterator[Callable[[str], object]]:
    """Writes a file that appears under its name only when all of it is written."""
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".clickbandit-")
    except OSError as error:
        raise InputError(f"the log cannot be written to {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as raw, _packed(raw, path.suffix) as file:

            def write(text: str) -> None:
                data = text.encode()
                for start in range(0, len(data), _PIECE):  # between two of which Ctrl-C is seen
                    file.write(data[start : start + _PIECE])

            yield write
        os.chmod(part, 0o644)  # temporary files are private
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def _packed(raw: Any, suffix: str) -> Any:
    if suffix == ".gz":  # without a time and a name inside, the same log is the same file
        return gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=6)
    if suffix == ".zst":
        return pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), "zstd")
    return nullcontext(raw)
