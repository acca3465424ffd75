"""What a store must keep of what was settled, for exports."""

from collections.abc import Sequence
from dataclasses import replace

from clickbandit.live.stores.contract import Changes, Store
from clickbandit.live.stores.reading import Reader
from clickbandit.live.stores.rows import SETTLED, ImpressionRow, OfferRow, QueryRow


def check_decisions(store: Store, reader: Reader, row: QueryRow, settled: Sequence[ImpressionRow]) -> None:
    """What is settled has a mark, higher the later, and comes with what it was chosen from, which is stored once."""
    found = reader.decisions(0, 1)
    ids = sorted(decision.id for decision in found)
    expected = sorted(impression.id for impression in settled)
    assert ids == expected, f"the first settled impressions: expected {expected}, found {ids}"
    assert len({decision.mark for decision in found}) == 1, "what one transaction settles must have one mark"
    offer = OfferRow(-(2**62), row.id, '["A", "ü"]', "toprank:c=1", 2, 10**15, -1, 10)
    for k in range(2):
        store.begin()
        store.lock([row.name], (), (), 1000)
        new = replace(settled[0], id=f"offered {k}", query=row.id, offer=offer.id, outcome=SETTLED)
        store.save(
            Changes(impressions=[new], touched=[new], offers=[offer._replace(items="[]") if k else offer])
        )
        store.commit()
    later = reader.decisions(found[0].mark, 10)
    assert [decision.id for decision in later] == ["offered 0", "offered 1"], (
        f"what was settled after a mark: expected two impressions in their order, found {later}"
    )
    assert later[0].mark < later[1].mark, "what is settled later must have a higher mark"
    for decision in later:
        chosen = (decision.query, decision.candidates, *decision[-4:])
        assert chosen == (row.name, *offer[2:7]), (
            f"what a list was chosen from: expected {offer}, found {chosen}"
        )
    store.begin()
    store.save(Changes(forgotten=["offered 0", "offered 1"]))
    store.commit()
