"""Synthetic logs: sessions of users who click by the models of a queries file."""

import gzip
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError
from clickbandit.queries import Query
from clickbandit.registry import suggestion

BATCH = 200_000
"""How many sessions are made at a time."""
_TEXTS = 500_000  # how many different sessions are remembered as texts
_SESSION = "\0"  # stands for the session's number in a text that many sessions share


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
    different orders of its items, so that lists repeat as in real logs. The file is complete or not there;
    its name may end in .gz or .zst. The same seed gives the same file.
    """
    if format not in _FORMATS:
        raise InputError(f"logs cannot be generated as {format!r}: {suggestion(format, _FORMATS)}")
    if sessions < 1 or lists < 1 or positions < 1:
        raise InputError(
            f"expected at least 1 session, list and position, found {sessions}, {lists} and {positions}"
        )
    rng = np.random.default_rng(seed)
    models = [query.model(model) for query in queries]
    shown = [
        _lists(len(query.items), min(positions, law.max_positions), lists, rng)
        for query, law in zip(queries, models, strict=True)
    ]
    write_sessions(queries, models, shown, path, sessions=sessions, rng=rng, format=format, progress=progress)


def write_sessions(
    queries: Sequence[Query],
    models: Sequence[ClickModel],
    shown: Sequence[IntArray],
    path: str | PathLike[str],
    *,
    sessions: int,
    rng: np.random.Generator,
    format: str = "yandex-relpred",
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write a log of users who click by each query's model on its lists, which are rows of item numbers.

    Queries, and the lists of each, are drawn with frequencies 1, 1/2, 1/3, .. in the order in which they are
    given. All models are of one kind.
    """
    header, text_of, forbidden = _FORMATS[format]
    for entry in queries:
        for name in (entry.query, *entry.items):
            if not name or forbidden.search(name):
                raise InputError(f"{format} cannot hold the name {name!r} of query {entry.query}: change it")
    params = [law.params for law in models]
    loop = specialise("clickbandit.logs.kernels", model=models[0].module, sources=models[0].sources)
    often = _zipf(len(queries))
    often_list = {n: _zipf(n) for n in {len(orders) for orders in shown}}
    texts: dict[tuple[int, int, int], str] = {}
    with _written_whole(Path(path)) as write:
        write(header)
        for first in range(0, sessions, BATCH):
            n = min(BATCH, sessions - first)
            query = np.searchsorted(often, rng.random(n), side="right")
            rank = rng.random(n)
            lines = [""] * n
            order = np.argsort(query, kind="stable")
            for users in np.split(order, np.flatnonzero(np.diff(query[order])) + 1):
                q = int(query[users[0]])
                which = np.searchsorted(often_list[len(shown[q])], rank[users], side="right")
                clicks = np.zeros((len(users), shown[q].shape[1]), np.int64)
                loop.simulate(params[q], rng, shown[q], which, clicks)
                bits = clicks @ (1 << np.arange(clicks.shape[1]))
                for i, (user, row, pattern) in enumerate(
                    zip(users.tolist(), which.tolist(), bits.tolist(), strict=True)
                ):
                    text = texts.get((q, row, pattern))
                    if text is None:
                        if len(texts) > _TEXTS:
                            texts.clear()
                        items = [queries[q].items[item] for item in shown[q][row]]
                        text = text_of(queries[q].query, items, clicks[i].tolist())
                        texts[q, row, pattern] = text
                    lines[user] = text.replace(_SESSION, str(first + user))
            write("".join(lines))
            if progress:
                progress(n)


def _zipf(n: int) -> FloatArray:
    """The cumulative probabilities of 1, 1/2, 1/3, .."""
    weights = 1 / np.arange(1, n + 1)
    return cast(FloatArray, np.cumsum(weights) / weights.sum() + 1e-15)  # so that the last is not below 1


def _lists(n_items: int, positions: int, n: int, rng: np.random.Generator) -> IntArray:
    """Up to n different lists of a query's items, a row each."""
    orders = dict.fromkeys(tuple(rng.permutation(n_items)[:positions].tolist()) for _ in range(n))
    return np.array(list(orders), np.int64)


# --- formats ------------------------------------------------------------------------------------------------


def _yandex(query: str, items: Sequence[str], clicks: Sequence[int]) -> str:
    lines = ["\t".join([_SESSION, "0", "Q", query, "0", *items])]
    clicked = [item for item, click in zip(items, clicks, strict=True) if click]
    lines += [f"{_SESSION}\t{time}\tC\t{item}" for time, item in enumerate(clicked, start=1)]
    return "\n".join(lines) + "\n"


def _csv(query: str, items: Sequence[str], clicks: Sequence[int]) -> str:
    return f"{query},{'|'.join(items)},{'|'.join(map(str, clicks))}\n"


_FORMATS = {
    "yandex-relpred": ("", _yandex, re.compile(r"[\t\r\n\0]")),
    "csv": ("query,list,clicks\n", _csv, re.compile(r"""[\s\0,;|"'()\[\]]""")),
}
"""For each format that can be written: its first line, the text of a session, and what no name may hold."""


@contextmanager
def _written_whole(path: Path) -> Iterator[Callable[[str], object]]:
    """Writes a file that appears under its name only when all of it is written."""
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".clickbandit-")
    except OSError as error:
        raise InputError(f"the log cannot be written to {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as raw, _packed(raw, path.suffix) as file:
            yield lambda text: file.write(text.encode())
        os.chmod(part, 0o644)  # a temporary file is its owner's alone
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def _packed(raw: Any, suffix: str) -> Any:
    if suffix == ".gz":  # without a time and a name inside, the same log is the same file
        return gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=6)
    if suffix == ".zst":
        return pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), "zstd")
    return nullcontext(raw)
