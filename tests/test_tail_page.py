"""The tables of the docs that `python -m benchmarks.tail` writes are those of what it kept."""

import json
from typing import Any

from benchmarks import tail

from clickbandit.live.http.starting import EARNS_FROM, start_of, warning_of
from clickbandit.live.settings import ServiceSettings


def test_the_tables_are_of_what_was_measured() -> None:
    rows = json.loads(tail.RESULTS.read_text())
    drawn = {"which-policy": [tail.summary(rows)], "priors": [tail.table(rows), tail.worst_table(rows)]}
    for name, text in [(name, text) for name, texts in drawn.items() for text in texts]:
        page = (tail.PROJECT / "docs" / f"{name}.md").read_text()
        assert text in page, f"{name}: run python -m benchmarks.tail --draw"


def test_queries_are_what_their_order_says() -> None:
    good, reverse, poor = (
        tail.make_query("PBM", order, 0, 1).users.attraction for order in ("good", "reversed", "poor")
    )
    assert list(reverse) == sorted(good)
    assert max(poor) < 0.31 * max(good)
    last = tail.make_query("PBM", "two best last", 0, 1).users.attraction
    assert sorted(last)[-2:] == sorted(last[-2:])


def test_the_service_says_where_a_policy_is_likely_to_lose() -> None:
    """What it takes for measured is in the table; with no stated horizon, with a budget or late enough it is quiet."""
    for (policy, told), impressions in EARNS_FROM.items():
        start = "given-order" if told else "none"
        rows = json.loads(tail.RESULTS.read_text())
        kind = ("PBM", "good", policy, start)
        gains = next(
            row["gain"] for row in rows if (row["model"], row["order"], row["policy"], row["prior"]) == kind
        )
        earned = [look for look, (mean, _, _) in zip(tail.LOOKS, gains, strict=True) if mean > 0]
        assert min([*earned, 1_000_000]) == impressions, kind

    def said(**given: Any) -> str | None:
        return warning_of(ServiceSettings(**given))

    assert said() is None
    assert said(horizon=100) is not None
    assert said(horizon=1_000) is None
    assert "cts that starts from what is known is likely" in str(said(policy="cts", horizon=5_000))
    assert "batchrank that starts from nothing" in str(said(policy="batchrank", horizon=100_000))
    assert "rank1elim" in str(said(policy="rank1elim", horizon=1_000))
    for quiet in ({"max_loss": 0.02}, {"policy": "given"}, {"policy": "cts within 0.05"}):
        assert said(horizon=100, **quiet) is None
    assert "--prior given-order" in start_of(ServiceSettings())
    assert "without --prior starts from nothing" in start_of(ServiceSettings(prior="none"))
