"""The Open Bandit data: what one policy earned, from the log of the other."""

import csv
import gzip
from collections import Counter

import numpy as np
import pytest

from clickbandit.intervals import watched_sum
from clickbandit.value.estimators import effective, normalised, weighted


def read(folder, policy):
    """Item and position, click, and propensity of each row: one slot of a list."""
    with gzip.open(folder / "obd" / policy / "men.csv.gz", "rt") as file:
        rows = [
            (row["item_id"], row["position"], float(row["click"]), float(row["propensity_score"]))
            for row in csv.DictReader(file)
        ]
    places = [(item, position) for item, position, *_ in rows]
    return places, np.array([row[2] for row in rows]), np.array([row[3] for row in rows])


@pytest.mark.parametrize(("logged", "target"), [("random", "bts"), ("bts", "random")])
def test_what_a_policy_earned_from_the_log_of_the_other(shared, logged, target):
    """Single slots, so sips, iips and rips are one; how probable the target's are is counted in its own log."""
    places, clicks, chances = read(shared, logged)
    others, earned, _ = read(shared, target)
    shown, at = Counter(others), Counter(position for _, position in others)
    ratios = np.array([shown[place] / at[place[1]] for place in places]) / chances
    assert effective(ratios[:, None]) > 100
    assert ratios.mean() == pytest.approx(1, abs=0.1)
    for estimator in (weighted, normalised):
        value, residuals = estimator(clicks[:, None], ratios[:, None])
        low, high = watched_sum(value, residuals)
        assert max(low, 0) < earned.mean() < high
        assert high < 0.02
