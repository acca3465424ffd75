"""The tables of the docs that `python -m benchmarks.tail` writes are those of what it kept."""

import json

from benchmarks import tail


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
