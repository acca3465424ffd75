"""A ranker that learns with a store, for the check of that store."""

from clickbandit.live.ranker import Ranker
from clickbandit.live.stores.contract import Store

LEARNED = "learned"
VISITS = 10


def expect(found: object, expected: object, what: str) -> None:
    assert found == expected, f"{what}: expected {expected}, found {found}"


def check_ranker(store: Store, clicks: int) -> None:
    """It learns from each click once; `clicks` were counted before."""
    with Ranker(store, policy="random", positions=2, clock=lambda: 3.0) as ranker:
        for n in range(VISITS):
            shown = ranker.rank(LEARNED, ["A", "B", "C"], id=f"visit {n}")
            expect(ranker.rank(LEARNED, ["A", "B", "C"], id=f"visit {n}"), shown, "a list asked for twice")
            verdicts = [ranker.click(shown.id, shown.items[0]).verdict for _ in range(2)]
            expect(verdicts, ["accepted", "duplicate"], "the verdicts of a click that came twice")
            expect(ranker.settle(shown.id).clicked, shown.items[:1], "the items that were clicked")
        expect(ranker.stats().clicks, clicks + VISITS, "clicks that a ranker counted")
        expect(ranker.verify(LEARNED), True, "whether the log gives what was learned")
