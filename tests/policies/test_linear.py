"""Linear cascading bandits: list for list their plain twins, with features and without; and features as a prior."""

import numpy as np
import pytest

from clickbandit import CascadeModel, InputError, Query, parse_policy, simulate
from clickbandit.features import Ridge
from clickbandit.randomness import generators
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded
from naive.side_by_side import in_order
from naive.twins import TWINS

FEATURES = [[1, 0.9, 0.1], [1, 0.2, 0.3], [1, 0.7, 0.8], [1, 0.1, 0.1], [1, 0.5, 0.4]]
ATTRACTION = [0.1 + 0.5 * row[1] - 0.1 * row[2] for row in FEATURES]


@pytest.mark.parametrize(
    "policy", ["cascade-lin-ucb", "cascade-lin-ts:feedback=last", "cascade-lin-ts:exploration=0.3"]
)
@pytest.mark.parametrize("features", [FEATURES, ()])
def test_list_for_list(policy: str, features: list[list[float]]) -> None:
    steps, settings = 150, parse_policy(policy)
    reordered, numbering = in_order(CascadeModel(attraction=ATTRACTION), seed=3)
    users = Recorded(reordered, steps, 2)
    given = [features[item] for item in np.argsort(numbering)] if features else ()
    query = Query("", list("abcde"), {"CM": users}, features=given)
    problem = Problem(settings, query, positions=2, horizon=steps)
    run = Run(problem, seed=3)
    run.loop = problem.make_loop(compiled=False)
    run.advance(steps)
    rng, _ = generators(3, "", "CM", str(settings), 0)
    twin = TWINS[settings.name](
        5,
        2,
        horizon=steps,
        feedback=settings.feedback,
        exploration=settings.exploration,
        features=features or None,
    )
    for shown, clicks in zip(users.shown.tolist(), users.clicked.tolist(), strict=True):
        assert twin.rank(rng) == shown
        twin.update(shown, clicks)


def test_features_help_in_simulation() -> None:
    users, lost = {"CM": CascadeModel(attraction=ATTRACTION)}, []
    for given in (FEATURES, ()):
        query = Query("q", list("abcde"), users, features=given)
        trace = simulate("cascade-lin-ts:exploration=0.3", query, positions=2, steps=300, runs=5)
        lost.append(trace.summary().regret.mean)
    assert lost[0] < lost[1]


def test_a_regression_is_no_surer_than_it_is() -> None:
    """Where features say all its strength grows with what it saw; where they say nothing it stays low."""
    rng = np.random.default_rng(1)
    x = np.stack([np.ones(400), rng.random(400)], axis=1)
    worth = {}
    for name, attraction in {"all": 0.1 + 0.5 * x[:, 1], "nothing": rng.uniform(0.05, 0.65, 400)}.items():
        for n in (20, 400):
            ridge = Ridge(2)
            ridge.add(x[:n].tolist(), rng.binomial(50, attraction[:n]), [50.0] * n)
            worth[name, n] = float(np.mean(ridge.prior(x[:n].tolist()).strength))
    assert worth["all", 400] > 30
    assert worth["nothing", 400] < 12
    assert Ridge(2).prior([[1, 1]]).strength[0] < 1
    with pytest.raises(InputError, match="must have 2 features, found 1, 2"):
        Ridge(2).prior([[1, 1], [1]])
    with pytest.raises(InputError, match="finite"):
        Ridge(2).prior([[1, float("nan")]])
    with pytest.raises(InputError, match="the same number for each item, found"):
        Query("q", ["a", "b"], {}, features=[[1], [1, 2]])


def test_many_features_of_few_items_are_not_taken_for_sure() -> None:
    """64 of them and 80 items: a regression comes close to the items that it learned from, and to no others."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(580, 64))
    attraction = np.clip(0.3 + x @ rng.normal(size=64) * 0.015 + 0.1 * rng.normal(size=580), 0.01, 0.95)
    ridge = Ridge(64)
    for rows in np.arange(80).reshape(8, 10):
        ridge.add(x[rows].tolist(), rng.binomial(1000, attraction[rows]).tolist(), [1000.0] * 10)
    prior = ridge.prior(x[80:].tolist())
    mean, strength = np.array(prior.attraction), np.array(prior.strength)
    claimed = np.mean(mean * (1 - mean) / (strength + 1))
    assert 0.5 < claimed / np.mean((mean - attraction[80:]) ** 2) < 2


def test_large_and_equal_features_teach_as_small_ones_do() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=200)
    clicks = rng.binomial(100, np.clip(0.3 + 0.1 * x, 0, 1)).tolist()
    found = []
    for column in (x, 1.7e9 + 1e4 * x, 1e300 * x):
        ridge, rows = Ridge(3), [[1.0, value, value] for value in column.tolist()]
        ridge.add(rows, clicks, [100.0] * 200)
        found.append(ridge.prior(rows).attraction)
    assert found[1] == pytest.approx(found[0], abs=1e-4)
    assert found[2] == pytest.approx(found[0], abs=1e-9)
    assert np.abs(np.subtract(found[0], np.clip(0.3 + 0.1 * x, 0.01, 0.95))).mean() < 0.02
