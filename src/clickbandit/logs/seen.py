"""The lists that a scan has shown so far, and how each was clicked: two hash tables, which outlive blocks of lines.

A list is known by its fingerprint, two hashes of 63 bits: 126 in all, as many as tell lists apart in SQL but for two.
"""

from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import IntArray, entry_point, kernel
from clickbandit.logs.scan import LOW_BITS, N_SHOWN, PRIME, Scan

MAX_SLOTS = 1 << 22
"""Of each table, 24 bytes each, of which at most half are used: beyond these it starts anew."""
_MIN_SLOTS = 1 << 10
KEY, OTHER_KEY, VALUE = range(3)
"""What is in a slot; a value of 0 marks an empty one."""


class PatternCounts(NamedTuple):
    """How lists were clicked: by list and by clicks, how often."""

    list: IntArray
    clicks: np.ndarray[tuple[int], np.dtype[np.uint64]]
    sessions: IntArray


class Seen:
    """Counts lists by their clicks, in about as much memory as there are different ones."""

    def __init__(self) -> None:
        self._n_forgotten = 0
        self._forget()

    def _forget(self) -> None:
        self._lists, self._patterns = _table(0), _table(0)
        self._n = np.zeros(2, np.int64)

    def make_room(self, n_shown: int) -> PatternCounts | None:
        """Before so many lists are counted: what was counted before, if that has to be forgotten for it."""
        forgotten = None
        if 2 * (int(self._n.max()) + n_shown) > MAX_SLOTS and self._n.any():
            forgotten = self.patterns()
            self._n_forgotten += int(self._n[0])
            self._forget()
        self._lists = _with_room(self._lists, int(self._n[0]) + n_shown)
        self._patterns = _with_room(self._patterns, int(self._n[1]) + n_shown)
        return forgotten

    def count(self, scan: Scan) -> tuple[IntArray, int]:
        """Add what was shown: which lists shown are the first of theirs, and the number of the first of these."""
        first, before = np.zeros(scan.totals[N_SHOWN], np.int64), int(self._n[0])
        count_shown(scan, self._lists, self._patterns, self._n, first)
        return first[: self._n[0] - before], self._n_forgotten + before

    def patterns(self) -> PatternCounts:
        """All that is remembered."""
        used = self._patterns[self._patterns[:, VALUE] > 0]
        return PatternCounts(
            used[:, KEY] + self._n_forgotten, used[:, OTHER_KEY].astype(np.uint64), used[:, VALUE]
        )


def _table(n_keys: int) -> IntArray:
    """A table with room for some keys: the number of its slots is a power of two."""
    return np.zeros((max(_MIN_SLOTS, 2 << n_keys.bit_length()), 3), np.int64)


def _with_room(table: IntArray, n_keys: int) -> IntArray:
    if 2 * n_keys <= len(table):
        return table
    larger = _table(n_keys)
    move(table, larger)
    return larger


# --- kernels ------------------------------------------------------------------------------------------------


@entry_point
def count_shown(scan: Scan, lists: IntArray, patterns: IntArray, n: IntArray, first: IntArray) -> None:
    """Number lists that are new, and count all by their clicks; `n` is how many lists and patterns there are."""
    before = n[0]
    for shown in range(scan.totals[N_SHOWN]):
        known = lists[slot_of(lists, scan.one[shown], scan.other[shown])]
        if known[VALUE] == 0:
            first[n[0] - before] = shown
            n[0] += 1
            known[KEY], known[OTHER_KEY], known[VALUE] = scan.one[shown], scan.other[shown], n[0]
        number = known[VALUE] - 1
        pattern = patterns[slot_of(patterns, number, scan.bits[shown])]
        if pattern[VALUE] == 0:
            n[1] += 1
            pattern[KEY], pattern[OTHER_KEY] = number, scan.bits[shown]
        pattern[VALUE] += 1


@entry_point
def move(table: IntArray, larger: IntArray) -> None:
    """Fill an empty table with what is in another one."""
    for i in range(len(table)):
        if table[i, VALUE] > 0:
            slot = larger[slot_of(larger, table[i, KEY], table[i, OTHER_KEY])]
            for k in range(VALUE + 1):
                slot[k] = table[i, k]


@kernel
def slot_of(table: IntArray, key: int, other: int) -> int:
    """Where a pair of keys is in a table, or will be."""
    hashed = ((int(key) & LOW_BITS) * PRIME) & LOW_BITS
    hashed = ((hashed ^ (int(other) & LOW_BITS)) * PRIME) & LOW_BITS
    slot = (hashed ^ (hashed >> 29)) & (len(table) - 1)
    while table[slot, VALUE] > 0 and (table[slot, KEY] != key or table[slot, OTHER_KEY] != other):
        slot = (slot + 1) & (len(table) - 1)
    return slot
