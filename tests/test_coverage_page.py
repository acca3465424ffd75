"""docs/coverage.md has what `python -m benchmarks.coverage` kept, and the command says so when an interval fails."""

import json

import pytest
from benchmarks import coverage
from benchmarks.valued import log_of

from clickbandit import CascadeModel
from clickbandit.policies.base import parse_policy


def test_the_tables_are_of_what_was_measured():
    kept = json.loads(coverage.DATA.read_text())
    assert coverage.page(kept) in coverage.PAGE.read_text(), "run python -m benchmarks.coverage"
    for part in kept.values():
        assert not [row for row in part["rows"] if coverage.wrong(row, part["times"])]


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({"holds": 0.93}, False),
        ({"holds": 0.9}, True),
        ({"holds": 0.9, "intervals": 100}, False),
        ({"holds": 0.9, "intervals": 1000, "logs": 100}, False),
        ({"holds": None}, False),
        ({"false alarms": 0.06}, False),
        ({"false alarms": 0.07}, True),
        ({"found within twice that": 0.79}, True),
    ],
)
def test_what_is_less_than_promised(row, wrong):
    """Chance aside: two standard errors of a thousand intervals are 1.4%."""
    assert coverage.wrong(row, 1000) is wrong


def test_a_log_of_lists_to_value():
    """As `value` reads them: random lists of five out of six, with how probable they are."""
    log = log_of(parse_policy("random"), CascadeModel([0.5] * 6), seed=1, lists=2)
    assert [len(set(one)) for one in log.lists] == [5, 5]
    assert log.propensities == pytest.approx(1 / 6)
    assert log.prefixes[1] == pytest.approx([1 / 6, 1 / 30, 1 / 120, 1 / 360, 1 / 720])


def test_a_log_of_estimated_propensities():
    """CTS knows nothing at first, so all lists are as probable; what is drawn changes nothing that is shown."""
    policy, users = parse_policy("cts"), CascadeModel([0.5] * 6)
    log = log_of(policy, users, seed=1, lists=3, draws=2000)
    assert log.propensities[0] == pytest.approx(1 / 6, abs=0.04)
    assert log.prefixes[0, :2] == pytest.approx([1 / 6, 1 / 30], abs=0.02)
    assert log.lists == log_of(policy, users, seed=1, lists=3, draws=1).lists
