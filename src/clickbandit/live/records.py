"""The log of a query: all that ever changed what its policy knows, in order, as bytes.

A record is a byte that says its kind and what follows from that. Records are numbered from 1 by their place in the
log; a row of the store holds those that one transaction added.

    rank     nothing more: the list follows from the state and its generator
    settle   the list, its clicks and its memo, as `update` gets them
    void     the list and its memo, as `void` gets them
    start    JSON: the policy and its settings, the items, and what they are expected to be; learning starts afresh
    items    JSON: the items that are new, with what they are expected to be, those that are gone, and how often in a
             row those at hand were missing
"""

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray


class Damaged(Exception):
    """What was stored is not what was written."""


RANK = b"\x01"
_RANK, _SETTLE, _VOID, _START, _ITEMS = range(1, 6)
_SETTLE_HEAD = struct.Struct("<BBHQ")
_VOID_HEAD = struct.Struct("<BBH")
_TEXT_HEAD = struct.Struct("<BI")


class RankRecord(NamedTuple):
    """A list was made."""


class SettleRecord(NamedTuple):
    """An impression's clicks were learned from."""

    ranking: IntArray
    clicks: IntArray
    memo: FloatArray


class VoidRecord(NamedTuple):
    """An impression was not seen, or its clicks cannot be learned from. Items that are gone since are -1."""

    ranking: IntArray
    memo: FloatArray


class StartRecord(NamedTuple):
    """Learning starts afresh."""

    policy: str
    positions: int
    horizon: int
    seed: int
    items: list[str]
    prior: dict[str, Any] | None = None
    """The fields of what it starts from, a `Prior` in the numbers of the items."""
    scores: list[float] | None = None
    """By item: what the request said."""
    features: list[list[float]] | None = None
    """By item: its features, with the context of the request."""
    again: int | None = None
    """How many of the lists that are learned from next the log has already: see `switching`."""


class ItemsRecord(NamedTuple):
    """Items came or went."""

    new: list[str]
    gone: list[str]
    missing: dict[str, int]
    """How many requests in a row left an item out that is not gone yet."""
    expected: list[tuple[float, float]] | None = None
    """Of each new item: how attractive it should be, and how many examinations that is worth."""


Record = RankRecord | SettleRecord | VoidRecord | StartRecord | ItemsRecord


class Feedback(NamedTuple):
    """A list that was shown, in the numbers that items have now."""

    ranking: bytes
    memo: bytes
    complete: bool
    """Whether all of its items are still there; else there is nothing to learn from."""


def settle(ranking: bytes, clicks: int, memo: bytes) -> bytes:
    """`ranking` as 16-bit numbers, `clicks` as bits by position, `memo` as it is."""
    return settle_both(ranking + memo, len(ranking) // 2, len(memo) // 8, clicks)


def settle_both(written: bytes, n_positions: int, n_memo: int, clicks: int) -> bytes:
    """The same, of the ranking with its memo behind it."""
    return _SETTLE_HEAD.pack(_SETTLE, n_positions, n_memo, clicks) + written


def void(ranking: bytes, memo: bytes) -> bytes:
    return _VOID_HEAD.pack(_VOID, len(ranking) // 2, len(memo) // 8) + ranking + memo


def text(record: StartRecord | ItemsRecord) -> bytes:
    given = {name: value for name, value in record._asdict().items() if value is not None}
    written = json.dumps(given, ensure_ascii=False).encode()
    return _TEXT_HEAD.pack(_START if isinstance(record, StartRecord) else _ITEMS, len(written)) + written


def read(log: bytes) -> Iterator[Record]:
    """The records in a row of the log; a `Damaged` if it cannot be one."""
    try:
        yield from _read(log)
    except (ValueError, TypeError, struct.error) as error:
        raise Damaged(f"records cannot be read: {error}") from error


def _read(log: bytes) -> Iterator[Record]:
    at = 0
    while at < len(log):
        kind = log[at]
        if kind == _RANK:
            at += 1
            yield RankRecord()
        elif kind in (_SETTLE, _VOID):
            head = _SETTLE_HEAD if kind == _SETTLE else _VOID_HEAD
            _, n_positions, n_memo, *clicked = head.unpack_from(log, at)
            at += head.size
            ranking = np.frombuffer(log, "<i2", n_positions, at).astype(np.int64)
            at += 2 * n_positions
            memo = np.frombuffer(log, "<f8", n_memo, at).copy()
            at += 8 * n_memo
            yield (
                SettleRecord(ranking, bits(clicked[0], n_positions), memo)
                if clicked
                else VoidRecord(ranking, memo)
            )
        elif kind in (_START, _ITEMS):
            _, length = _TEXT_HEAD.unpack_from(log, at)
            at += _TEXT_HEAD.size
            values: dict[str, Any] = json.loads(log[at : at + length])
            at += length
            yield StartRecord(**values) if kind == _START else ItemsRecord(**values)
        else:
            raise ValueError(
                f"a record of kind {kind} at byte {at} of the log: it is damaged, or of a later version"
            )


def bits(mask: int, n: int) -> IntArray:
    """The lowest bits of a number, as an array of zeros and ones.

    >>> bits(5, 4).tolist()
    [1, 0, 1, 0]
    """
    return np.array([mask >> k & 1 for k in range(n)], np.int64)
