"""Propensities by draws: equal to their plain twin, right where they can be computed, and without a trace."""

import math
from collections import Counter

import numpy as np
import pytest

from clickbandit import PositionBasedModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.policies.click_ts import ClickTS
from clickbandit.policies.click_ts.algorithm import MAX_KEPT, best, rank, update
from clickbandit.policies.click_ts.describe import describe
from clickbandit.policies.propensities import by_draws, copy_of, of_groups
from naive import propensities as naive
from naive.click_ts import ClickTS as Twin

DRAWS = 3000
NO_TEST = np.zeros(2)
"""The memo of a list that tests nothing."""


def learned(attraction, positions, steps):
    """A state of ClickTS, without its guard's tests, and its twin after some users of a position-based model."""
    model = PositionBasedModel(attraction=attraction, examination=[0.8**k for k in range(positions)])
    state, twin = (
        ClickTS(guard=False).start(len(attraction), positions, horizon=steps),
        Twin(len(attraction), positions, horizon=steps, guard=False),
    )
    rng, twin_rng, users = (np.random.default_rng(seed) for seed in (1, 1, 2))
    ranking = np.zeros(positions, np.int64)
    for _ in range(steps):
        interpreted(rank)(state, rng, ranking, NO_TEST)
        assert twin.rank(twin_rng) == ranking.tolist()
        clicks = model.click(ranking.tolist(), users)
        interpreted(update)(state, ranking, clicks, NO_TEST)
        twin.update(ranking.tolist(), clicks.tolist())
    return state, twin


def estimate(state, ranking, draws=DRAWS, seed=7):
    rng = np.random.default_rng(seed)
    return by_draws(interpreted(rank), state, np.array(ranking), NO_TEST, rng, draws)


@pytest.mark.parametrize("steps", [0, 40, 150])
def test_the_twin(steps):
    state, twin = learned([0.5, 0.45, 0.3, 0.2], 2, steps)
    found = estimate(state, [1, 0], draws=60)
    assert found.chance.tolist() == naive.by_draws(twin, [1, 0], np.random.default_rng(7), 60)


def test_nothing_changes():
    state, _ = learned([0.5, 0.4, 0.3], 2, 30)
    before = copy_of(state)
    estimate(state, [0, 1], draws=20)
    assert all(np.array_equal(a, b) for a, b in zip(before, state, strict=True))


def chance_of_more(a, b, c, d):
    """How probably Beta(a, b) is above Beta(c, d), for whole numbers: the binomial sum over the former's successes."""

    def log_beta(x, y):
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    terms = (log_beta(c + i, b + d) - math.log(b + i) - log_beta(1 + i, b) - log_beta(c, d) for i in range(a))
    return sum(map(math.exp, terms))


def test_two_items_at_one_position_exactly():
    """Then there is nothing but two Betas, whose order has a closed form."""
    state, _ = learned([0.5, 0.4], 1, 25)
    clicks, shown = state.clicks.astype(int), state.shown[:, 0].astype(int)
    first = chance_of_more(1 + clicks[0], 1 + shown[0] - clicks[0], 1 + clicks[1], 1 + shown[1] - clicks[1])
    assert 0.05 < first < 0.95
    for item, exact in ((0, first), (1, 1 - first)):
        (chance,), (error,), *_ = estimate(state, [item])
        assert error == pytest.approx(math.sqrt(exact * (1 - exact) / DRAWS), rel=0.1)
        assert abs(chance - exact) < 4 * error


def test_what_is_told_of_places():
    """How probably an item belongs where it stands is how probably it would stand there."""
    state, _ = learned([0.5, 0.4], 1, 25)
    clicks, shown = state.clicks.astype(int), state.shown[:, 0].astype(int)
    first = chance_of_more(1 + clicks[0], 1 + shown[0] - clicks[0], 1 + clicks[1], 1 + shown[1] - clicks[1])
    told = describe(state)["items"]
    spread = math.sqrt(first * (1 - first) / 400)
    assert told[0]["in_list"] == pytest.approx(first, abs=4 * spread)
    assert told[1]["in_list"] == pytest.approx(1 - told[0]["in_list"])
    ranking = np.zeros(1, np.int64)
    best(state, ranking)
    assert [entry.get("in_place") for entry in told] == [
        entry["in_list"] if item == ranking[0] else None for item, entry in enumerate(told)
    ]
    for_clicks = describe(ClickTS(goal="clicks").start(3, 2, horizon=1))
    assert all("in_list" not in entry for entry in for_clicks["items"])


def test_three_items_under_a_law_that_is_kept():
    """Then the attractions are independent Betas: how they are ordered, by numerical integration."""
    state, _ = learned([0.5, 0.45, 0.4], 2, 300)
    steps = 300
    while state.learned[0] >= state.next_fit[0] or state.since_draw[0] >= min(
        MAX_KEPT, 1 + state.learned[0] // 64
    ):
        steps += 1
        state, _ = learned([0.5, 0.45, 0.4], 2, steps)
    at = np.linspace(0, 1, 20_001)[1:-1]
    a, b = 1 + state.clicks, 1 + np.maximum(0, state.exposure - state.clicks)
    density = np.exp((a - 1)[:, None] * np.log(at) + (b - 1)[:, None] * np.log1p(-at) - 500)
    density /= density.sum(axis=1, keepdims=True)
    below = np.cumsum(density, axis=1) - density / 2
    for item in range(3):
        one, other = (below[j] for j in range(3) if j != item)
        first = float((density[item] * one * other).sum())
        second = float((density[item] * (one * (1 - other) + other * (1 - one))).sum())
        found = estimate(state, [item, item])
        assert (abs(found.chance - [first, second]) < 4 * found.error).all()


def test_the_inverse_is_right_on_average():
    """What off-policy estimates weigh by: here of a chance of one in five, from nine draws."""
    rng = np.random.default_rng(3)

    def show(state, rng, ranking, memo):
        ranking[0] = int(rng.random() * 5)

    inverses = [1 / by_draws(show, (), np.zeros(1, np.int64), NO_TEST, rng, 9).chance[0] for _ in range(4000)]
    expected = (1 - 0.8**10) / 0.2
    assert np.mean(inverses) == pytest.approx(expected, abs=4 * np.std(inverses) / math.sqrt(4000))


def test_all_draws_alike():
    """Are no proof that the chance is 1."""
    state, _ = learned([0.9], 1, 5)
    chance, error, *_ = estimate(state, [0], draws=50)
    assert chance.tolist() == [1.0]
    assert 0.01 < error[0] < 0.03


STATED = [
    name for name in policy_names() if not parse_policy(name).needs and parse_policy(name).live.propensity
]


@pytest.mark.parametrize("name", [*STATED, "batchrank:variant=experiment"])
def test_how_probable_a_whole_list_is(name):
    """Of policies that state it: as often as the list is drawn, from states with and without ties."""
    policy = parse_policy(name)
    rank, update = interpreted(policy.algorithm.rank), interpreted(policy.algorithm.update)
    state = policy.start(4, 3, horizon=100)
    rng = np.random.default_rng(1)
    memo, ranking = np.zeros(policy.algorithm.memo_size(4, 3)), np.zeros(3, np.int64)
    chances, drawn = np.zeros(3), 400
    for step in range(12):
        if step in (0, 5, 10):
            found = Counter()
            for _ in range(drawn):
                trial = copy_of(state)
                rank(trial, rng, ranking, memo)
                interpreted(policy.live.propensity)(trial, ranking, memo, chances)
                stated = policy.live.prefix
                prefix = of_groups(chances) if stated is None else np.zeros(len(ranking))
                if stated is not None:
                    interpreted(stated)(trial, ranking, memo, prefix)
                found[tuple(ranking.tolist()), tuple(prefix.round(9).tolist())] += 1
            assert len(found) == len({shown for shown, _ in found}), "a list has one probability"
            for (_, prefix), n in found.items():
                assert (
                    abs(n / drawn - prefix[-1])
                    < 4.5 * math.sqrt(prefix[-1] * (1 - prefix[-1]) / drawn) + 1e-9
                )
        rank(state, rng, ranking, memo)
        update(state, ranking, (rng.random(3) < 0.4).astype(np.int64), memo)
