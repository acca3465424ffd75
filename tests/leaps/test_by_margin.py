"""Leaps of policies that go by indices are exact: no order of a leap's outcomes could have changed the list, and runs
have the same distribution as all ways to take the steps one by one.

Each test of distributions has a fixed seed and a level of 1e-4, as in `test_leaps`.
"""

import copy
import math
from collections import Counter, defaultdict

import numba
import numpy as np
import pytest
from scipy import stats

from clickbandit import CascadeModel, PositionBasedModel, Prior, Problem, Run
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.leaps.buffers import MAX_BITS
from clickbandit.simulation.run import MIN_STEPS_TO_LEAP_BY_MARGIN
from leaps.again import again
from naive.recorded import Recorded
from naive.twins import TWINS

LEVEL = 1e-4
ATTRACTION = [0.6, 0.35, 0.45, 0.1]
USERS = {
    "CM": CascadeModel(ATTRACTION),
    "PBM": PositionBasedModel(ATTRACTION, examination=[0.9, 0.7]),
    "DBN": DynamicBayesianModel(ATTRACTION, satisfaction=[0.2, 0.7, 0.5, 0.4], continuation=0.8),
}
CASES = [
    *(("cascade-kl-ucb:feedback=" + feedback, "PBM") for feedback in ("first", "last", "full")),
    ("cascade-kl-ucb:budget=log t", "CM"),
    ("cascade-ucb1:feedback=full", "CM"),
    ("cascade-ucb-v", "PBM"),
    ("dcm-kl-ucb:termination=0.3/0.6", "DBN"),
    ("pbm-ucb", "PBM"),
]
compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT),
    reason="compilation is off (NUMBA_DISABLE_JIT): so many runs would take too long",
)


# --- no order of the outcomes changes the list --------------------------------------------------------------


class Watched:
    """A run by leaps as plain Python, whose leaps are played again in bad orders by the twin, which has every index."""

    def __init__(self, policy, model, monkeypatch, *, boldness=0.9, shrunk=0.0):
        self.problem = Problem(policy, USERS[model], positions=2, horizon=10**6, method="leap")
        self.run = Run(self.problem, seed=1)
        self.run.loop = self.problem.make_loop(compiled=False)
        self.leaps, self.leapt, self.urns = 0, 0, 0
        inside = self.run.loop.go_on.__globals__
        stays, self.absorb = inside["stays"], inside["absorb"]
        span = stays.__globals__["span"]

        def watched(state, length, scratch):
            if not stays(state, length, scratch):
                self.urns += 1
                return False
            self.replay(state, scratch)
            self.leaps += 1
            self.leapt += length
            return True

        def too_narrow(state, place, looks, clicks, budget, later):
            low, high = span(state, place, looks, clicks, budget, later)
            lowest, highest = span(state, place, 0.0, 0.0, budget, budget)
            return low + shrunk * (lowest - low), high - shrunk * (high - highest)

        monkeypatch.setitem(inside, "stays", watched)
        monkeypatch.setitem(inside["choose_length"].__globals__, "BOLDNESS", boldness)
        if shrunk:
            monkeypatch.setitem(stays.__globals__, "span", too_narrow)

    def replay(self, state, scratch):
        """Play the outcomes of a leap in orders that are bad for an item: its clicks last, and its clicks first."""
        n = scratch.n_outcomes[0]
        positions = range(len(scratch.shown))
        outcomes = [
            [pattern >> k & 1 for k in positions]
            for pattern, times in zip(scratch.outcomes[:n].tolist(), scratch.counts[:n].tolist(), strict=True)
            for _ in range(times)
        ]
        for k in positions:
            for sign in (1, -1):
                self.play(state, scratch, sorted(outcomes, key=lambda clicks: sign * clicks[k]))

    def play(self, state, scratch, outcomes):
        twin = self.twin(state)
        shown = scratch.shown.tolist()
        for clicks in outcomes:
            assert twin.rank(None) == shown, "the list changed on the way"
            twin.update(shown, clicks)
        after = copy.deepcopy(state)
        self.absorb(after, scratch.shown, scratch.observed, scratch.clicked, len(outcomes))
        assert after.step[0] == twin.t
        assert counts(after) == counts_of_twin(twin)

    def twin(self, state):
        policy = self.problem.policy
        names = ("feedback", "budget", "termination")
        settings = {name: getattr(policy, name) for name in names if hasattr(policy, name)}
        twin = TWINS[policy.name](4, 2, horizon=10**6, **settings, **self.problem.knowledge(range(4)))
        twin.t = int(state.step[0])
        observed, clicks = counts(state)
        for key in [(i, k) for i in range(4) for k in range(2)] if policy.name == "pbm-ucb" else range(4):
            seen = twin.displays if policy.name == "pbm-ucb" else twin.observed
            seen[key], twin.clicks[key] = observed.pop(0), clicks.pop(0)
        return twin


def counts(state):
    observed = state.displays if hasattr(state, "displays") else state.observed
    return observed.ravel().tolist(), state.clicks.ravel().tolist()


def counts_of_twin(twin):
    observed = twin.displays if hasattr(twin, "displays") else twin.observed
    return [observed[key] for key in sorted(observed)], [twin.clicks[key] for key in sorted(observed)]


@pytest.mark.parametrize(("policy", "model"), CASES)
def test_no_order_of_the_outcomes_of_a_leap_changes_the_list(policy, model, monkeypatch):
    watched = Watched(policy, model, monkeypatch)
    steps = 3000 if policy == "cascade-ucb-v" else 600  # it takes long to settle
    watched.run.advance_windows(np.array([7, 200, steps]))
    assert watched.run.state.step[0] == steps
    assert watched.leaps > 4
    assert watched.leapt > 20
    assert watched.urns > 0


@pytest.mark.parametrize(("policy", "model"), [CASES[0], CASES[3]])
def test_margins_that_are_a_tenth_too_wide_are_found_out(policy, model, monkeypatch):
    watched = Watched(policy, model, monkeypatch, boldness=1.2, shrunk=0.1)
    with pytest.raises(AssertionError, match="the list changed on the way"):
        watched.run.advance(20_000)


# --- the distribution of runs -------------------------------------------------------------------------------


def runs_of(run, ends, runs):
    """What many runs have counted, clicked and lost at the end of each window, all on the arrays of one run."""
    found = []
    for _ in again(run, runs):
        rows = []
        for end in ends:
            regret, clicks = run.advance(end - run.step)
            observed, clicked = counts(run.state)
            rows.append((*observed, *clicked, clicks, round(regret, 6)))
        found.append(rows)
    return found


def run_of(policy, model, method, prior=None):
    users = Recorded(USERS[model])
    return Run(Problem(policy, users, positions=2, horizon=10**6, method=method, prior=prior), seed=1)


def law_of_steps(run, steps):
    """The exact law of what is counted, by all outcomes of all steps, where no two items ever have the same counts."""
    users, policy, start = run.periods[0].model.users, run.problem.policy, run.state
    observed, clicked = counts(start)
    law = {(*observed, *clicked): 1.0}
    for step in range(steps):
        following = defaultdict(float)
        for key, probability in law.items():
            twin = TWINS[policy.name](4, 2, horizon=10**6, feedback=policy.feedback)
            for clicks in [(0, 0), (0, 1), (1, 0), (1, 1)]:
                twin.t = int(start.step[0]) + step
                twin.observed, twin.clicks = dict(enumerate(key[:4])), dict(enumerate(key[4:]))
                ranking = twin.rank(None)  # a tie would need a draw
                twin.update(ranking, clicks)
                chance = math.exp(users.log_likelihood(ranking, clicks))
                following[*twin.observed.values(), *twin.clicks.values()] += probability * chance
        law = following
    return law


def assert_law(found, law):
    """Chi-square of what was found against a law."""
    assert sum(law.values()) == pytest.approx(1)
    assert not set(found) - {key for key, p in law.items() if p > 0}
    runs = sum(found.values())
    common = [key for key, p in law.items() if runs * p >= 5]
    assert len(common) > 10
    table = np.array([[found[key], runs * law[key]] for key in common])
    rest = runs - table.sum(axis=0)
    assert stats.chisquare(*np.vstack([table, rest]).T).pvalue > LEVEL


PRIOR = Prior(attraction=[0.5, 0.42, 0.36, 0.2], strength=[60, 40, 95, 130])
"""Counts so far apart that no two items come to have the same, and indices that may soon change places."""


@compiled_only
@pytest.mark.parametrize(
    ("feedback", "model"), [("first", "CM"), ("first", "PBM"), ("last", "PBM"), ("full", "PBM")]
)
def test_leaps_have_the_law_of_all_ways_to_take_the_steps(feedback, model):
    run = run_of(f"cascade-kl-ucb:feedback={feedback}", model, "leap", PRIOR)
    law = law_of_steps(run, 8)
    assert_law(Counter(rows[0][:8] for rows in runs_of(run, [8], 5000)), law)


def test_an_urn_has_the_law_of_all_ways_to_take_the_steps(monkeypatch):
    """No leap is taken for sure to be quiet, so all outcomes are played one by one until the list changes."""
    run = run_of("cascade-kl-ucb:feedback=last", "PBM", "leap", PRIOR)
    run.loop = run.problem.make_loop(compiled=False)
    inside = run.loop.go_on.__globals__
    choose_length = inside["choose_length"]
    monkeypatch.setitem(inside, "stays", lambda state, length, scratch: False)
    monkeypatch.setitem(inside, "choose_length", lambda *arguments: max(5, choose_length(*arguments)))
    law = law_of_steps(run, 6)
    assert_law(Counter(rows[0][:8] for rows in runs_of(run, [6], 1500)), law)


@compiled_only
@pytest.mark.parametrize(
    ("policy", "model"),
    [
        ("cascade-kl-ucb", "CM"),
        *((f"cascade-kl-ucb:feedback={feedback}", "PBM") for feedback in ("first", "full")),
        *(pytest.param(policy, "CM", marks=pytest.mark.long) for policy in ("cascade-ucb1", "cascade-ucb-v")),
        *(pytest.param(policy, "PBM", marks=pytest.mark.long) for policy in ("dcm-kl-ucb", "pbm-ucb")),
    ],
)
def test_leaps_have_the_distribution_of_steps(policy, model):
    """At several times: what was counted of each item, the clicks and the regret."""
    ends = [50, 250, 800]
    steps, leaps = (
        np.array(runs_of(run_of(policy, model, method), ends, 1000)) for method in ("step", "leap")
    )
    assert steps.shape == leaps.shape
    for time in range(len(ends)):
        for column in range(steps.shape[2]):
            a, b = steps[:, time, column], leaps[:, time, column]
            if a.min() != a.max() or b.min() != b.max():
                assert stats.ks_2samp(a, b, method="asymp").pvalue > LEVEL, (ends[time], column)


# --- when leaps are taken -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [policy for policy, _ in CASES])
def test_a_long_run_leaps_and_a_short_one_does_not(policy):
    long, short = MIN_STEPS_TO_LEAP_BY_MARGIN, MIN_STEPS_TO_LEAP_BY_MARGIN - 1
    assert Problem(policy, USERS["PBM"], positions=2, horizon=long).leaps
    assert not Problem(policy, USERS["PBM"], positions=2, horizon=short).leaps
    assert not Problem(policy, USERS["PBM"], positions=2, horizon=long, method="step").leaps
    assert not Problem(policy, USERS["PBM"], positions=2, horizon=long, delay=1).leaps


def test_lists_with_too_many_click_vectors_are_stepped():
    n = MAX_BITS + 1
    users = CascadeModel(np.linspace(0.9, 0.1, n + 1).tolist())
    problems = [
        Problem("cascade-kl-ucb", users, positions=n, horizon=1000, method=method)
        for method in ("step", "leap")
    ]
    runs = [Run(problem, seed=1) for problem in problems]
    for run in runs:
        run.loop = run.problem.make_loop(compiled=False)
    assert runs[0].advance(100) == pytest.approx(runs[1].advance(100), rel=1e-12)
    assert runs[0].rng.random() == runs[1].rng.random()


def test_compiled_and_plain_leaps_are_the_same():
    compiled, plain = (run_of("cascade-kl-ucb", "PBM", "leap") for _ in range(2))
    plain.loop = plain.problem.make_loop(compiled=False)
    ends = np.array([100, 500, 2000])
    fast, slow = compiled.advance_windows(ends), plain.advance_windows(ends)
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-9)
    np.testing.assert_array_equal(fast[1], slow[1])
    assert all(np.array_equal(a, b) for a, b in zip(compiled.state, plain.state, strict=True))


def test_windows_taken_together_and_one_by_one_are_the_same():
    """Nothing is remembered from one window to the next, so a run that was saved goes on as it would have."""
    together, apart = (run_of("cascade-kl-ucb", "CM", "leap") for _ in range(2))
    ends = np.array([300, 1000, 3000])
    regret, clicks = together.advance_windows(ends)
    for end, lost, clicked in zip(ends.tolist(), regret, clicks, strict=True):
        other = run_of("cascade-kl-ucb", "CM", "leap").restore(apart.snapshot())
        assert apart.advance(end - apart.step) == (lost, clicked)
        assert other.advance(end - other.step) == (lost, clicked)
