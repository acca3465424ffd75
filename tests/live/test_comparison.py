"""Lists are compared with the given order by day, week and all time, by impression or by user; and when to freeze."""

from collections import Counter, defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

from clickbandit.intervals import Units, watched_difference, watched_over_shares
from clickbandit.live.comparison import certainty, freezing, is_held_out
from clickbandit.live.history import LearnerReport
from clickbandit.live.settings import RankerSettings
from clickbandit.live.stores.rows import SURE, UNDIVIDED, QueryRow
from clickbandit.live.values import Arm, Estimate, Holdout, QuerySummary
from live.conftest import only_sqlite
from live.test_business import settle_order

ITEMS = list("ABCDEF")
DAY = 86_400
MONDAY = 1_699_833_600.0  # the day before the first moment of the tests' clock


def visit(ranker, id, clicks, settle=True, **wishes):
    shown = ranker.rank("shoes", ITEMS, id=id, **wishes)
    for item in shown.items[:clicks]:
        ranker.click(shown.id, item)
    if settle:
        ranker.settle(shown.id)
    return shown.source == "holdout"


def sums(clicks):
    return len(clicks), sum(clicks), sum(n * n for n in clicks)


@only_sqlite
def test_each_day_and_week_has_a_comparison_of_its_own(open_ranker, clock):
    """By when a list was shown, also if it settles on another day, and after the ranker was started again."""
    ranker = open_ranker(holdout=0.4, tightest_at=3000)
    arms = defaultdict(lambda: defaultdict(list))
    clock.now = MONDAY + 6 * DAY
    for n in range(300):
        if n == 100:
            clock.now = MONDAY + 7 * DAY - 1  # the last second of a week
        if n == 150:
            ranker.close()
            ranker = open_ranker(holdout=0.4, tightest_at=3000)
            clock.now += 2  # the first of the next
        late = n % 4 == 0
        clicks = n % 3
        held_out = visit(ranker, f"i{n}", clicks, settle=not late)
        for period in ("all", "this" if n >= 150 else "last"):
            arms[period][held_out].append(clicks)
    clock.now += 1900  # what was left settles now
    stats = ranker.stats()
    for found, period, part in (
        (stats.holdout, "all", 1),
        (stats.holdout_week, "this", 7 / 30),
        (stats.holdout_today, "this", 1 / 30),
    ):
        sides = [sums(arms[period][held_out]) for held_out in (False, True)]
        expected = watched_difference(*sides, tightest_at=3000 * part)
        assert (found.difference.low, found.difference.high) == pytest.approx(expected)
        assert [found.treated.impressions, found.held_out.impressions] == [side[0] for side in sides]
    detail = ranker.query("shoes")
    assert [detail.holdout, detail.holdout_week, detail.holdout_today] == [
        stats.holdout,
        stats.holdout_week,
        stats.holdout_today,
    ]
    clock.now += DAY
    assert ranker.stats().holdout_today is None


@only_sqlite
def test_a_share_that_was_changed_does_not_confound(open_ranker):
    """Few are held out of those who click, and many of those who do not: both sides are of the same users."""
    periods = []
    for share, every in ((0.5, 10), (0.1, 1)):
        ranker = open_ranker(holdout=share)
        arms = {False: [], True: []}
        for n in range(400):
            clicks = int(n % every == 0)
            arms[visit(ranker, f"{share} {n}", clicks + n % 2)].append(clicks + n % 2)
        periods.append((share, sums(arms[False]), sums(arms[True])))
        found = ranker.stats().holdout
        ranker.close()
    expected = watched_over_shares(sorted(periods))
    assert (found.difference.low, found.difference.high) == pytest.approx(expected)
    assert abs(found.difference.mean) < 0.2
    assert found.treated.per_impression.mean - found.held_out.per_impression.mean == pytest.approx(
        found.difference.mean
    )


@only_sqlite
def test_one_person_sees_one_side_and_counts_once(open_ranker):
    ranker = open_ranker(holdout=0.4, holdout_by="user", tightest_at=500)
    arms, seen = {False: Counter(), True: Counter()}, {False: Counter(), True: Counter()}
    for n in range(400):
        user = f"u{n % 97}"
        clicks = n % 97 % 3
        held_out = visit(ranker, f"i{n}", clicks, user=user)
        arms[held_out][user] += clicks
        seen[held_out][user] += 1
    assert not seen[True].keys() & seen[False].keys()
    found = ranker.stats().holdout
    units = [
        Units(
            len(seen[arm]),
            seen[arm].total(),
            arms[arm].total(),
            sum(n * n for n in seen[arm].values()),
            sum(n * arms[arm][user] for user, n in seen[arm].items()),
            sum(n * n for n in arms[arm].values()),
        )
        for arm in (False, True)
    ]
    expected = watched_difference(*units, tightest_at=500)
    assert (found.difference.low, found.difference.high) == pytest.approx(expected)
    assert found.unit == "user"
    assert [found.treated.units, found.held_out.units] == [unit.n for unit in units]
    ranker.forget(next(iter(seen[True])))
    assert ranker.stats().holdout.held_out.units == units[1].n - 1


def test_who_names_no_user_is_held_out_by_the_impression():
    by_user = RankerSettings(holdout=0.5, holdout_by="user")
    by_impression = RankerSettings(holdout=0.5)
    for n in range(20):
        assert is_held_out(by_user, f"i{n}", None) == is_held_out(by_impression, f"i{n}", "me")
        assert is_held_out(by_user, f"i{n}", "me") == is_held_out(by_user, "i0", "me")


# --- may it be frozen? --------------------------------------------------------------------------------------


def against(low, high):
    estimate = Estimate((low + high) / 2, low, high)
    return Holdout(Arm(1, 1, estimate), Arm(1, 1, estimate), estimate)


MORE, SAME, FEWER = against(0.01, 0.02), against(-0.01, 0.02), against(-0.02, -0.01)


@pytest.mark.parametrize(
    ("sure", "all_time", "week", "ready", "why"),
    [
        (1.0, None, None, True, "Its list is final, and there is no comparison"),
        (0.97, SAME, None, True, "97% sure of the whole list, and its lists are not yet told"),
        (0.97, SAME, MORE, True, "do better than the given order"),
        (0.9, MORE, MORE, False, "90% sure of the whole list, and 95% is needed"),
        (1.0, MORE, FEWER, False, "do worse than the given order"),
        (None, SAME, SAME, False, "does not say how sure it is of its list, and its lists are not yet told"),
        (None, MORE, None, True, "does not say how sure it is of its list, but its lists do better"),
    ],
)
def test_a_query_may_be_frozen_when_its_list_is_certain_and_not_worse(sure, all_time, week, ready, why):
    summary = QuerySummary(*[None] * 6, False, *[None] * 4, 10, None, None, 5, *[None] * 4)
    found = freezing(summary, sure, all_time, week)
    assert found.ready is ready
    assert why in found.why
    early = freezing(replace(summary, pending=6), sure, all_time, week)
    assert not early.ready
    assert "6 of its impressions have not settled" in early.why or FEWER in (all_time, week)


def test_how_sure_a_policy_is_of_its_whole_list():
    told = {"items": [{"item": "A", "in_place": 0.99}, {"item": "B", "in_place": 0.98}, {"item": "C"}]}
    assert certainty(told, ["A", "B"]) == pytest.approx(0.97)
    assert certainty(told, ["A", "C"]) is None
    assert certainty({"settled": True}, ["A"]) == 1
    assert certainty({}, []) is None


class Sampling:
    """A learner whose policy has no groups, and says how sure it is of an item."""

    items = ("A",)

    def __init__(self, in_place):
        self.algorithm = SimpleNamespace(divides=False)
        self.generation = self.number = self.ask_at = 0
        self.in_place = in_place
        self.asked = 0

    def divided(self):
        return {}

    def best(self):
        return ["A"]

    def describe(self):
        self.asked += 1
        return {"items": [{"item": "A", "in_place": self.in_place}]}


@pytest.mark.parametrize(("in_place", "progress"), [(0.96, SURE), (0.94, UNDIVIDED)])
def test_a_policy_without_groups_is_asked_now_and_then_how_sure_it_is(in_place, progress):
    """It takes a while to say: when twice as much was learned."""
    learner = Sampling(in_place)
    row = QueryRow(1, "shoes", "cts", 2, 1000, None, 0)
    for learned, asked in ((300, 1), (999, 1), (1000, 2), (1500, 2), (2000, 3)):
        row.learned = learned
        row.progress = LearnerReport(row, learner, 0).progress
        assert row.progress == progress
        assert learner.asked == asked


@only_sqlite
def test_queries_that_may_be_frozen_are_counted(open_ranker):
    ranker = open_ranker(policy="batchrank:variant=experiment", positions=2, horizon=5)
    settle_order(ranker)
    for _ in range(8):  # a change is noticed within some impressions
        ranker.settle(ranker.rank("shoes", list("ABCD")).id)
    detail = ranker.query("shoes")
    assert (detail.freezing.ready, ranker.stats().sure) == (True, 1)
    ranker.freeze("shoes")
    assert ranker.stats().sure == 0
    assert ranker.query("shoes").freezing.why == "It is frozen."
