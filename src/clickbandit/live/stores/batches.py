"""The rows of a transaction as bytes: counts of queries, and logs.

Text of a query (its name, its settings, its list if it is frozen) is not among them: it changes only in transactions
that readers see at once.
"""

import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

from clickbandit.live.stores.rows import QUERY_COLUMNS, LogRow, QueryRow

_COUNTS = QUERY_COLUMNS[QUERY_COLUMNS.index("updated") :]
"""Whole numbers, and a reward at the end."""
_counts = attrgetter("id", *_COUNTS)
_HEAD = struct.Struct("<III")
"""0, and how many queries and rows of logs there are."""
_OF_QUERY = f"{len(_COUNTS)}qd"
_QUERY = struct.Struct(f"<{_OF_QUERY}")
_LOG = struct.Struct("<qqIqI")
_FORMER_HEAD = struct.Struct("<I")

Counts = tuple[Any, ...]


@lru_cache
def _queries(n: int) -> struct.Struct:
    return struct.Struct(f"<{_OF_QUERY * n}")


def encode(rows: Sequence[QueryRow], log: Sequence[LogRow]) -> bytes:
    counts = chain.from_iterable(map(_counts, rows))
    parts = [_HEAD.pack(0, len(rows), len(log)), _queries(len(rows)).pack(*counts)]
    for query, number, records, at, sum_ in log:
        parts += (_LOG.pack(query, number, len(records), at, sum_), records)
    return b"".join(parts)


def decode(written: bytes) -> tuple[dict[int, Counts], list[LogRow]]:
    """What was encoded: counts by the ids of queries.

    >>> decode(encode([QueryRow(1, "boots", "cts", 2, 9, None, 0, reward=0.5)], [LogRow(1, 7, b"ab", 3, 9)]))
    ({1: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5)}, [LogRow(query=1, number=7, records=b'ab', at=3, checksum=9)])
    """
    form, n_rows, n_log = _HEAD.unpack_from(written)
    if form != 0:
        return _decode_former(written)
    at = _HEAD.size
    counts, log = {}, []
    for _ in range(n_rows):
        id, *values = _QUERY.unpack_from(written, at)
        counts[id] = tuple(values)
        at += _QUERY.size
    for _ in range(n_log):
        query, number, size, when, sum_ = _LOG.unpack_from(written, at)
        at += _LOG.size
        log.append(LogRow(query, number, written[at : at + size], when, sum_))
        at += size
    return counts, log


def with_counts(row: QueryRow, counts: Counts) -> QueryRow:
    """The row, with these."""
    for name, value in zip(_COUNTS, counts, strict=True):
        setattr(row, name, value)
    return row


def _decode_former(written: bytes) -> tuple[dict[int, Counts], list[LogRow]]:
    """What was first written so: JSON, with its length before it and the records of the log behind it."""
    (length,) = _FORMER_HEAD.unpack_from(written)
    at = _FORMER_HEAD.size + length
    rows, places = json.loads(written[_FORMER_HEAD.size : at])
    log = []
    for query, number, size, when, sum_ in places:
        log.append(LogRow(query, number, written[at : at + size], when, sum_))
        at += size
    return {row[0]: tuple(row[-len(_COUNTS) :]) for row in rows}, log
