"""What is kept with an impression so that its clicks can be learned from: the list and the memo, as bytes.

The version of the learner's items and how many the list has, the list as 16-bit numbers, the memo, and a checksum: a
memo with a flipped bit would lead a policy's kernels out of their arrays. Earlier versions wrote no checksum.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple
from zlib import crc32

from clickbandit.live.records import Damaged

_HEAD = struct.Struct("<IB")
_SUM = struct.Struct("<I")


class Learning(NamedTuple):
    """What a list was made with."""

    version: int
    ranking: bytes
    memo: bytes


def write(version: int, ranking: Sequence[int], memo: bytes) -> bytes:
    n = len(ranking)
    written = _list(n).pack(version, n, *ranking) + memo
    return written + _SUM.pack(crc32(written))


@cache
def _list(n: int) -> struct.Struct:
    """What comes before the memo of a list of n items."""
    return struct.Struct(f"<IB{n}h")


def content(written: bytes) -> bytes:
    """The list and the memo in what was just written."""
    return written[_HEAD.size : -_SUM.size]


def read(written: bytes) -> Learning:
    """As it was written, or a `Damaged`.

    >>> read(write(3, [1, 0], bytes(8)))
    Learning(version=3, ranking=b'\\x01\\x00\\x00\\x00', memo=b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00')
    """
    version, n = _HEAD.unpack_from(written)
    at = _HEAD.size + 2 * n
    end = len(written)
    if (end - at) % 8:
        end -= _SUM.size
        if _SUM.unpack_from(written, end) != (crc32(written[:end]),):
            raise Damaged("what was kept of a list is not what was written")
    return Learning(version, written[_HEAD.size : at], written[at:end])
