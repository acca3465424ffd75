"""The arrays that leaps write to: kernels make none of their own."""

from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray

MAX_BITS = 12
"""Neither positions nor the items of the last batch may be more than this, or steps are taken one by one."""
MAX_OUTCOMES = 1 << 10
"""A round that may have more outcomes than this is not drawn as a whole."""


class Scratch(NamedTuple):
    """Nothing in these arrays is remembered from one leap to the next, but the law of a round."""

    batch: IntArray
    """By position: the first position of its batch."""
    size: IntArray
    """By position: how many items its batch has."""
    members: IntArray
    """The items of the last batch."""
    times: IntArray
    """By set of the last batch's items, as a bit mask: how often it was shown."""
    rest: IntArray
    left: IntArray
    next_part: IntArray
    choices: FloatArray
    """These four: the way down to the partition that is being drawn."""
    shown: IntArray
    """The items of a list, batch by batch."""
    outcomes: IntArray
    """The outcomes of a step, each a set of clicked items."""
    law: FloatArray
    """The probability of each outcome."""
    tail: FloatArray
    """The probability of each outcome or one after it."""
    counts: IntArray
    """How often each outcome occurred."""
    pool: IntArray
    """The items that a step's last positions may be filled with."""
    others: IntArray
    """The items of the last batch that are shown before those left over."""
    steps: IntArray
    """By how many places are still free, and how many of these were looked at: in how many steps."""
    work: FloatArray
    spare: IntArray
    """These two: for the click model's law."""
    observed: IntArray
    """By item: how often it was observed in a leap."""
    clicked: IntArray
    """By item: how often it was clicked when it was observed."""
    together: IntArray
    """By pair of items of a batch: how often both were clicked; empty where the policy needs none."""
    totals: FloatArray
    """The expected number of clicks of a leap, and their number."""
    known: IntArray
    """What `round_law` is the law of: how many items the last batch has, its first position and its items; 0 where a
    call begins. This alone is remembered from one leap to the next."""
    round_law: FloatArray
    round_tail: FloatArray
    round_counts: IntArray
    """By outcome of a round, as those of a step."""
    round_mean: FloatArray
    """The expected number of clicks of a round."""
    in_sight: FloatArray
    """See `by_round.find_sights`."""


def make_scratch(n_items: int, n_positions: int, pairs: bool) -> Scratch:
    paired = n_items if pairs else 0
    most = 1 << min(n_positions, MAX_BITS) + 1
    return Scratch(
        batch=np.zeros(n_positions, np.int64),
        size=np.zeros(n_positions, np.int64),
        members=np.zeros(MAX_BITS, np.int64),
        times=np.zeros(1 << MAX_BITS, np.int64),
        rest=np.zeros(MAX_BITS + 1, np.int64),
        left=np.zeros(MAX_BITS + 1, np.int64),
        next_part=np.zeros(MAX_BITS + 1, np.int64),
        choices=np.zeros(MAX_BITS + 1),
        shown=np.zeros(n_positions, np.int64),
        outcomes=np.zeros(most, np.int64),
        law=np.zeros(most),
        tail=np.zeros(most),
        counts=np.zeros(most, np.int64),
        pool=np.zeros(MAX_BITS, np.int64),
        others=np.zeros(MAX_BITS, np.int64),
        steps=np.zeros((MAX_BITS + 1, MAX_BITS + 1), np.int64),
        work=np.zeros(2 * (MAX_BITS + n_positions + 2)),
        spare=np.zeros(2 * n_positions, np.int64),
        observed=np.zeros(n_items, np.int64),
        clicked=np.zeros(n_items, np.int64),
        together=np.zeros((paired, paired), np.int64),
        totals=np.zeros(2),
        known=np.zeros(MAX_BITS + 2, np.int64),
        round_law=np.zeros(MAX_OUTCOMES),
        round_tail=np.zeros(MAX_OUTCOMES),
        round_counts=np.zeros(MAX_OUTCOMES, np.int64),
        round_mean=np.zeros(1),
        in_sight=np.zeros((MAX_BITS + 1, MAX_BITS, MAX_BITS)),
    )


class Margin(NamedTuple):
    """The arrays of leaps by margin. Nothing in them is remembered from one window of steps to the next."""

    shown: IntArray
    """The list that leaps are about."""
    position: IntArray
    """By item of this list: where it stands."""
    n_outcomes: IntArray
    """How many click vectors this list may get; 0 if that was not looked at."""
    outcomes: IntArray
    """The click vectors, each as a bit mask."""
    law: FloatArray
    """The probability of each."""
    examined: IntArray
    """For each: how many positions are learned from."""
    tail: FloatArray
    """The probability of each or one after it."""
    counts: IntArray
    """How often each occurred, or is still in the urn."""
    mean_observed: FloatArray
    mean_clicked: FloatArray
    """By position: how probably it is learned from, and how probably as clicked."""
    measured_at: IntArray
    """The step of the policy when its indices' pace was measured."""
    down: FloatArray
    up: FloatArray
    """By place in the order: how far the index may go in a step."""
    observed: IntArray
    """By item: how often it was observed in a leap."""
    clicked: IntArray
    """By item: how often it was clicked when it was observed."""
    totals: IntArray
    """All clicks of a leap."""


def make_margin(n_items: int, n_positions: int) -> Margin:
    most = 1 << n_positions if n_positions <= MAX_BITS else 0
    return Margin(
        shown=np.zeros(n_positions, np.int64),
        position=np.zeros(n_items, np.int64),
        n_outcomes=np.zeros(1, np.int64),
        outcomes=np.zeros(most, np.int64),
        law=np.zeros(most),
        examined=np.zeros(most, np.int64),
        tail=np.zeros(most),
        counts=np.zeros(most, np.int64),
        mean_observed=np.zeros(n_positions),
        mean_clicked=np.zeros(n_positions),
        measured_at=np.zeros(1, np.int64),
        down=np.zeros(n_items),
        up=np.zeros(n_items),
        observed=np.zeros(n_items, np.int64),
        clicked=np.zeros(n_items, np.int64),
        totals=np.zeros(1, np.int64),
    )
