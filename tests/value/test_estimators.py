"""Estimators equal the Open Bandit Pipeline's formulas, written out here as it has them: a row for each slot."""

import numpy as np
import pytest

from clickbandit.value.estimators import cascade_dr, effective, normalised, weighted

N, K = 50, 3


@pytest.fixture
def log():
    rng = np.random.default_rng(1)
    rewards = rng.random((N, K))
    behaviour, target = rng.uniform(0.1, 1, (N, K)), rng.random((N, K))
    predicted, expected = rng.random((N, K)), rng.random((N, K))
    return rewards, target / behaviour, predicted, expected


def by_slot(values):
    """As the Pipeline has a log: slots of all slates one after the other, with slate and position."""
    return values.ravel(), np.repeat(np.arange(N), K), np.tile(np.arange(K), N)


def mean_of_slates(estimated, slate):
    return sum(estimated[slate == one].sum() for one in range(N)) / N


def test_weighted(log):
    rewards, ratios, *_ = log
    flat, slate, _ = by_slot(rewards * ratios)
    found, residuals = weighted(rewards, ratios)
    assert found == pytest.approx(mean_of_slates(flat, slate), abs=1e-9)
    assert residuals.sum() == pytest.approx(0, abs=1e-9)


def test_normalised(log):
    rewards, ratios, *_ = log
    (reward, slate, position), iw = by_slot(rewards), ratios.ravel()
    estimated = np.zeros(N * K)
    for one in range(K):
        at = position == one
        estimated[at] = reward[at] * iw[at] / iw[at].mean()
    found, residuals = normalised(rewards, ratios)
    assert found == pytest.approx(mean_of_slates(estimated, slate), abs=1e-9)
    assert residuals.sum() == pytest.approx(0, abs=1e-9)
    # the residuals are how the estimate changes with the weight of a list (the delta method)
    more = np.ones((N, 1))
    more[7] += 1e-6
    changed, _ = normalised(rewards, ratios * more)
    assert (changed - found) / 1e-6 * N == pytest.approx(residuals[7], rel=1e-3)


def test_cascade_dr(log):
    rewards, ratios, predicted, expected = log
    (reward, slate, position), iw = by_slot(rewards), ratios.ravel()
    before = np.roll(iw, 1)
    before[position == 0] = 1
    estimated = iw * (reward - predicted.ravel()) + before * expected.ravel()
    found, residuals = cascade_dr(rewards, ratios, predicted, expected)
    assert found == pytest.approx(mean_of_slates(estimated, slate), abs=1e-9)
    assert residuals.sum() == pytest.approx(0, abs=1e-9)


def test_a_right_model_leaves_less_to_chance():
    rng = np.random.default_rng(2)
    ratios = np.where(rng.random((4000, 1)) < 0.25, 4.0, 0.0)
    rewards = (rng.random((4000, 1)) < 0.5).astype(float)
    right = np.full((4000, 1), 0.5)
    plain, corrected = weighted(rewards, ratios), cascade_dr(rewards, ratios, right, right)
    assert np.std(corrected[1]) < 0.8 * np.std(plain[1])


def test_effective_lists():
    assert effective(np.ones((10, 2))) == 10
    assert effective(np.array([[1.0, 5.0], [1.0, 0.0]])) == 1
    assert effective(np.zeros((3, 1))) == 0
