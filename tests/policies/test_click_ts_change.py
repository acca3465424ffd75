"""ClickTS where users change: it notices by the clicks on what it shows, and learns anew; and not where they do not."""

from typing import Any

import numpy as np
import pytest

from clickbandit import CascadeModel, PositionBasedModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.policies.base import parse_policy
from clickbandit.policies.click_ts import change
from clickbandit.policies.click_ts.fit import fit
from clickbandit.policies.click_ts.guard import set_budget
from clickbandit.policies.click_ts.items import admit, retire
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded
from policies.click_ts_twin import ATTRACTION, MODELS, side_by_side

CHANGE = (
    MODELS["PBM"],
    PositionBasedModel(attraction=ATTRACTION[::-1], examination=[1, 0.7, 0.4, 0.2]),
)

# --- the twin -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", ["", ":memory=400", ":goal=clicks"])
def test_twin_where_users_change(settings: str) -> None:
    """With a short memory it follows them by itself."""
    twin = side_by_side("click-ts" + settings, CHANGE, 3, 1000)
    assert twin.restarts == (0 if twin.memory else 1)


def test_twin_that_does_not_look_for_changes() -> None:
    twin = side_by_side("click-ts:restart=false", CHANGE, 3, 600)
    assert twin.restarts == 0
    assert twin.now == 600


# --- when ---------------------------------------------------------------------------------------------------


def foreseen(clicks: float, shown: float) -> Any:
    """Two items, one position: item 0 has so many clicks when shown so often, item 1 is unknown."""
    state = parse_policy("click-ts").start(2, 1, horizon=1)
    state.clicks[0], state.shown[0, 0], state.learned[0] = clicks, shown, shown
    interpreted(fit)(state)
    interpreted(set_budget)(state)
    interpreted(change.foresee)(state)
    return state


@pytest.mark.parametrize(("n", "found"), [(1012, False), (1013, True)])
def test_how_many_clicks_contradict(n: int, found: bool) -> None:
    """With an attraction of 10,000 / 100,000 and no click in n lists S = -n / 10 and V = n / 10 + n^2 / 1e6; the budget
    is b = log 99,999 + 3 log log 99,999 = 18.8433, and S^2 > 4 b (V + |S| / 3) from n = 1,012.6 on."""
    state = foreseen(9999, 99_998)
    state.shown[0, 0] += n
    assert interpreted(change.contradicts)(state) == found
    assert (state.surprise[0] == 0) == found


def test_surprises_add_up_and_fade() -> None:
    """Of 100 times shown 10 clicks are foreseen, and then 100 x 10,000 / 100,100; there are none."""
    state = foreseen(9999, 99_998)
    for expected in (-10.0, -0.9 * 10.0 - 9.99):
        state.shown[0, 0] += 100
        assert not interpreted(change.contradicts)(state)
        assert state.surprise[0] == pytest.approx(expected, abs=1e-3)
        interpreted(change.foresee)(state)
    assert state.surprise_variance[0] == pytest.approx(0.81 * 10.01 + 10.0, abs=1e-2)
    assert state.surprise[1] == state.surprise_variance[1] == 0


def test_where_the_law_is_not_known_clicks_contradict_less() -> None:
    """An item comes to the second position, of which little is known: a^2 w^T H^-1 w is part of the variance."""
    state = parse_policy("click-ts").start(2, 2, horizon=1)
    state.clicks[0], state.shown[0, 0], state.learned[0] = 9999, 99_998, 99_998
    interpreted(fit)(state)
    interpreted(set_budget)(state)
    interpreted(change.foresee)(state)
    state.shown[0, 1] += 100
    interpreted(change.contradicts)(state)
    exposure = 100 * np.exp(state.x[0])
    factor = np.tril(state.factor)
    law = exposure**2 * np.linalg.inv(factor @ factor.T)[0, 0] / 100
    assert law > 50
    assert state.surprise_variance[0] == pytest.approx(exposure / 10 + exposure**2 / 1e6 + law)


def run_of(model: Any, **settings: Any) -> Run:
    run = Run(Problem("click-ts", Recorded(model), positions=3, horizon=20_000, **settings), seed=1)
    run.advance(20_000)
    return run


@pytest.mark.parametrize("model", ["CM", "PBM"])
def test_users_who_stay_the_same_do_not_contradict(model: str) -> None:
    assert run_of(MODELS[model]).state.learned[0] == 20_000


def test_a_change_of_taste_is_noticed() -> None:
    run = run_of(CascadeModel(attraction=ATTRACTION), drift=(10_000,))
    assert run.state.learned[0] < 10_200
    best = run.periods[1].model.attraction
    assert sorted(run.best(), key=lambda item: -best[run.numbering.index(item)]) == run.best()


# --- items that come and go ---------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", [3, 12])
def test_what_was_foreseen_stays_with_its_items(positions: int) -> None:
    """Whoever comes or goes, what was foreseen of the others is what would be foreseen without looking back."""
    model = MODELS["PBM"] if positions == 3 else MODELS["many"]
    run = Run(Problem("click-ts", Recorded(model), positions=positions, horizon=500), seed=1)
    run.advance(500)
    state = run.state
    interpreted(change.foresee)(state)
    for after in (retire(state, 1), admit(retire(state, 1), 2), admit(state, 400)):
        again = after._replace(
            **{name: np.zeros_like(getattr(after, name)) for name in ("exposure_then", "slope_then")}
        )
        interpreted(change.foresee)(again)
        assert np.allclose(after.exposure_then, again.exposure_then)
        assert np.allclose(after.slope_then, again.slope_then)
    unwatched = parse_policy("click-ts:restart=false").start(4, 3, horizon=1)
    assert len(admit(retire(unwatched, 1), 400).surprise) == 0
