"""Leaps are exact: the laws are right, and runs by leaps have the same distribution as runs by steps.

Each test of distributions has a fixed seed and a level of 1e-4: had the seed not been fixed, a right simulation would
fail it once in ten thousand times.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clickbandit import BatchRank, CascadeModel, InputError, PositionBasedModel, Problem, Run, simulate
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.click_models.ubm import UserBrowsingModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.leaps.buffers import MAX_BITS, make_scratch
from leaps.again import again
from naive.recorded import NAMES, Recorded

LEVEL = 1e-4


def make_model(name, attraction, n_positions):
    n = len(attraction)
    examination = np.linspace(1, 0.3, n_positions).tolist()
    return {
        "CM": lambda: CascadeModel(attraction),
        "PBM": lambda: PositionBasedModel(attraction, examination=examination),
        "DBN": lambda: DynamicBayesianModel(
            attraction, satisfaction=np.linspace(0.2, 0.7, n).tolist(), continuation=0.8
        ),
        "UBM": lambda: UserBrowsingModel(
            attraction, examination=[[(p + 1) / (k + 2) for p in range(k + 1)] for k in range(n_positions)]
        ),
    }[name]()


# --- the law of what is clicked -----------------------------------------------------------------------------


def brute_force_law(model, upper, counted, pool, n_fillers):
    """By all orders of all batches, all ways to fill up the last one, and all click vectors."""
    law = {}
    batches = [*upper, None]
    fillings = [*itertools.combinations(pool, n_fillers)]
    known = [item for batch in upper for item in batch] + counted
    for fillers in fillings:
        batches[-1] = [*counted, *fillers]
        orders = [*itertools.product(*(itertools.permutations(batch) for batch in batches))]
        for order in orders:
            ranking = [item for batch in order for item in batch]
            for clicks in itertools.product((0, 1), repeat=len(ranking)):
                clicked = {item for item, click in zip(ranking, clicks, strict=True) if click}
                pattern = sum(1 << i for i, item in enumerate(known) if item in clicked)
                outcome = pattern + (len(clicked & set(fillers)) << len(known))
                probability = math.exp(model.log_likelihood(ranking, clicks)) / len(orders) / len(fillings)
                law[outcome] = law.get(outcome, 0.0) + probability
    return law


@st.composite
def configurations(draw):
    """Upper batches, counted items of the last one, and a pool that its other positions are filled from."""
    sizes = draw(st.sampled_from([[2], [3], [1, 1], [1, 2], [2, 1], [2, 2], [1, 1, 2]]))
    n_fillers = draw(st.integers(0, sizes[-1] - 1))
    n_pool = draw(st.integers(n_fillers, n_fillers + 2)) if n_fillers else 0
    n_items = sum(sizes) - n_fillers + n_pool
    probability = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
    attraction = draw(st.lists(probability, min_size=n_items, max_size=n_items))
    items = draw(st.permutations(range(n_items)))
    upper, used = [], 0
    for size in sizes[:-1]:
        upper.append(items[used : used + size])
        used += size
    counted = items[used : used + sizes[-1] - n_fillers]
    return attraction, upper, counted, items[used + len(counted) :], n_fillers


@settings(max_examples=60)
@given(configurations(), st.sampled_from(["CM", "PBM", "DBN", "UBM"]))
def test_the_law_is_that_of_all_orders(configuration, name):
    attraction, upper, counted, pool, n_fillers = configuration
    n_positions = sum(map(len, upper)) + len(counted) + n_fillers
    model = make_model(name, attraction, n_positions)
    expected = brute_force_law(model, upper, counted, pool, n_fillers)

    batch = [first for first, size in _starts(upper) for _ in range(size)]
    batch += [len(batch)] * (n_positions - len(batch))
    shown = np.array([item for items in upper for item in items] + counted)
    first = batch[-1] if model.patterns.independent_batches else 0
    scratch = make_scratch(model.n_items, n_positions, pairs=False)
    n = len(shown) - first
    outcomes, out = np.full((2, (n_fillers + 1) << n), -1.0)
    arguments = (model.params, shown, np.array(batch), first, np.array(pool, np.int64), outcomes, out)
    n_outcomes = interpreted(model.patterns.pattern_law)(*arguments, scratch.work, scratch.spare)
    found = dict(zip(outcomes[:n_outcomes].tolist(), out[:n_outcomes].tolist(), strict=True))
    assert len(found) == n_outcomes
    of_last_batch = {}
    for outcome, probability in expected.items():  # alone, where that is all the law tells
        clicked = (outcome & (1 << len(shown)) - 1) >> first | outcome >> len(shown) << n
        of_last_batch[clicked] = of_last_batch.get(clicked, 0.0) + probability
    for outcome in {*found, *of_last_batch}:
        assert found.get(outcome, 0.0) == pytest.approx(of_last_batch.get(outcome, 0.0), abs=1e-12)


def _starts(batches):
    first = 0
    for batch in batches:
        yield first, len(batch)
        first += len(batch)


# --- the distribution of runs -------------------------------------------------------------------------------


NUMBERINGS = 60


def final_states(policy, model, positions, method, *, steps, horizon, runs):
    """What runs leave, as numbers to compare: clicks, regret, counts, and the batches.

    Many numberings of the items, the same for either method, and as many runs with each. Steps are taken with users
    whose machine code the comparisons with twins have too.
    """
    model = Recorded(model) if method == "step" and model.name in NAMES else model
    problem = Problem(policy, model, positions=positions, horizon=horizon, method=method)
    rows = []
    for number in range(NUMBERINGS):
        run = Run(problem, seed=1, run=number)
        if method == "leap":
            run.rng, run.users = (np.random.Generator(np.random.SFC64([number, k])) for k in range(2))
        for _ in again(run, runs // NUMBERINGS):
            regret, clicks = run.advance(steps)
            rows.append({"clicks": clicks, "regret": regret, "list": str(run.best()), **learned(run.state)})
    return {name: [row[name] for row in rows] for name in rows[0]}


def learned(state):
    """What a policy has learned, as numbers and texts whose distributions can be compared."""
    if hasattr(state, "wins"):
        return {
            "batches": str(state.block.tolist()),
            "relations": int(state.beats.sum()),
            "wins": int(state.wins[0, 1]),
            "lead": int(state.wins[0, 1] - state.wins[1, 0]),
            "comparisons": int(state.wins.sum()),
            "last pair": int(state.wins[-1, -2] + state.wins[-2, -1]),
        }
    printed = hasattr(state, "missing")
    return {
        "batches": str((state.last if printed else state.batch[: len(state.halvings)]).tolist()),
        "first item": int(state.clicks[0]),
        "observed": str(sorted(state.observed.tolist())),
        "since the last test": str(state.missing.tolist()) if printed else "",
        "stages": str((state.stage if printed else state.halvings).tolist()),
        "difference": int(state.clicks[0] - state.clicks[1]),
        "sum": int(state.clicks[0] + state.clicks[1]),
    }


def assert_same_distribution(steps, leaps):
    """Chi-square for what has few values, Kolmogorov and Smirnov's test for numbers."""
    for name in steps:
        a, b = steps[name], leaps[name]
        values = sorted(set(a) | set(b), key=str)
        if len(values) > 12 and not isinstance(a[0], str):
            assert stats.ks_2samp(a, b, method="asymp").pvalue > LEVEL, name
            continue
        table = np.array([[rows.count(value) for value in values] for rows in (a, b)])
        rare = table.sum(axis=0) < 10
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
        table = table[:, table.sum(axis=0) > 0]
        if table.shape[1] > 1:
            assert stats.chi2_contingency(table).pvalue > LEVEL, (name, values)


LEAPING = ["batchrank", "batchrank:variant=experiment", "toprank"]
ENUMERATED = [
    ("batchrank", "DBN"),
    *(pytest.param(policy, "DBN", marks=pytest.mark.long) for policy in LEAPING[1:]),
]
"""The law of all orders (DBN, UBM) is the same whoever leaps, and takes ten seconds or more to compile for each."""
PAIRS = [*itertools.product(LEAPING, ["CM", "PBM"]), *ENUMERATED]


@pytest.mark.parametrize(("policy", "model"), PAIRS)
@pytest.mark.parametrize(("items", "positions"), [(4, 2), (5, 2), (5, 3), (3, 3)])
def test_leaps_have_the_distribution_of_steps(policy, model, items, positions):
    """Rounds that come out even, rounds with fillers, and full batches; stages end and batches split on the way.

    With two positions rounds are drawn by halves in the CM, with one item left over and without.
    """
    attraction = np.linspace(0.95, 0.15, items).tolist()
    users = make_model(model, attraction, positions)
    size = {"steps": 100 if policy == "toprank" else 400, "horizon": 8, "runs": 600}
    steps = final_states(policy, users, positions, "step", **size)
    leaps = final_states(policy, users, positions, "leap", **size)
    assert len(set(steps["batches"])) > 1, "nothing was split, so this tests little"
    del steps["regret"], leaps["regret"]  # by leaps it is the mean over orders: see below
    assert_same_distribution(steps, leaps)


@pytest.mark.parametrize(
    ("policy", "model"), [*PAIRS, pytest.param("batchrank", "UBM", marks=pytest.mark.long)]
)
def test_the_mean_regret_is_the_same(policy, model):
    users = make_model(model, [0.9, 0.7, 0.5, 0.3, 0.1], 2)
    size = {"steps": 1000, "horizon": 1000, "runs": 600}
    regrets = [final_states(policy, users, 2, method, **size)["regret"] for method in ("step", "leap")]
    assert stats.ttest_ind(*regrets, equal_var=False).pvalue > LEVEL


def test_the_tests_would_find_a_leap_that_forgets_that_items_are_shown_together(monkeypatch):
    """In the cascade model two items of a list are never clicked by the same user."""
    size = {"steps": 300, "horizon": 8, "runs": 1020}
    users = make_model("CM", [0.9, 0.8, 0.7], 3)
    steps = final_states(BatchRank(), users, 3, "step", **size)
    problem = Problem(BatchRank(), users, positions=3, horizon=8, method="leap")
    loop = problem.make_loop(compiled=False)
    draw_clicks = loop.leap.__globals__["draw_outcomes"].__globals__["draw_clicks"]
    law = draw_clicks.__globals__["pattern_law"]

    def independent(params, shown, batch, first, pool, outcomes, out, work, spare):
        n_outcomes = law(params, shown, batch, first, pool, outcomes, out, work, spare)
        n = len(shown)
        marginal = [sum(out[i] for i in range(n_outcomes) if outcomes[i] >> k & 1) for k in range(n)]
        for pattern in range(1 << n):
            outcomes[pattern] = pattern
            out[pattern] = math.prod(m if pattern >> k & 1 else 1 - m for k, m in enumerate(marginal))
        return 1 << n

    monkeypatch.setitem(draw_clicks.__globals__, "pattern_law", independent)
    monkeypatch.setattr(Problem, "loop", loop)
    leaps = final_states(BatchRank(), users, 3, "leap", **size)
    del steps["regret"], leaps["regret"]
    with pytest.raises(AssertionError):
        assert_same_distribution(steps, leaps)


@pytest.mark.parametrize(("policy", "model"), PAIRS)
def test_compiled_and_plain_leaps_are_the_same(policy, model):
    users = make_model(model, [0.9, 0.7, 0.5, 0.3, 0.1], 3)
    problem = Problem(policy, users, positions=3, horizon=100, method="leap")
    compiled, plain = Run(problem, seed=1), Run(problem, seed=1)
    plain.loop = problem.make_loop(compiled=False)
    ends = np.array([500, 2000, 9000])
    fast, slow = compiled.advance_windows(ends), plain.advance_windows(ends)
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-9)
    np.testing.assert_array_equal(fast[1], slow[1])
    assert all(np.array_equal(a, b) for a, b in zip(compiled.state, plain.state, strict=True))


# --- when leaps are taken -----------------------------------------------------------------------------------

PBM = make_model("PBM", [0.9, 0.6, 0.4, 0.2], 2)


def test_a_policy_that_cannot_leap_is_stepped():
    assert not Problem("ranked-exp3", PBM, positions=2, horizon=10).leaps
    with pytest.raises(InputError, match="ranked-exp3 cannot leap"):
        simulate("ranked-exp3", PBM, positions=2, steps=10, method="leap")
    with pytest.raises(InputError, match="with a delay of 3"):
        simulate(BatchRank(), PBM, positions=2, steps=10, method="leap", delay=3)
    with pytest.raises(InputError, match="method must be auto, step or leap, found 'jump'"):
        simulate(BatchRank(), PBM, positions=2, steps=10, method="jump")


@pytest.mark.parametrize("n_items", [MAX_BITS + 1, 40])
def test_problems_too_large_for_the_tables_are_stepped(n_items):
    model = make_model("PBM", np.linspace(0.9, 0.1, n_items).tolist(), 3)
    by_leaps = Run(Problem(BatchRank(), model, positions=3, horizon=1000, method="leap"), seed=1)
    by_steps = Run(Problem(BatchRank(), model, positions=3, horizon=1000, method="step"), seed=1)
    assert by_leaps.advance(200) == by_steps.advance(200)


def test_a_law_that_takes_too_long_to_sum_is_not_summed():
    """All orders of nine items with all their clicks: two hundred million."""
    model = make_model("DBN", np.linspace(0.9, 0.1, 9).tolist(), 9)
    by_leaps = Run(Problem(BatchRank(), model, positions=9, horizon=1000, method="leap"), seed=1)
    by_steps = Run(Problem(BatchRank(), model, positions=9, horizon=1000, method="step"), seed=1)
    assert by_leaps.advance(200) == pytest.approx(by_steps.advance(200), rel=1e-12)
    assert by_leaps.rng.random() == by_steps.rng.random()


def test_many_positions_are_stepped():
    n = MAX_BITS + 2
    model = CascadeModel(np.linspace(0.9, 0.1, n).tolist())
    trace = simulate(BatchRank(), model, positions=n, steps=1000, method="leap")
    assert trace.steps[-1] == 1000


def test_ten_million_steps_learn_the_list():
    trace = simulate(BatchRank(), PBM, positions=2, steps=10_000_000, runs=3, seed=1)
    assert trace.final_lists == [[0, 1]] * 3
    assert trace.regret[:, -1].max() == pytest.approx(0, abs=1e-12)


def test_clicks_by_window_add_up():
    """Windows cut rounds in two: the steps between are taken one by one."""
    problem = Problem(
        BatchRank(), make_model("CM", [0.5, 0.4, 0.3, 0.2, 0.1], 2), positions=2, horizon=5000, method="leap"
    )
    run = Run(problem, seed=1)
    ends = np.array([7, 500, 1001, 4999, 5000])
    regret, clicks = run.advance_windows(ends)
    assert run.step == 5000
    assert (clicks <= np.diff(ends, prepend=0)).all()
    assert (regret >= 0).all()
