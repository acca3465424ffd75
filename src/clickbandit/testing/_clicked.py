"""What a store must lock of impressions that are clicked."""

from collections.abc import Sequence

from clickbandit.live.stores.contract import Store, takes_clicks
from clickbandit.live.stores.rows import ImpressionRow
from clickbandit.testing._learning_store import expect


def check_clicked(store: Store, impressions: Sequence[ImpressionRow]) -> None:
    """They are there, and their queries too wherever a click may change these."""
    first, *others = (impression.id for impression in impressions)
    for one in impressions:
        for at in (one.at, one.expires - 1, one.expires):
            store.begin()
            locked = store.lock((), (), (), 1000, [one.id, "missing"], at)
            expect(locked.impressions, {one.id: one}, "the impression that is clicked")
            if not takes_clicks(one, at):
                expect(
                    [row.id for row in locked.queries.values()], [one.query], "the query that clicks change"
                )
            store.rollback()
    store.begin()
    locked = store.lock((), [first], (), 1000, others, impressions[0].at)
    expect(set(locked.impressions), {first, *others}, "impressions, of which some are clicked")
    expect(impressions[0].query in {row.id for row in locked.queries.values()}, True, "its query is locked")
    store.rollback()
