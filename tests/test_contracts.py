"""What does not keep a contract is told in one sentence, which names the contract and the part."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import kernel
from clickbandit.errors import InputError
from clickbandit.policies.base import parse_policy
from clickbandit.policies.contract import Live
from clickbandit.simulation.run import Problem

ALGORITHM: Any = parse_policy("random").algorithm
LEAPS: Any = parse_policy("batchrank").leaps


@kernel
def without_memo(state: Any, rng: Any, ranking: Any) -> None:
    """A kernel is looked into as well."""


@pytest.mark.parametrize(
    ("record", "part", "function", "sentence"),
    [
        (ALGORITHM, "best", None, "Algorithm.best must be a function of (state, ranking), found None"),
        (
            ALGORITHM,
            "rank",
            without_memo,
            "Algorithm.rank must be a function of (state, rng, ranking, memo), "
            "found one of (state, rng, ranking)",
        ),
        (
            ALGORITHM,
            "update",
            lambda state, ranking, clicks, memo, more: None,
            "Algorithm.update must be a function of (state, ranking, clicks, memo), "
            "found one of (state, ranking, clicks, memo, more)",
        ),
        (LEAPS, "quiet", 3, "Leaps.quiet must be a function of (state, n_positions), found 3"),
        (
            Live(),
            "describe",
            lambda: {},
            "Live.describe must be a function of (state), found one of ()",
        ),
        (
            CascadeModel.functions,
            "click",
            lambda params: None,
            "Functions.click must be a function of (params, rng, ranking, clicks), found one of (params)",
        ),
        (
            CascadeModel.patterns,
            "pattern_law",
            lambda params: 0,
            "Patterns.pattern_law must be a function of (params, shown, batch, first, pool, outcomes, law, work, "
            "spare), found one of (params)",
        ),
    ],
)
def test_a_part_that_does_not_fit_is_named(record: Any, part: str, function: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        replace(record, **{part: function})


@pytest.mark.parametrize("record", [LEAPS, ALGORITHM])
def test_a_flag_is_true_or_false(record: Any) -> None:
    name = "in_pairs" if record is LEAPS else "any_list"
    with pytest.raises(
        InputError, match=rf"{type(record).__name__}.{name} must be True or False, found 'no'"
    ):
        replace(record, **{name: "no"})


def test_items_come_and_go_or_neither() -> None:
    with pytest.raises(
        InputError, match=r"^Live.admit and Live.retire must be given together, found admit alone$"
    ):
        Live(admit=lambda state, n_new, /: state)


def test_what_is_optional_may_be_left_out() -> None:
    assert Live(propensity=None).admit is None
    assert replace(CascadeModel.functions, fit=None).fit is None


@pytest.mark.parametrize(
    ("functions", "sentence"),
    [
        (
            "init, memo_size, rank, update",
            "Algorithm.__init__() missing 1 required positional argument: 'best'",
        ),
        (
            "init, memo_size, best, update, best",
            "Algorithm.rank must be a function of (state, rng, ranking, memo), found one of (state, ranking)",
        ),
    ],
)
def test_a_users_file_is_told_so_too(tmp_path: Path, functions: str, sentence: str) -> None:
    file = tmp_path / "mine.py"
    example = (Path(__file__).parents[1] / "examples" / "my_policy.py").read_text()
    assert "Algorithm(init, memo_size, rank, update, best)" in example
    file.write_text(
        example.replace("Algorithm(init, memo_size, rank, update, best)", f"Algorithm({functions})")
    )
    with pytest.raises(InputError, match=f"mine.py cannot be imported: {re.escape(sentence)}$"):
        parse_policy(f"{file}:EpsilonGreedy")


class Entangled(PositionBasedModel):
    """Users whose positions are not said to be examined independently."""

    patterns = replace(PositionBasedModel.patterns, independent_positions=False)


@pytest.mark.parametrize(("kind", "by"), [(PositionBasedModel, "by_examination"), (Entangled, "by_pattern")])
def test_a_flag_that_is_false_is_taken_for_false(kind: Any, by: str) -> None:
    """Only users who examine each position whatever else happens are leaped over by examination."""
    problem = Problem("batchrank", kind([0.5, 0.2], [1, 0.5]), positions=2, horizon=100, method="leap")
    assert problem.make_loop(compiled=False).draw_outcomes.__module__ == f"clickbandit.leaps.{by}"
