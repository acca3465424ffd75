"""ClickTS with a prior: list for list its plain twin, and what becomes of a prior that is right, wrong or partly so."""

import numpy as np
import pytest

from clickbandit import ClickTS, PositionBasedModel, Prior
from clickbandit.compiling.kernel import interpreted
from clickbandit.policies.click_ts.describe import describe
from clickbandit.policies.click_ts.items import admit, retire
from clickbandit.policies.click_ts.lesson import teach
from clickbandit.policies.click_ts.prior import weigh
from clickbandit.simulation.run import Problem, Run
from policies.click_ts_twin import ATTRACTION, MODELS, side_by_side

N = len(ATTRACTION)
RIGHT = np.argsort(-np.array(ATTRACTION)).tolist()
ORDERS = {"right": RIGHT, "reversed": RIGHT[::-1], "two best last": [*RIGHT[2:], *RIGHT[:2]]}
CURVE = [0.8, 0.6, 0.45, 0.35, 0.2, 0.1, 0.05]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("model", ["CM", "PBM"])
def test_list_for_list(model: str, order: str) -> None:
    prior = Prior.from_order(ORDERS[order], attraction=CURVE)
    lists = 650 if (model, order) == ("PBM", "two best last") else 400  # exceptions rise from 500 on
    twin = side_by_side("click-ts", MODELS[model], 4, lists, prior=prior)
    assert twin.fits > 50
    assert twin.expectation is not None
    assert "exception" in twin.expectation.seen or order == "reversed"


def test_list_for_list_with_late_feedback_examination_and_weak_rows() -> None:
    """A low curve makes shapes below 1, and attractions of four times what it says other levels."""
    rows = [[1.0], [0.7, 0.6], [0.5, 0.4, 0.6], [0.3, 0.2, 0.3, 0.4]]
    errors = [[0.1] * len(row) for row in rows]
    curve = [0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005]
    prior = Prior(curve, [30.0] * N, RIGHT, rows, errors)
    twin = side_by_side("click-ts", MODELS["UBM"], 4, 400, late=True, prior=prior)
    assert twin.expectation is not None
    assert len(twin.expectation.seen) >= 3
    side_by_side("click-ts:goal=clicks", MODELS["DBN"], 3, 200, prior=prior)


def test_items_come_and_go_with_a_prior() -> None:
    """What is expected of the others stays; a new item is expected to be like their mean, and worth one click."""
    policy = ClickTS()
    prior = Prior.from_order([2, 0, 1], attraction=[0.6, 0.3, 0.15])
    state = policy.start(3, 2, horizon=10, prior=prior)
    more = admit(state, 2)
    assert more.expected.tolist() == pytest.approx([0.3, 0.15, 0.6, 0.35, 0.35])
    assert more.strength[3:].tolist() == pytest.approx([1 / 0.35] * 2)
    assert more.attraction[3:].tolist() == pytest.approx([0.35] * 2)
    fewer = retire(more, 2)
    assert fewer.expected.tolist() == pytest.approx([0.3, 0.15, 0.35, 0.35])
    assert fewer.slab.shape == (5, 4)
    large = admit(policy.start(40, 10, horizon=10, prior=Prior.from_order(range(40))), 100)
    assert (len(large.after), large.slab.shape, len(large.shape)) == (0, (5, 140), 140)
    for one in (more, fewer, large):
        trial = one._replace(clicks=one.clicks + 1, exposure=one.exposure + 3.0)
        interpreted(weigh)(trial)
        assert trial.weight.sum() == pytest.approx(1)


def test_a_lesson_says_what_clicks_told_and_not_what_was_known() -> None:
    """Told where users look, it tells that to nobody else; and what it found out by itself is about right."""
    model = PositionBasedModel(attraction=[0.6, 0.5, 0.4, 0.3], examination=[1, 0.5])
    known = Prior(
        [0.5] * 4, [1.0] * 4, examination=[[1.0], [0.9, 0.9]], examination_error=[[0.05], [0.3] * 2]
    )
    told = teach(ClickTS().start(4, 2, horizon=10, prior=known))
    assert told == ([0.0] * 4, [0.0] * 4, (), ())
    state = Run(Problem("click-ts", model, positions=2, horizon=2_000, prior=known), seed=1)
    state.loop = state.problem.make_loop(compiled=False)
    state.advance(2_000)
    lesson = teach(state.state)
    error = lesson.precision[1][0] ** -0.5
    assert error < 0.5
    assert abs(lesson.log_examination[1][0] - np.log(0.5)) < 3 * error
    assert sum(lesson.examined) == pytest.approx(2_000 * 1.5, rel=0.3)
    assert teach(ClickTS().start(20, 12, horizon=10)).log_examination == ()


def test_a_description_has_the_prior_in_it() -> None:
    """Before the first click: each item where it is expected, and an interval around that."""
    told = describe(
        ClickTS().start(3, 2, horizon=10, prior=Prior.from_order([2, 0, 1], attraction=[0.6, 0.3, 0.1]))
    )
    low, high = ([entry[end] for entry in told["items"]] for end in ("low", "high"))
    assert low[2] < 0.6 < high[2]
    assert high[1] < 0.6
    assert told["items"][2]["in_list"] > 0.9
