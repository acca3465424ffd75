"""Is it better than the given order, in all, this week and today? And may a query be frozen?

Each settled impression adds to the sums of its day, its week and all time, by when it was shown and by the share that
was held out then, in the transaction that settles it. So they are right whenever it settles, and after any crash.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from clickbandit.intervals import Units, watched_mean_over_shares, watched_over_shares
from clickbandit.live.settings import RankerSettings
from clickbandit.live.stores.reading import ArmSums, Reader
from clickbandit.live.stores.rows import DAY, HOLDOUT, WEEK, ComparisonRow, ImpressionRow
from clickbandit.live.values import Arm, Estimate, Freezing, Holdout, QuerySummary

_MONDAY = 4 * DAY
"""1970 began on a Thursday."""
_TIGHTEST = {0: 1.0, WEEK: 7 / 30, DAY: 1 / 30}
"""Where the sequence of a period is tightest, as a part of the setting: as if that were for a month."""
LEAST_CERTAINTY = 0.95
"""How sure a policy must be of a whole list."""


def began(at: int, length: int) -> int:
    """When the day or the week (UTC, from Monday) of a moment began; 0 for all time.

    >>> began(5 * DAY + 1, DAY) // DAY, began(10 * DAY, WEEK) // DAY, began(11 * DAY, WEEK) // DAY, began(9, 0)
    (5, 4, 11, 0)
    """
    if length == 0:
        return 0
    return at - (at - (_MONDAY if length == WEEK else 0)) % length


def is_held_out(settings: RankerSettings, id: str, user: str | None) -> bool:
    """Whether an impression is: its id decides, or its user, the same whenever that is asked."""
    if settings.holdout == 0:
        return False
    who = user if user is not None and settings.holdout_by == "user" else id
    digest = blake2b(who.encode(), digest_size=8, person=b"holdout").digest()
    return int.from_bytes(digest, "little") / 2**64 < settings.holdout


def compared(settings: RankerSettings, user: str | None) -> tuple[float | None, str | None]:
    """The `share` and the `unit` of an impression that is shown now."""
    if not 0 < settings.holdout < 1:
        return None, None
    return settings.holdout, (user or "") if settings.holdout_by == "user" else None


class ComparisonTally:
    """What the impressions that settle in one transaction add."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Any, ...], list[float]] = {}

    def add(self, impression: ImpressionRow) -> None:
        if impression.share is None:
            return
        clicks = impression.clicks.bit_count()
        earned = clicks if impression.reward is None else impression.reward
        for length in _TIGHTEST:
            key = (
                impression.query,
                length,
                began(impression.at, length),
                impression.share,
                impression.source == HOLDOUT,
                impression.unit is not None,
                impression.unit or "",
            )
            sums = self._sums.setdefault(key, [0, 0, 0])
            sums[0] += 1
            sums[1] += earned
            sums[2] += earned * earned

    def rows(self) -> list[ComparisonRow]:
        return [ComparisonRow(*key, *sums) for key, sums in self._sums.items()]


# --- what is said of it -------------------------------------------------------------------------------------


def holdouts(reader: Reader, settings: RankerSettings, now: int, query: str | None = None) -> dict[str, Any]:
    """What is compared, of one query or of all, as values have it."""
    by_user = settings.holdout_by == "user"
    found = {}
    for name, length in (("holdout", 0), ("holdout_week", WEEK), ("holdout_today", DAY)):
        arms = reader.compared(length, began(now, length), by_user, query)
        found[name] = holdout(arms, by_user, settings.tightest_at * _TIGHTEST[length])
    return found


def holdout(arms: Sequence[ArmSums], by_user: bool, tightest_at: float) -> Holdout | None:
    """Reward per impression with the policy and without, once something can be said of their difference."""
    treated = {arm.share: arm.units for arm in arms if not arm.held_out}
    held_out = {arm.share: arm.units for arm in arms if arm.held_out}
    nobody = Units(0, 0, 0, 0, 0, 0)
    shares = [
        (share, treated.get(share, nobody), held_out.get(share, nobody))
        for share in sorted({*treated, *held_out})
    ]
    low, high = watched_over_shares(shares, tightest_at=tightest_at)
    if math.isinf(high):
        return None
    n = sum(arm.units.n for arm in arms)
    one = _arm([(1 - share, arm) for share, arm, _ in shares], tightest_at / n)
    other = _arm([(share, arm) for share, _, arm in shares], tightest_at / n)
    return Holdout(one, other, Estimate((low + high) / 2, low, high), "user" if by_user else "impression")


def _arm(parts: Sequence[tuple[float, Units]], tightest_at: float) -> Arm:
    """One arm, tightest where the difference is: at `tightest_at` times the units that there are."""
    sums = Units(*map(sum, zip(*(units for _, units in parts), strict=True)))
    low, high = watched_mean_over_shares(parts, tightest_at=tightest_at * sums.n)
    return Arm(
        int(sums.impressions), float(sums.clicks), Estimate((low + high) / 2, low, high), units=int(sums.n)
    )


def certainty(learned: dict[str, Any], best: Sequence[str]) -> float | None:
    """How sure a policy is of its whole list, at least; None if it does not say."""
    if learned.get("settled"):
        return 1.0
    places = {entry["item"]: entry.get("in_place") for entry in learned.get("items", ())}
    found = [places.get(item) for item in best]
    return None if not best or None in found else max(0.0, 1 - sum(1 - place for place in found))  # type: ignore[misc,operator]


def is_early(summary: QuerySummary) -> bool:
    """Whether most of what was learned may be of impressions that have not settled: clicks are learned from sooner than
    purchases, and the best list of clicks need not be the best."""
    return 2 * summary.pending > summary.learned


def freezing(
    summary: QuerySummary, sure: float | None, all_time: Holdout | None, week: Holdout | None
) -> Freezing:
    """Whether a query may be frozen, and why."""
    if summary.frozen:
        return Freezing(False, "It is frozen.")
    against = [one.difference for one in (all_time, week) if one is not None]
    if any(difference.high < 0 for difference in against):
        return Freezing(False, "Its lists do worse than the given order: find out why.")
    if is_early(summary):
        return Freezing(
            False, f"It is too early to say: {summary.pending:,} of its impressions have not settled yet."
        )
    better = any(difference.low > 0 for difference in against)
    told = (
        "its lists do better than the given order"
        if better
        else "its lists are not yet told from the given order"
        if against
        else "there is no comparison with the given order"
    )
    if sure is None:
        why = "Its policy does not say how sure it is of its list"
        return Freezing(better, f"{why}, and {told}." if not better else f"{why}, but {told}.")
    if sure < LEAST_CERTAINTY:
        return Freezing(
            False,
            f"Its policy is {sure:.0%} sure of the whole list, and {LEAST_CERTAINTY:.0%} is needed; {told}.",
        )
    certain = "Its list is final" if sure == 1 else f"Its policy is {sure:.0%} sure of the whole list"
    return Freezing(True, f"{certain}, and {told}.")
