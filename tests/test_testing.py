"""The public checks find what they are there to find."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clickbandit.click_models import pbm
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import is_compiled, kernel
from clickbandit.testing import check_click_model

OWN_RNG = np.random.default_rng(0)


def check_pbm_with(**kernels: Any) -> None:
    """Check the position-based model with some of its kernels replaced."""

    class Broken(PositionBasedModel):
        name = "BROKEN"
        functions = replace(PositionBasedModel.functions, **kernels)

    check_click_model(Broken(attraction=[0.9, 0.5, 0.2], examination=[1, 0.6, 0.3]))


def test_a_right_model_passes() -> None:
    check_pbm_with()


def too_likely(params: Any, ranking: Any, clicks: Any) -> float:
    return float(pbm.log_likelihood(params, ranking, clicks)) + 0.01


def other_clicks(params: Any, ranking: Any, out: Any) -> None:
    pbm.click_probability(params, ranking, out)
    out[1] += 0.01


def too_little(params: Any, ranking: Any, out: Any) -> None:
    out[:] = params.examination[: len(out)] * 0.1


def skips_the_last(params: Any, rng: Any, ranking: Any, clicks: Any) -> None:
    pbm.click(params, rng, ranking[:-1], clicks[:-1])


def keeps_old_clicks(params: Any, rng: Any, ranking: Any, clicks: Any) -> None:
    old = clicks[0]
    pbm.click(params, rng, ranking, clicks)
    if old > 0:
        clicks[0] = 1


def draws_by_itself(params: Any, rng: Any, ranking: Any, clicks: Any) -> None:
    pbm.click(params, OWN_RNG, ranking, clicks)


def clicks_too_often(params: Any, rng: Any, ranking: Any, clicks: Any) -> None:
    pbm.click(params, rng, ranking, clicks)
    if rng.random() < 0.05:
        clicks[0] = 1


def clicks_the_impossible(params: Any, rng: Any, ranking: Any, clicks: Any) -> None:
    clicks[:] = 1


def only_the_first(params: Any, ranking: Any, clicks: Any) -> float:
    """A law that never lets anything happen but a click at the first position."""
    return 0.0 if clicks[0] == 1 and not clicks[1:].any() else float("-inf")


def first_position(params: Any, ranking: Any, out: Any) -> None:
    out[:] = 0
    out[0] = 1


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ({"log_likelihood": too_likely}, "must sum to 1, found 1.01"),
        ({"click_probability": other_clicks}, "but click_probability says 0.31"),
        ({"examination_probability": too_little}, "expected 0 <= click_probability <= examination_prob"),
        ({"click": skips_the_last}, "click must write 0 or 1 at every position"),
        ({"click": keeps_old_clicks}, "click must depend on params, rng and ranking alone"),
        ({"click": draws_by_itself}, "click must depend on params, rng and ranking alone"),
        ({"click": clicks_too_often}, "do not follow log_likelihood: chi-square is"),
        (
            {
                "click": clicks_the_impossible,
                "log_likelihood": only_the_first,
                "click_probability": first_position,
                "examination_probability": first_position,
            },
            r"says that clicks \[1, 1, 1\] never happen, but 20000 of 20000 simulated users clicked so",
        ),
    ],
)
def test_a_broken_model_is_found(kernels: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_pbm_with(**kernels)


@kernel
def overflows(params: Any, rng: Any, ranking: Any, clicks: Any) -> None:
    """Compiled, whole numbers have 64 bits; in plain Python they have as many as they need."""
    for k in range(len(ranking)):
        clicks[k] = rng.random() < params.examination[k] * params.attraction[ranking[k]]
    half = 1 << 62
    if half + half > 0:
        clicks[0] = 1 - clicks[0]


@pytest.mark.skipif(not is_compiled(overflows), reason="compilation is off")
def test_a_kernel_that_is_another_when_compiled_is_found() -> None:
    with pytest.raises(AssertionError, match="the same of the same random numbers compiled and interpreted"):
        check_pbm_with(click=overflows)
