"""How often each leader led, for UniRank and GRAB: a table of 256 slots, keyed by a hash of the leader.

A leader whose slot is taken starts from zero there, and so will the other when it comes back. That is rare: a
hundred or so leaders occur in a million steps.
"""

from clickbandit.compiling.kernel import IntArray, kernel, slow_path

SLOTS = 256
NOBODY = -1
"""The key of a slot that is not taken."""
PRIMES = 2**31 - 1, 2**31 - 19
BASES = 1_103_515_245, 1_540_483_477


@slow_path
def mix(key: int, number: int) -> int:
    """The key of a sequence of numbers with one more number; the key of an empty one is 0.

    Two polynomials, modulo two primes below 2^31 so that nothing overflows, make a key of 62 bits.
    """
    high = ((key >> 31) * BASES[0] + number) % PRIMES[0]
    low = ((key & (2**31 - 1)) * BASES[1] + number) % PRIMES[1]
    return high << 31 | low


@kernel
def count_leader(key: int, keys: IntArray, times: IntArray) -> int:
    """How often this leader led, with this time."""
    slot = key % len(keys)
    if keys[slot] != key:
        keys[slot] = key
        times[slot] = 0
    times[slot] += 1
    return int(times[slot])
