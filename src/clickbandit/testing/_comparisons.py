"""What a store must keep of comparisons."""

from clickbandit.intervals import Units
from clickbandit.live.stores.contract import Changes, Store
from clickbandit.live.stores.reading import ArmSums, Reader
from clickbandit.live.stores.rows import DAY, WEEK, ComparisonRow


def check_comparisons(store: Store, reader: Reader, names: tuple[str, str], ids: tuple[int, int]) -> None:
    """Sums are added to, a user is one unit in all queries, and what is old or forgotten is gone."""
    one, other = ids
    by_impression = [
        ComparisonRow(one, DAY, DAY, 0.05, False, False, "", 3, 2, 4),
        ComparisonRow(one, DAY, DAY, 0.05, True, False, "", 1, 1, 1),
        ComparisonRow(other, DAY, DAY, 0.05, False, False, "", 10, 20, 60),
        ComparisonRow(one, 0, 0, 0.5, False, False, "", 7, 0, 0),
    ]
    by_user = [
        ComparisonRow(one, WEEK, 4 * DAY, 0.05, False, True, "me", 3, 2, 4),
        ComparisonRow(other, WEEK, 4 * DAY, 0.05, False, True, "me", 1, 1, 1),
        ComparisonRow(other, WEEK, 4 * DAY, 0.05, False, True, "you", 2, 2, 2),
        ComparisonRow(other, WEEK, 4 * DAY, 0.05, False, True, "", 5, 2, 4),
    ]

    def save(changes: Changes) -> None:
        store.begin()
        store.lock(names, (), (), 1000)
        store.save(changes)
        store.commit()

    def expect(found: list[ArmSums], *arms: tuple[float, bool, Units]) -> None:
        expected = [ArmSums(*arm) for arm in arms]
        assert sorted(found) == expected, f"what is compared: expected {expected}, found {found}"

    save(Changes(comparisons=by_impression + by_user))
    save(Changes(comparisons=by_impression[:1]))
    mine = (0.05, False, Units(6, 6, 4, 6, 4, 8)), (0.05, True, Units(1, 1, 1, 1, 1, 1))
    expect(reader.compared(DAY, DAY, False, names[0]), *mine)
    expect(reader.compared(DAY, DAY, False), (0.05, False, Units(16, 16, 24, 16, 24, 68)), mine[1])
    expect(reader.compared(DAY, 0, False))
    expect(reader.compared(0, 0, False), (0.5, False, Units(7, 7, 0, 7, 0, 0)))
    # me with 4 impressions and 3 clicks, you with 2 and 2, and five of nobody
    expect(reader.compared(WEEK, 4 * DAY, True), (0.05, False, Units(7, 11, 7, 25, 18, 17)))
    save(Changes(forgotten_users=["me"]))
    expect(reader.compared(WEEK, 4 * DAY, True), (0.05, False, Units(6, 7, 4, 9, 6, 8)))
    store.prune(9 * DAY, 1000)
    expect(reader.compared(DAY, DAY, False))
    assert reader.compared(WEEK, 4 * DAY, True), (
        "a week's comparison is pruned a week after it began at the earliest"
    )
    store.prune(12 * DAY, 1000)
    expect(reader.compared(WEEK, 4 * DAY, True))
    assert reader.compared(0, 0, False), "the comparison of all time is never pruned"
