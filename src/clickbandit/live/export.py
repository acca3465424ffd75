"""Settled impressions with all that is known of how their lists were chosen, as Parquet, Arrow or JSON lines.

Each is settled once and has the mark of the transaction that did it, so that an export which goes on after the last
mark of the one before has each exactly once. An archive is written before rows are forgotten: a file is there under its
name when it is whole, named after its first row, so that writing that row again after a crash writes the same file.
"""

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from clickbandit import extras
from clickbandit.errors import InputError
from clickbandit.live.chances import read_all_chances
from clickbandit.live.records import bits
from clickbandit.live.stores.contract import Store
from clickbandit.live.stores.reading import Decision, Reader
from clickbandit.live.stores.rows import SOURCES
from clickbandit.live.values import StoreError

FORMAT = 1
"""Of the files."""
_ROWS = 10_000
"""That are read and written at once."""
_FEW, MAX_BYTES = 500, 2**24
"""Rows that are read at once for an answer, and its bytes after which no more are."""


@cache
def schema() -> "extras.pa.Schema":
    """The columns of a row for each settled impression.

    `propensities` are those of each item at its position, `prefix_propensities` those of the whole list down to there;
    null where the policy states none. With errors they are estimates. `rewards` are what each item earned: its clicks,
    where no rewards were set; `reward` is what they earned together.
    """
    pa = extras.pa
    numbers, names = pa.list_(pa.float64()), pa.list_(pa.string())
    return pa.schema(
        [
            ("impression", pa.string()),
            ("time", pa.timestamp("ms", "UTC")),
            ("query", pa.string()),
            ("candidates", names),
            ("list", names),
            ("source", pa.string()),
            ("propensities", numbers),
            ("prefix_propensities", numbers),
            ("propensity_errors", numbers),
            ("prefix_errors", numbers),
            ("clicks", pa.list_(pa.int8())),
            ("reward", pa.float64()),
            ("rewards", numbers),
            ("user", pa.string()),
            ("policy", pa.string()),
            ("positions", pa.int32()),
            ("horizon", pa.int64()),
            ("seed", pa.int64()),
            ("mark", pa.int64()),
        ]
    )


def rows_of(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """Rows as `schema` has them; times are milliseconds since 1970."""
    found = []
    for decision in decisions:
        items = json.loads(decision.items)
        chances = read_all_chances(decision.propensities, len(items))
        clicks = bits(decision.clicks, len(items)).tolist()
        found.append(
            {
                "impression": decision.id,
                "time": decision.at,
                "query": decision.query,
                "candidates": None if decision.candidates is None else json.loads(decision.candidates),
                "list": items,
                "source": SOURCES[decision.source],
                **chances._asdict(),
                "clicks": clicks,
                "reward": float(sum(clicks)) if decision.reward is None else decision.reward,
                "rewards": _rewards(decision, clicks),
                "user": decision.user,
                "policy": decision.policy,
                "positions": decision.positions,
                "horizon": decision.horizon,
                "seed": decision.seed,
                "mark": decision.mark,
            }
        )
    return found


def _rewards(decision: Decision, clicks: list[int]) -> list[float]:
    """By position, what was earned: the clicks, where no rewards were set."""
    if decision.reward is None:
        return [float(click) for click in clicks]
    return [0.0] * len(clicks) if decision.rewards is None else json.loads(decision.rewards)


def table_of(decisions: Sequence[Decision]) -> "extras.pa.Table":
    return extras.pa.Table.from_pylist(rows_of(decisions), schema=schema())


def as_ndjson(reader: Reader, since: int, limit: int) -> bytes:
    sink = io.BytesIO()
    for page in _some(reader, since, limit, sink):
        sink.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows_of(page))
    return sink.getvalue()


def as_arrow(reader: Reader, since: int, limit: int) -> bytes:
    """A stream of the Arrow IPC format."""
    sink = io.BytesIO()
    with extras.pa.ipc.new_stream(sink, schema()) as writer:
        for page in _some(reader, since, limit, sink):
            writer.write_table(table_of(page))
    return sink.getvalue()


def _some(reader: Reader, since: int, limit: int, sink: io.BytesIO) -> Iterator[list[Decision]]:
    """About `limit`, fewer if these are too many bytes where they are written to."""
    while limit > 0 and sink.tell() < MAX_BYTES and (page := reader.decisions(since, min(limit, _FEW))):
        yield page
        since, limit = page[-1].mark, limit - len(page)


# --- files --------------------------------------------------------------------------------------------------


def _pages(reader: Reader, since: int) -> Iterator[list[Decision]]:
    while page := reader.decisions(since, _ROWS):
        yield page
        since = page[-1].mark


def export(reader: Reader, path: Path, since: int = 0) -> tuple[int, int]:
    """Write all that was settled after a mark; how many these are, and the last mark."""
    n = 0
    with extras.pq.ParquetWriter(path, schema()) as writer:
        for page in _pages(reader, since):
            writer.write_table(table_of(page))
            n, since = n + len(page), page[-1].mark
        writer.add_key_value_metadata({"clickbandit": json.dumps({"format": FORMAT, "until": since})})
    return n, since


def last_mark(path: Path) -> int:
    """Where an export ended, to go on from there."""
    try:
        metadata = extras.pq.read_metadata(path).metadata or {}
        return int(json.loads(metadata[b"clickbandit"])["until"])
    except OSError as error:
        raise InputError(f"{path} must be a file that clickbandit export wrote: {error}") from None
    except (extras.pa.ArrowInvalid, KeyError, ValueError):
        raise InputError(
            f"{path} must be a file that clickbandit export wrote, found another: it does not say where it ended"
        ) from None


# --- the archive --------------------------------------------------------------------------------------------


def archived(store: Store, folder: str | None) -> Store:
    """A store that keeps what it forgets in a folder."""
    if folder is None:
        return store
    schema()  # who lacks its extra is told now, not when something is to be kept
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"archive must be a folder that can be written, found {folder}: {error}") from None
    return cast(Store, _Archived(store, path))


class _Archived:
    """Everything is the store's own but what comes before forgetting."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._keep: Callable[[list[Decision]], None] = lambda decisions: _write(folder, decisions)

    def prune(self, before: int, limit: int) -> int:
        return self._store.prune(before, limit, self._keep)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _write(folder: Path, decisions: list[Decision]) -> None:
    """A file that is whole and on disk before anything of it may be forgotten."""
    path = folder / f"decisions-{decisions[0].number:016}.parquet"
    unfinished = path.with_suffix(".unfinished")
    try:
        with open(unfinished, "wb") as file:
            extras.pq.write_table(table_of(decisions), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except (OSError, extras.pa.ArrowException) as error:
        with suppress(OSError):
            unfinished.unlink()
        raise StoreError(f"the archive {folder} cannot be written: {error}") from error
