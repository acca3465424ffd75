"""Comparisons may be watched: they seldom mislead whoever looks often, find what is there, and survive other shares."""

import math

import numpy as np
import pytest
from benchmarks import watched as watching
from benchmarks.watched import (
    IMPRESSIONS,
    LAWS,
    by_users,
    changing,
    first_told,
    fixed,
    improved,
    unchanged,
    watched,
)

from clickbandit import InputError
from clickbandit.intervals import (
    TIGHTEST_AT,
    Units,
    watched_difference,
    watched_mean,
    watched_means,
    watched_over_shares,
)


def by_hand(one, other, level=0.95, tightest_at=TIGHTEST_AT):
    """From the values themselves, as the paper writes it."""
    alpha, t = 1 - level, len(one) + len(other)
    rho2 = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / tightest_at
    error = math.sqrt(np.var(one, ddof=1) / len(one) + np.var(other, ddof=1) / len(other))
    factor = math.sqrt(2 * (t * rho2 + 1) / (t * rho2) * math.log(math.sqrt(t * rho2 + 1) / alpha))
    difference = np.mean(one) - np.mean(other)
    return difference - factor * error, difference + factor * error


def sums(values):
    return len(values), float(np.sum(values)), float(np.sum(np.square(values)))


@pytest.mark.parametrize("settings", [{}, {"level": 0.9}, {"tightest_at": 500}])
def test_the_formula(settings):
    rng = np.random.default_rng(1)
    one, other = rng.binomial(3, 0.3, 900), rng.binomial(3, 0.2, 100)
    found = watched_difference(sums(one), sums(other), **settings)
    assert found == pytest.approx(by_hand(one, other, **settings))
    swapped = watched_difference(sums(other), sums(one), **settings)
    assert swapped == pytest.approx((-found[1], -found[0]))


def test_users_are_the_units_where_arms_are_theirs():
    """The error of a ratio of sums over users (the delta method), and one impression each is as without users."""
    rng = np.random.default_rng(2)
    seen = rng.integers(1, 9, 300)
    clicked = rng.binomial(seen, rng.beta(1, 3, 300))
    one, other = slice(0, 200), slice(200, 300)
    units = [
        Units(len(n), n.sum(), c.sum(), n @ n, n @ c, c @ c)
        for n, c in ((seen[k], clicked[k]) for k in (one, other))
    ]
    low, high = watched_difference(*units, tightest_at=300)
    means = [clicked[k].sum() / seen[k].sum() for k in (one, other)]
    errors = [
        np.var(clicked[k] - mean * seen[k], ddof=1) / len(seen[k]) / seen[k].mean() ** 2
        for k, mean in zip((one, other), means, strict=True)
    ]
    assert (low + high) / 2 == pytest.approx(means[0] - means[1])
    rho2 = -2 * math.log(0.05) + math.log(1 - 2 * math.log(0.05))
    factor = math.sqrt(2 * (rho2 + 1) / rho2 * math.log(math.sqrt(rho2 + 1) / 0.05))
    assert (high - low) / 2 == pytest.approx(factor * math.sqrt(sum(errors)))
    clicks = rng.binomial(3, 0.3, 900)
    n, total, squares = sums(clicks)
    assert watched_mean(Units(n, n, total, n, total, squares)) == watched_mean((n, total, squares))


def test_comparing_users_seldom_misleads_where_comparing_their_impressions_would(monkeypatch):
    monkeypatch.setattr(watching, "VISITS", {"all as often": np.ones(500)})
    (row,) = by_users(20, np.random.default_rng(3))
    assert row["false alarms"] <= 0.1
    assert row["by impression"] > row["false alarms"]


def test_it_is_tightest_where_it_is_asked_to_be():
    """In standard errors, at a half, the whole and twice the number."""
    widths = [
        watched_difference((n, n / 2, n / 2), (n, n / 2, n / 2), tightest_at=20_000)[1] * math.sqrt(n)
        for n in (5_000, 10_000, 20_000)
    ]
    assert min(widths) == widths[1]
    assert widths[0] > 1.001 * widths[1]


def test_nothing_is_said_before_both_arms_have_20_clicks_that_vary():
    plenty, nothing = (1000, 300, 300), (-math.inf, math.inf)
    for arm, is_enough in (
        ((100, 19, 19), False),
        ((100, 20, 20), True),
        ((100, 88, 88), True),  # the squares of deviations: 12 * 0.88
        ((100, 89, 89), False),
        ((100, 95, 475), False),  # 19 lists with five clicks each
        ((100, 100, 500), True),
        ((120, 180, 300), True),  # one click and two in turns: 30 over the square of 300 / 180
        ((60, 90, 150), False),
        ((0, 0, 0), False),
        ((1, 1, 1), False),
        ((50, 50, 50), False),
    ):
        for found in (watched_difference(arm, plenty), watched_difference(plenty, arm), watched_mean(arm)):
            assert (found != nothing) is is_enough, arm


@pytest.mark.parametrize("unit", [0.01, 10])
def test_rewards_may_be_in_any_unit(unit):
    """When it begins to speak too: by impression, by user and over shares."""
    for n, clicks in ((100, 20), (100, 88), (100, 89), (2000, 300)):
        one, other = (n, clicks, clicks), (1000, 300, 300)
        in_units = [(k, unit * total, unit**2 * squares) for k, total, squares in (one, other)]
        found = watched_difference(*in_units)
        assert found == pytest.approx([unit * end for end in watched_difference(one, other)])
        periods = [(0.5, one, other), (0.2, other, one)]
        scaled = [(0.5, *in_units), (0.2, *reversed(in_units))]
        assert watched_over_shares(scaled) == pytest.approx(
            [unit * end for end in watched_over_shares(periods)]
        )
    seen = np.arange(1, 101) % 5 + 1
    for clicked in (seen, np.maximum(seen - 1, 0), seen // 2):
        users = Units(100, seen.sum(), clicked.sum(), seen @ seen, seen @ clicked, clicked @ clicked)
        in_units = Units(
            100,
            seen.sum(),
            unit * clicked.sum(),
            seen @ seen,
            unit * (seen @ clicked),
            unit**2 * (clicked @ clicked),
        )
        assert watched_mean(in_units) == pytest.approx([unit * end for end in watched_mean(users)])


def test_one_arm_alone():
    rng = np.random.default_rng(2)
    one = rng.binomial(1, 0.3, 500)
    low, high = watched_mean(sums(one), tightest_at=800)
    assert (low + high) / 2 == pytest.approx(one.mean())
    never = by_hand(one, np.tile([0.0], 2), tightest_at=800 * 502 / 500)  # two more values without error
    assert (high - low) / 2 == pytest.approx(never[1] - one.mean())


@pytest.mark.parametrize("settings", [{"level": 1}, {"level": 0}, {"tightest_at": 0}])
def test_settings_that_mean_nothing(settings):
    with pytest.raises(InputError, match="needs a level between 0 and 1 and"):
        watched_difference((100, 50, 50), (100, 50, 50), **settings)


# --- how often it is right ----------------------------------------------------------------------------------


def told(looks, services, interval=watched, tightest_at=IMPRESSIONS):
    rng = np.random.default_rng(3)
    return np.mean([first_told(looks, tightest_at, rng, interval) is not None for _ in range(services)])


@pytest.mark.parametrize("users", ["five positions by themselves", "at most one click, 97% of lists"])
def test_whoever_looks_often_is_seldom_misled(users):
    looks = unchanged(LAWS[users], 0.05)
    assert told(looks, 150) <= 0.05
    assert told(looks, 40, fixed) > 0.2


def test_a_difference_is_found_within_twice_the_impressions_of_a_fixed_test():
    looks, size = improved(LAWS["five positions by themselves"], 0.5)
    assert told(looks, 100, tightest_at=size) > 0.8
    assert told(looks[:10], 100, tightest_at=size) < 0.3


# --- shares that are changed --------------------------------------------------------------------------------


def test_other_users_at_another_share_do_not_confound():
    looks = changing()
    assert told(looks, 120) <= 0.05
    assert told(looks, 5, lambda periods, tightest_at: watched_difference(*added(periods))) == 1


def added(periods):
    """Both arms as if the share had not changed."""
    return [tuple(np.sum([period[arm] for period in periods], axis=0)) for arm in (1, 2)]


def test_impressions_weigh_one_over_the_share_of_their_arm():
    """Against sums over single impressions."""
    rng = np.random.default_rng(4)
    share = np.repeat([0.5, 0.1], [200, 800])
    held_out = rng.random(1000) < share
    clicks = rng.binomial(1, np.repeat([0.8, 0.3], [200, 800]))
    periods = [
        (s, *(sums(clicks[(share == s) & (held_out == arm)]) for arm in (False, True))) for s in (0.5, 0.1)
    ]
    means, error = [], 0.0
    for mine, chance in ((~held_out, 1 - share), (held_out, share)):
        weight = 1 / chance[mine]
        mean = np.average(clicks[mine], weights=weight)
        error += (
            np.sum((weight * (clicks[mine] - mean)) ** 2) / weight.sum() ** 2 * mine.sum() / (mine.sum() - 1)
        )
        means.append(mean)
    low, high = watched_over_shares(periods)
    assert (low + high) / 2 == pytest.approx(means[0] - means[1])
    unweighed = by_hand(np.arange(500) % 2, np.arange(500) % 2)  # the same factor, for as many impressions
    assert (high - low) / (unweighed[1] - unweighed[0]) == pytest.approx(math.sqrt(error / (4 * 0.25 / 998)))


def test_a_few_heavy_impressions_are_no_evidence():
    """Ten clicks at a share of one in a thousand outweigh the thousands at one half."""
    plain = (0.5, (5000, 1500, 1500), (5000, 1500, 1500))
    assert math.isfinite(watched_over_shares([plain])[0])
    assert watched_over_shares([plain, (0.001, (29_970, 9000, 9000), (30, 10, 10))]) == (-math.inf, math.inf)


def test_nothing_is_said_just_after_a_change():
    """Few impressions of the new share weigh much, and whether they are there yet is chance."""
    plain, nothing = (0.5, (5000, 500, 500), (5000, 500, 500)), (-math.inf, math.inf)
    assert watched_over_shares([plain, (0.05, (1900, 500, 500), (19, 5, 5))]) == nothing
    assert math.isfinite(watched_over_shares([plain, (0.05, (1900, 500, 500), (100, 28, 28))])[0])
    assert math.isfinite(watched_over_shares([plain, (0.05, (90, 25, 25), (4, 1, 1))])[0])


def test_a_share_of_nothing_compares_nothing():
    with pytest.raises(InputError, match=r"must be above 0 and below 1, found 0\.0: leave it out"):
        watched_over_shares([(0.0, (5, 1, 1), (0, 0, 0))])


def shown_while_lucky(rng, n=2000):
    """Two columns of clicks; after the first hundred, each counts only until its mean is far from the truth by luck."""
    values, counted = (rng.random((n, 2)) < 0.3).astype(float), np.ones((n, 2), bool)
    sizes = np.arange(1, n + 1)
    for k in (0, 1):
        off = (values[:, k].cumsum() - 0.3 * sizes) / np.sqrt(0.21 * sizes)
        stop = np.flatnonzero((off > 1.6) & (sizes >= 100))
        counted[stop[0] + 1 if len(stop) else n :, k] = False
    return values, counted


def test_means_of_what_is_shown_while_it_seems_good():
    """Whoever stops when the mean is far off is misled by an ordinary interval, and not by this one."""
    rng, times = np.random.default_rng(1), 300
    covered = np.zeros((times, 2), bool)
    for time in range(times):
        values, counted = shown_while_lucky(rng)
        found = watched_means(values, counted)
        error = math.sqrt(sum(np.var(values[counted[:, k], k]) / counted[:, k].sum() for k in (0, 1)))
        covered[time] = found.low <= 0.6 <= found.high, abs(found.mean - 0.6) <= 1.96 * error
    assert covered[:, 0].mean() > 0.95
    assert covered[:, 1].mean() < 0.9


def test_a_single_column_has_the_factor_of_a_watched_mean():
    values = (np.random.default_rng(2).random((800, 1)) < 0.4).astype(float)
    found = watched_means(values, np.ones_like(values, bool))
    low, high = watched_mean(sums(values), tightest_at=1000)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-3)
    assert watched_means(values, np.zeros_like(values, bool))[1:] == (-math.inf, math.inf)
    assert watched_means(np.zeros((100, 1)), np.ones((100, 1), bool)).high > 0.03
