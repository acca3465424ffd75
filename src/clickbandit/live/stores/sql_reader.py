"""What readers of a database ask, written once for SQLite and PostgreSQL."""

from collections.abc import Iterable

from clickbandit.intervals import Units
from clickbandit.live.stores.database import Database, columns
from clickbandit.live.stores.reading import ArmSums, Decision, Delay, Listing, Totals
from clickbandit.live.stores.rows import (
    DIVIDED,
    FINISHED,
    IMPRESSION_COLUMNS,
    PENDING,
    QUERY_COLUMNS,
    SETTLED,
    SILENT_AFTER,
    STUCK_AFTER,
    SURE,
    ImpressionRow,
    LogRow,
    QueryRow,
    Snapshot,
)
from clickbandit.live.values import State

STATE = f"""case when frozen is not null then 'frozen' when progress = {FINISHED} then 'settled'
    when idle >= {STUCK_AFTER} or learned >= {SILENT_AFTER} and settled >= {SILENT_AFTER} and clicks = 0 then 'stuck'
    when progress = {DIVIDED} then 'splitting' else 'exploring' end"""
"""A query's state, as `views.state` has it in Python."""
QUERY = columns(QUERY_COLUMNS)
IMPRESSION = columns(IMPRESSION_COLUMNS)
SNAPSHOT = f"select {columns(Snapshot._fields)} from snapshots where query = ? and number"
LOG = f"select {columns(LogRow._fields)} from log where query = ? and number > ? order by number"
DECISION = f"""
    select impressions.number, mark, impressions.id, impressions.at, name, offers.items, impressions.items, source,
        propensities, impressions.clicks, impressions.reward, rewards, "user", coalesce(offers.policy, queries.policy),
        coalesce(offers.positions, queries.positions), coalesce(offers.horizon, queries.horizon), seed
    from impressions join queries on queries.id = impressions.query left join offers on offers.id = offer
    where outcome = {SETTLED} and"""
"""Settled impressions as `Decision` has them."""
_COMPARED = """
    select share, held_out, sum(case when unit = '' then impressions else 1 end), sum(impressions), sum(clicks),
        sum(case when unit = '' then impressions else impressions * impressions end),
        sum(case when unit = '' then clicks else impressions * clicks end),
        sum(case when unit = '' then squares else clicks * clicks end)
    from (
        select share, held_out, unit, sum(impressions) as impressions, sum(clicks) as clicks, sum(squares) as squares
        from comparisons where length = ? and start = ? and by_user = ? {} group by share, held_out, unit
    ) as units group by share, held_out order by share, held_out"""


class SqlReader:
    """Reads through a connection of its own. See `contract.Reader`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def queries(self, listing: Listing) -> tuple[list[QueryRow], int]:
        wanted = {
            f"{self._database.position_of}(lower(name), lower(?)) > 0": listing.search,
            f"{STATE} = ?": listing.state,
        }
        conditions = [condition for condition, value in wanted.items() if value]
        where = f"where {' and '.join(conditions)}" if conditions else ""
        given = [value for value in wanted.values() if value]
        (total,) = self._database.row(f"select count(*) from queries {where}", given) or (0,)
        column = "name" if listing.sort == "query" else listing.sort
        order = f"order by {column} {'desc' if listing.descending else 'asc'}, name"
        page = f"select id from queries {where} {order} limit ? offset ?"  # sorts no more than it must
        rows = self._database.rows(
            f"select {QUERY} from queries where id in ({page}) {order}",
            (*given, listing.limit, listing.offset),
        )
        return [QueryRow(*row) for row in rows], int(total)

    def query(self, name: str) -> tuple[QueryRow, bytes | None] | None:
        row = self._database.row(
            f"select {QUERY}, history from queries left join histories on query = id where name = ?", (name,)
        )
        return None if row is None else (QueryRow(*row[:-1]), row[-1])

    def next_query(self, after: int) -> tuple[int, str] | None:
        row = self._database.row("select id, name from queries where id > ? order by id limit 1", (after,))
        return None if row is None else (row[0], row[1])

    def snapshot(self, query: int, after: int) -> Snapshot | None:
        row = self._database.row(f"{SNAPSHOT} > ? order by number limit 1", (query, after))
        return None if row is None else Snapshot(*row)

    def log(self, query: int, after: int, limit: int) -> Iterable[LogRow]:
        return [LogRow(*row) for row in self._database.rows(f"{LOG} limit ?", (query, after, limit))]

    def recent(self, query: int, among: int, limit: int) -> list[ImpressionRow]:
        rows = self._database.rows(
            f"select {IMPRESSION} from impressions where query = ? "
            "and number > (select max(number) from impressions) - ? order by number desc limit ?",
            (query, among, limit),
        )
        return [ImpressionRow(*row) for row in rows]

    def totals(self) -> Totals:
        sums = ", ".join(f"cast(coalesce(sum({name}), 0) as bigint)" for name in Totals._fields[4:-1])
        known = "2 * (impressions - settled - voided) <= learned"  # not `comparison.is_early`
        sure = f"count(*) filter (where frozen is null and progress in ({FINISHED}, {SURE}) and {known})"
        row = self._database.row(
            f"select count(*), count(*) filter (where learned > horizon), count(frozen), {sure}, {sums}, "
            "coalesce(sum(reward), 0.0) from queries"
        )
        return Totals(*(row or ()))

    def compared(self, length: int, start: int, by_user: bool, query: str | None = None) -> list[ArmSums]:
        one = "" if query is None else "and query = (select id from queries where name = ?)"
        values = (length, start, by_user, *([] if query is None else [query]))
        return [
            ArmSums(share, bool(held_out), Units(*map(float, sums)))
            for share, held_out, *sums in self._database.rows(_COMPARED.format(one), values)
        ]

    def decisions(self, since: int, limit: int) -> list[Decision]:
        until = self._database.last_mark()
        some = "select mark from impressions where mark > ? and mark <= ? order by mark limit ?"
        row = self._database.row(f"select max(mark) from ({some}) as found", (since, until, limit))
        if row is None or row[0] is None:
            return []
        rows = self._database.rows(
            f"{DECISION} mark > ? and mark <= ? order by mark, impressions.number", (since, row[0])
        )
        return [Decision(*row) for row in rows]

    def states(self) -> dict[State, int]:
        return dict(self._database.rows(f"select {STATE}, count(*) from queries group by 1"))

    def delays(self, among: int) -> list[Delay]:
        rows = self._database.rows(
            "select events.at - impressions.at, late from events join impressions on id = impression "
            "where events.number > (select max(number) from events) - ?",
            (among,),
        )
        return [Delay(milliseconds, bool(late)) for milliseconds, late in rows]

    def next_due(self) -> int | None:
        row = self._database.row(
            f"select expires from impressions where outcome = {PENDING} order by expires limit 1"
        )
        return None if row is None else row[0]

    def oldest(self) -> int | None:
        row = self._database.row("select at from impressions order by number limit 1")
        return None if row is None else row[0]

    def size(self) -> int:
        return self._database.size()

    def close(self) -> None:
        self._database.close()
