"""What cascading and ranked bandits count, draw and promise, beside showing the lists of their twins."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clickbandit.compiling.kernel import interpreted
from clickbandit.errors import InputError
from clickbandit.policies import cascading, sampling
from clickbandit.policies.base import parse_policy
from naive.common import kl_upper

CASCADES = [
    "cascade-kl-ucb",
    "cascade-ucb1",
    "cascade-ucb-v",
    "ts-cascade",
    "cts",
    "dcm-kl-ucb",
    "cascade-ducb",
    "cascade-swucb",
    "glrt-cascade-kl-ucb",
]
RANKED = ["ranked-ucb1", "ranked-kl-ucb"]
compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT),
    reason="compilation is off (NUMBA_DISABLE_JIT): so many steps would take too long",
)


class Session:
    """A policy driven by hand, as plain Python; feedback comes late, in any order, or never."""

    def __init__(self, policy: str, n_items: int, n_positions: int, seed: int = 0, horizon: int = 100):
        settings = parse_policy(policy)
        self.n_positions = n_positions
        self.state = settings.start(n_items, n_positions, horizon=horizon)
        self.memo_size = settings.algorithm.memo_size(n_items, n_positions)
        self._rank, self._update = map(interpreted, (settings.algorithm.rank, settings.algorithm.update))
        self.rng = np.random.default_rng(seed)
        self.chance = np.random.default_rng(seed + 1)
        self.waiting: list[Any] = []
        self.step = 0
        self.looks: list[tuple[int, int, int]] = []
        """All that was learned: the step of the list, the item and its click."""

    def rank(self) -> list[int]:
        ranking, memo = np.full(self.n_positions, -1), np.full(self.memo_size, np.nan)
        self._rank(self.state, self.rng, ranking, memo)
        self.step += 1
        self.waiting.append((self.step, ranking, memo))
        shown: list[int] = ranking.tolist()
        return shown

    def learn(self, attraction: float = 0.3) -> None:
        """Learn from the list of some earlier step, down to its first click, or lose it."""
        step, ranking, memo = self.waiting.pop(int(self.chance.random() * len(self.waiting)))
        if self.chance.random() < 0.1:
            return
        clicks = (self.chance.random(self.n_positions) < attraction).astype(np.int64)
        self._update(self.state, ranking, clicks, memo)
        examined = clicks.tolist().index(1) + 1 if clicks.any() else self.n_positions
        self.looks += [(step, int(ranking[k]), int(clicks[k])) for k in range(examined)]

    def play(self, steps: int, patience: float) -> None:
        """Make lists, of which some `patience` wait for their feedback at a time."""
        for _ in range(steps):
            self.rank()
            while len(self.waiting) > self.chance.random() * 2 * patience:
                self.learn()


sizes = st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(n, 8), st.just(n)))
seeds = st.integers(0, 10_000)
patience = st.sampled_from([0, 3, 20])


# --- the highest indices ------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, math.inf]), min_size=1, max_size=12), st.randoms(), seeds
)
def test_the_highest_are_shown_whatever_the_ties(index: list[float], chance: Any, seed: int) -> None:
    order = list(range(len(index)))
    chance.shuffle(order)
    n_positions = chance.randint(1, len(index))
    values, items = np.array(index), np.array(order)
    ranking = np.full(n_positions, -1)
    interpreted(cascading.put_highest)(values, items, np.random.default_rng(seed), ranking)
    assert sorted(items.tolist()) == list(range(len(index)))
    assert [index[item] for item in ranking] == sorted(index, reverse=True)[:n_positions]
    out = np.full(n_positions, np.nan)
    interpreted(cascading.tie_propensity)(values, ranking, 0.0, out)
    assert out.tolist() == [1 / index.count(index[item]) for item in ranking]


@pytest.mark.parametrize(
    ("index", "n_positions", "n_lists"),
    [
        ([0.1, math.inf, 0.5, 0.5, math.inf, 0.5, 0.5], 4, 2 * 12),  # tied in front, and around the cut
        ([0.9, 0.5, 0.1, 0.5], 2, 2),  # tied around the cut alone
        ([0.9, 0.5, 0.5, 0.1], 3, 2),  # tied in front alone
        ([0.3, 0.3, 0.3], 3, 6),
    ],
)
def test_ties_are_broken_uniformly(index: list[float], n_positions: int, n_lists: int) -> None:
    order, rng = np.arange(len(index)), np.random.default_rng(3)
    ranking = np.zeros(n_positions, np.int64)
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(400 * n_lists):  # from the last list's order, as a policy does
        interpreted(cascading.put_highest)(np.array(index), order, rng, ranking)
        seen[tuple(ranking.tolist())] += 1
    assert len(seen) == n_lists
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


@given(st.data())
def test_the_highest_come_first_whatever_the_order_before(data):
    """Also when the rest stands in increasing order, so that each item would go in and out again."""
    n_items = data.draw(st.integers(1, 60))
    n_positions = data.draw(st.integers(1, n_items))
    index = np.array(data.draw(st.lists(st.integers(0, 40), min_size=n_items, max_size=n_items)), float)
    order = np.array(data.draw(st.permutations(range(n_items)) | st.just(np.argsort(index))))
    tied = interpreted(cascading.highest_first)(index, order, n_positions, 0.5)
    assert sorted(order) == list(range(n_items))
    expected = np.sort(index)[::-1]
    assert index[order[:n_positions]].tolist() == expected[:n_positions].tolist()
    if len(set(expected[: n_positions + 1])) < len(expected[: n_positions + 1]):
        assert tied


# --- counts -------------------------------------------------------------------------------------------------


@given(sizes, seeds, patience, st.sampled_from(["cascade-ucb1", "cascade-kl-ucb", "cts", "ts-cascade"]))
def test_counts_are_of_all_that_was_learned(
    size: tuple[int, int], seed: int, patience: float, policy: str
) -> None:
    session = Session(policy, *size, seed)
    session.play(60, patience)
    assert session.state.observed.sum() == len(session.looks)
    assert session.state.clicks.tolist() == [
        sum(click for _, seen, click in session.looks if seen == item) for item in range(size[0])
    ]
    assert (session.state.clicks >= 0).all()
    assert (session.state.clicks <= session.state.observed).all()


@given(sizes, seeds, patience, st.integers(1, 30))
def test_the_window_holds_what_its_lists_taught(
    size: tuple[int, int], seed: int, patience: float, window: int
) -> None:
    """After each step: the counts are those of the last lists that were made, by a recount of all that was learned."""
    session = Session(f"cascade-swucb:window={window}", *size, seed)
    for _ in range(60):
        session.play(1, patience)
        inside = [look for look in session.looks if look[0] > session.step - window]
        for item in range(size[0]):
            looks = [click for _, seen, click in inside if seen == item]
            assert session.state.observed[item] == len(looks)
            assert session.state.clicks[item] == sum(looks)


@given(sizes, seeds, patience, st.sampled_from([0.05, 0.5, 0.97, 1.0]))
def test_discounted_counts_are_sums_of_powers(
    size: tuple[int, int], seed: int, patience: float, discount: float
) -> None:
    """With 0.05 the weights leave their range and start from 1 again, and what is old is forgotten for good."""
    session = Session(f"cascade-ducb:discount={discount}", *size, seed)
    session.play(100, patience)
    state = session.state
    for item in range(size[0]):
        weights = [
            (discount ** (session.step - s), click) for s, seen, click in session.looks if seen == item
        ]
        n, c = sum(weight for weight, _ in weights), sum(weight * click for weight, click in weights)
        assert state.observed[item] / state.weight[0] == pytest.approx(n, rel=1e-9, abs=1e-90)
        assert state.clicks[item] / state.weight[0] == pytest.approx(c, rel=1e-9, abs=1e-90)


def test_what_is_forgotten_never_was() -> None:
    """An item whose feedback was lost for long is as new: its index is infinite, not too large for a float."""
    session = Session("cascade-ducb:discount=0.5", 2, 1)
    session.play(2, 0)
    session.state.observed[:], session.state.clicks[:], session.state.weight[0] = (
        [1e-40, 5e99],
        [1e-40, 0],
        9e99,
    )
    session.rank()
    assert (session.state.observed[0], session.state.clicks[0]) == (0, 0)
    assert session.state.observed[1] == pytest.approx(5e99 / 1.8e100)
    assert session.state.weight[0] == 1
    assert session.rank() == [0]
    assert session.state.value[0] == math.inf


@given(sizes, seeds, patience, st.sampled_from(RANKED))
def test_each_learner_counts_what_it_drew(
    size: tuple[int, int], seed: int, patience: float, policy: str
) -> None:
    n_items, n_positions = size
    session = Session(policy, n_items, n_positions, seed)
    drawn, earned = np.zeros((2, n_positions, n_items), np.int64)
    for _ in range(60):
        session.rank()
        _, ranking, memo = session.waiting[-1]
        assert all(shown == memo[k] or memo[k] in ranking[:k] for k, shown in enumerate(ranking))
        while len(session.waiting) > session.chance.random() * 2 * patience:
            _, ranking, memo = session.waiting.pop(int(session.chance.random() * len(session.waiting)))
            clicks = (session.chance.random(n_positions) < 0.4).astype(np.int64)
            session._update(session.state, ranking, clicks, memo)
            for k, item in enumerate(memo.astype(int)):
                drawn[k, item] += 1
                earned[k, item] += clicks[k] * (ranking[k] == item)
    assert session.state.observed.reshape(drawn.shape).tolist() == drawn.tolist()
    assert session.state.clicks.reshape(earned.shape).tolist() == earned.tolist()


# --- dcmKL-UCB ----------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0.0, 0.2, 0.2, 0.7, 1.0]), min_size=1, max_size=5), st.integers(0, 3), seeds)
def test_the_best_items_stand_where_users_leave_most(termination: list[float], more: int, seed: int) -> None:
    n_items = len(termination) + more
    text = "/".join(map(str, termination))
    session = Session(f"dcm-kl-ucb:termination={text}", n_items, len(termination), seed)
    session.play(n_items, 0)
    for step in range(n_items + 1, n_items + 20):
        budget = max(0.0, math.log(step) + 3 * math.log(math.log(step))) if step > 1 else 0.0
        bound = [
            kl_upper(c / n if n else 0.0, n, budget)
            for c, n in zip(session.state.clicks.tolist(), session.state.observed.tolist(), strict=True)
        ]
        ranking = session.rank()
        session.learn()
        by_leaving = sorted(range(len(termination)), key=lambda k: -termination[k])
        shown = [bound[ranking[k]] for k in by_leaving]
        assert all(upper >= lower - 1e-11 for upper, lower in pairwise(shown))
        assert min(shown) >= sorted(bound)[-len(shown)] - 1e-11


def test_termination_is_checked() -> None:
    for text in ("0.5/x", "0.5/1.5", "-0.1", "0.5//0.5", "nan"):
        with pytest.raises(InputError, match="probabilities from 0 to 1 with / between them"):
            parse_policy(f"dcm-kl-ucb:termination={text}")
    with pytest.raises(InputError, match="a probability for each of the 3 positions, found 2"):
        parse_policy("dcm-kl-ucb:termination=0.5/0.4").start(5, 3, horizon=100)
    with pytest.raises(InputError, match="termination must be a text, not"):
        type(parse_policy("dcm-kl-ucb"))(termination=0.5)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("cascade-ucb-v:exploration=-1", "exploration must be finite and at least 0"),
        ("ranked-ucb1:exploration=nan", "exploration must be finite and at least 0"),
        ("cascade-ducb:discount=1.01", "discount must be above 0 and at most 1"),
        ("cascade-ducb:discount=-0.5", "discount must be above 0 and at most 1"),
        ("glrt-cascade-kl-ucb:exploration=0.6", "exploration must be above 0 and at most a half"),
        ("glrt-cascade-kl-ucb:false_alarm=1", "false_alarm must be above 0 and below 1"),
        ("cascade-swucb:window=-1", "window must be a number of lists"),
        ("cascade-swucb:window=2.5", "window must be a whole number"),
        ("cts:feedback=middle", "feedback must be first or last or full"),
    ],
)
def test_settings_are_checked(policy: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_policy(policy)


def test_a_window_that_does_not_fit_in_memory_is_refused() -> None:
    with pytest.raises(InputError, match="set a smaller window"):
        parse_policy("cascade-swucb").start(10, 5, horizon=10**15)
    state = parse_policy("cascade-swucb").start(10, 5, horizon=10**7)
    assert state.seen.shape == (math.ceil(2 * math.sqrt(10**7 * math.log(10**7))), 5)


# --- draws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [1.0, 1.5, 4.0, 30.0, 1e6])
def test_gamma_draws(shape: float) -> None:
    rng = np.random.default_rng(5)
    draws = [interpreted(sampling.draw_gamma)(rng, shape) for _ in range(20_000)]
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-3


OBSERVED = [0, 1, 1, 12, 400, 90_000, 50]
CLICKS = [0, 0, 1, 3, 40, 45_000, 50]


def drawn_again(policy: str, times: int) -> Any:
    """What a policy draws for each item at step 1000, time after time from the same state."""
    session = Session(policy, len(OBSERVED), 3)
    session.state.observed[:], session.state.clicks[:] = OBSERVED, CLICKS
    draws = []
    for _ in range(times):
        if policy == "ts-cascade":
            session.state.step[0] = 999
        session.rank()
        draws.append(session.state.value.copy())
    return np.array(draws)


def test_cts_draws_from_its_posteriors() -> None:
    draws = drawn_again("cts", 8000)
    for item, (n, c) in enumerate(zip(OBSERVED, CLICKS, strict=True)):
        assert stats.kstest(draws[:, item], stats.beta(1 + c, 1 + n - c).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(draws.T) - np.eye(len(OBSERVED))).max() < 0.06


def test_ts_cascade_shifts_all_items_by_one_normal_variable() -> None:
    draws = drawn_again("ts-cascade", 8000)
    z = []
    for item, (n, c) in enumerate(zip(OBSERVED, CLICKS, strict=True)):
        mean = c / n if n else 0.0
        log_t = math.log(1001)
        deviation = max(math.sqrt(mean * (1 - mean) * log_t / (n + 1)), log_t / (n + 1))
        z.append((draws[:, item] - mean) / deviation)
    assert stats.kstest(z[0], stats.norm.cdf).pvalue > 1e-3
    assert np.array(z[1:]) == pytest.approx(np.array([z[0]] * (len(OBSERVED) - 1)), abs=1e-6)


# --- what they say of themselves ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "radius"),
    [
        ("cascade-ucb1", lambda m, n, log_t: math.sqrt(1.5 * log_t / n)),
        ("cascade-ucb-v", lambda m, n, log_t: math.sqrt(4 * m * (1 - m) * log_t / n) + 6 * log_t / n),
        ("cascade-swucb:window=100000", lambda m, n, log_t: math.sqrt(0.5 * log_t / n)),
        ("cascade-ducb:discount=1", lambda m, n, log_t: 2 * math.sqrt(0.5 * math.log(4300) / n)),
    ],
)
def test_intervals_are_those_of_the_next_list(policy: str, radius: Any) -> None:
    settings = parse_policy(policy)
    state = settings.start(3, 2, horizon=10_000)
    state.observed[:], state.clicks[:] = [300, 4000, 0], [90, 200, 0]
    state.step[0] = 4999
    found = settings.live.describe(state)["items"]
    for item, (m, n) in enumerate(((0.3, 300), (0.05, 4000))):
        wide = radius(m, n, math.log(5000))
        assert found[item]["estimate"] == pytest.approx(m)
        assert found[item]["high"] == pytest.approx(m + wide)
        assert found[item]["low"] == pytest.approx(max(0.0, m - wide))
    assert found[2] == {"item": 2, "observed": 0, "clicks": 0, "low": 0.0, "high": 1.0}
    # the index that the next list goes by is the upper bound
    ranking, memo = np.zeros(2, np.int64), np.zeros(settings.algorithm.memo_size(3, 2))
    interpreted(settings.algorithm.rank)(state, np.random.default_rng(1), ranking, memo)
    assert state.value[:2].tolist() == pytest.approx([found[0]["high"], found[1]["high"]])
    assert state.value[2] == math.inf


def test_kl_intervals_and_means_of_posteriors() -> None:
    for policy in ("cascade-kl-ucb", "dcm-kl-ucb"):
        settings = parse_policy(policy)
        state = settings.start(2, 1, horizon=10_000)
        assert settings.live.describe(state)["items"][0] == {
            "item": 0, "observed": 0, "clicks": 0, "low": 0.0, "high": 1.0,
        }  # fmt: skip
        state.observed[:], state.clicks[:], state.step[0] = [300, 0], [90, 0], 4999
        (known, _) = settings.live.describe(state)["items"]
        budget = math.log(5000) + 3 * math.log(math.log(5000))
        assert known["high"] == pytest.approx(kl_upper(0.3, 300, budget))
        assert known["low"] == pytest.approx(1 - kl_upper(0.7, 300, budget))
    state = parse_policy("cts").start(2, 1, horizon=100)
    state.observed[:], state.clicks[:] = [8, 0], [4, 0]
    described = parse_policy("cts").live.describe(state)["items"]
    assert [known["estimate"] for known in described] == [0.5, 0.5]


def test_a_learners_favourites_are_not_shown_twice() -> None:
    """All learners like item 2 most; the second then takes the next best of its own."""
    for policy, shape in (("ranked-ucb1", (3, 4)), ("ranked-kl-ucb", (12,))):
        settings = parse_policy(policy)
        state = settings.start(4, 3, horizon=100)
        state.observed[:] = 10
        state.clicks[:] = np.array([[1, 2, 9, 3], [5, 1, 9, 2], [8, 1, 9, 7]]).reshape(shape)
        ranking = np.zeros(3, np.int64)
        settings.algorithm.best(state, ranking)
        assert ranking.tolist() == [2, 0, 3]
        described = settings.live.describe(state)["items"]
        assert [(known["observed"], known["clicks"]) for known in described] == [
            (30, 14), (30, 4), (30, 27), (30, 12),
        ]  # fmt: skip
