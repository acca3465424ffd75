"""What is known of a KL bound without computing it: it is true, and as narrow as it must be to save the work."""

from types import SimpleNamespace

import numpy as np
import pytest

from clickbandit.bounds import kl_upper
from clickbandit.compiling.kernel import interpreted
from clickbandit.policies import bounds_on_demand

look, compute = interpreted(bounds_on_demand.look_closely), interpreted(bounds_on_demand.compute_bound)
upper = interpreted(kl_upper)
SHARES = (0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
LOOKS = {
    "clicks": lambda chance: 1,
    "no clicks": lambda chance: 0,
    "in turn": lambda chance: int(chance.random() < 0.5),
}


def arm(n: int, clicks: int, budget: float) -> SimpleNamespace:
    """One arm whose bound was just computed."""
    one = SimpleNamespace(
        observed=np.array([n]),
        clicks=np.array([clicks]),
        low=np.zeros(1),
        high=np.ones(1),
        slope=np.zeros(1),
        at_budget=np.array([-1.0]),
    )
    compute(one, 0, budget)
    return one


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("looks", LOOKS)
def test_bounds_are_where_they_are_said_to_be(share, looks):
    """From look to look, where the bound is followed and where it is not, with the budget it was computed for and a
    larger one. Rounding alone may be beyond an end, and what a look does is a thousand times that."""
    chance, followed = np.random.default_rng(1), 0
    for n in (20, 100, 400, 2000, 10_000, 100_000):
        for budget in (0.5, 3.0, 16.0, 30.0):
            known = arm(n, round(share * n), budget)
            for _ in range(40):
                look(known, 0, LOOKS[looks](chance))
                followed += known.high[0] < 1
                mean, observed = known.clicks[0] / known.observed[0], int(known.observed[0])
                assert known.low[0] <= upper(mean, observed, budget) + 1e-15
                for more in (0.0, 0.001, 1.0):
                    high = known.high[0] + known.slope[0] * (budget + more - known.at_budget[0])
                    assert upper(mean, observed, budget + more) <= high + 1e-15
    assert followed > 100 or share > 0.95, "nearly all bounds were computed"


@pytest.mark.parametrize("looks", LOOKS)
def test_bounds_that_are_followed_stay_narrow(looks):
    """After a hundred looks, by far less than a single one moves them: so no other bound need be computed for them."""
    known, chance = arm(1_000_000, 300_000, 16.0), np.random.default_rng(1)
    for _ in range(100):
        look(known, 0, LOOKS[looks](chance))
    assert 0 < known.high[0] - known.low[0] < 0.01 / 1_000_000


def test_few_clicks_and_certain_ones_are_not_followed():
    for n, clicks in ((15, 15), (1000, 15), (50, 49)):
        known = arm(n, clicks, 3.0)
        look(known, 0, 1)
        assert known.high[0] == 1
