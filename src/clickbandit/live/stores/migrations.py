"""Tables that an earlier version made, brought up to date in place: the steps, in words that both databases know.

Where workers of the version before can go on while others are replaced, every step only adds what may be empty.
"""

from clickbandit.errors import InputError

VERSION = 6
"""Of the tables."""
WORDS = {
    "sqlite": {
        "blob": "blob",
        "int": "integer",
        "bool": "integer",
        "real": "real",
        "key": "integer primary key",
        "true": "1",
        "false": "0",
    },
    "postgresql": {
        "blob": "bytea",
        "int": "bigint",
        "bool": "boolean",
        "real": "double precision",
        "key": "bigint generated always as identity primary key",
        "true": "true",
        "false": "false",
    },
}
"""What each database calls the types and values of tables."""
_TABLES = (
    """create table comparisons (
    number {key}, query {int} not null, length {int} not null, start {int} not null, share {real} not null,
    held_out {bool} not null, by_user {bool} not null, unit text not null, impressions {int} not null,
    clicks {real} not null, squares {real} not null
)""",
    "create unique index compared on comparisons (query, length, start, share, held_out, by_user, unit)",
    "create index of_period on comparisons (length, start, by_user)",
    "create index of_unit on comparisons (unit) where unit != ''",
    """create table offers (
    id {int} primary key, query {int} not null, items text not null, policy text not null, positions {int} not null,
    horizon {int} not null, seed {int} not null, at {int} not null
)""",
    "create index of_query on offers (query)",
)
BATCHES = (
    "create table batches (number integer primary key, written blob not null, checksum integer not null)",
    "alter table queries add column batch integer",
)
"""Of SQLite alone: see `stores.behind`. A query's `batch` is the last one of which all about it was put."""
_IN_USE = "create index in_use on offers (at)"
_FORMER = tuple(f"{arm}{sum_}" for arm in ("treated", "held_out") for sum_ in ("", "_clicks", "_squares"))
"""Of queries: all that was compared, whatever the share, as sums of their own."""
STEPS: dict[int, tuple[str, ...]] = {
    2: (
        "alter table meta add column probed bigint",
        "alter table queries add column prior {blob}",
        'alter table impressions add column "user" text',
        "alter table impressions add column share double precision",
        "alter table impressions add column context {blob}",
        "alter table impressions add column features {blob}",
        "alter table impressions add column reward double precision",
        "alter table impressions add column unit text",
        "alter table impressions add column offer bigint",
        "alter table impressions add column mark bigint",
        "alter table meta add column mark bigint",
        "update impressions set mark = 1 where outcome = 1",
        "create index marked on impressions (mark) where mark is not null",
        "alter table events add column reward double precision",
        "alter table log add column checksum bigint",
        "alter table snapshots add column checksum bigint",
        'create index of_user on impressions ("user") where "user" is not null',
        *_TABLES,
        *(
            "insert into comparisons "
            "(query, length, start, share, held_out, by_user, unit, impressions, clicks, squares) "
            f"select id, 0, 0, share, {held_out}, {{false}}, '', {arm}, {arm}_clicks, {arm}_squares from queries, "
            "(select sum(held_out) * 1.0 / sum(treated + held_out) as share from queries) as held "
            f"where {arm} > 0 and share > 0 and share < 1"
            for arm, held_out in (("treated", "{false}"), ("held_out", "{true}"))
        ),
    ),
    3: (_IN_USE,),
    4: (
        "alter table impressions add column rewards text",
        "alter table queries add column reward double precision not null default 0",
        "update queries set reward = clicks",
    ),
    5: (),
}
"""By the version that they start from."""
_OWN: dict[tuple[str, int], tuple[str, ...]] = {
    ("sqlite", 2): (
        "update meta set mark = 1",
        *(f"alter table queries drop column {name}" for name in _FORMER),
        "alter table impressions drop column compared",
    ),
    ("postgresql", 2): (
        "alter table impressions alter column compared set default false",
        "create sequence marks",
        "select nextval('marks')",
    ),
    ("sqlite", 3): (),
    ("postgresql", 3): (),
    ("sqlite", 4): (
        "alter table impressions drop column context",
        "alter table impressions drop column features",
    ),
    ("postgresql", 4): (
        "alter table comparisons alter column clicks type double precision",
        "alter table comparisons alter column squares type double precision",
    ),
    ("sqlite", 5): BATCHES,
    ("postgresql", 5): (),
}
"""By the database too."""


def later_tables(database: str) -> list[str]:
    """The statements that make the tables that version 2 did not have."""
    return _filled((*_TABLES, _IN_USE, *_OWN[database, 5]), database)


def steps(store: str, version: int | None, database: str) -> list[str]:
    """The statements that bring tables of a version up to date, none if they are."""
    if version is None:
        raise InputError(
            f"{store} must hold the tables of a ranker or none, found other tables: name another"
        )
    if version > VERSION:
        raise InputError(
            f"{store} was written by a later version of clickbandit: this one knows tables of version {VERSION}, found "
            f"{version}: install the later one, or start from the backup that its upgrade left"
        )
    if version < min(STEPS):
        raise InputError(
            f"{store} must hold tables of version {min(STEPS)} or later, found {version}: name another"
        )
    found = [(*STEPS[past], *_OWN[database, past]) for past in range(version, VERSION)]
    return [step for some in found for step in _filled(some, database)]


def _filled(some: tuple[str, ...], database: str) -> list[str]:
    return [step.format(**WORDS[database]) for step in some]
