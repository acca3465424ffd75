"""The tables of a store as this version makes them, in words that each database has its own for."""

from clickbandit.live.stores.migrations import VERSION, WORDS, later_tables
from clickbandit.live.stores.rows import PENDING, QUERY_COLUMNS

_TABLES = """
create table meta (version {int} not null, probed {int}, mark {int});
insert into meta (version) values ({version});

create table queries (
    id {key}, name {name}, policy text not null, positions {int} not null, horizon {int} not null, "window" {int},
    created {int} not null, frozen text, {counts}, prior {blob}, reward {real} not null default 0
){half_full};

create table impressions (
    number {key}, id {name}, query {int} not null, at {int} not null, expires {int} not null, source {int} not null,
    items text not null, body {blob} not null, propensities {blob}, learning {blob}, outcome {int} not null,
    clicks {int} not null, "user" text, share {real}, reward {real}, unit text, offer {int}, mark {int}, rewards text
){mostly_full};
create index due on impressions ({due}) where outcome = {pending};
create index of_user on impressions ("user") where "user" is not null;
create index marked on impressions (mark) where mark is not null;

create table events (
    number {key}, key {name}, impression text not null, item text not null, at {int} not null, late {bool} not null,
    timestamp text, reward {real}
);

create table log (
    query {int} not null, number {int} not null, records {blob} not null, at {int} not null, checksum {int},
    primary key (query, number)
){by_key};

create table snapshots (
    query {int} not null, number {int} not null, state {blob} not null, at {int} not null,
    base {bool} not null default {false}, checksum {int}, primary key (query, number)
){by_key};
create index to_prune on snapshots (at) where base = {false};

create table histories (query {int} primary key, history {blob} not null);
"""
_OWN_WORDS = {
    "sqlite": {
        "name": "text not null unique",
        "due": "expires",
        "by_key": " without rowid",
        "half_full": "",
        "mostly_full": "",
    },
    "postgresql": {
        "name": 'text not null collate "C" unique',
        "due": "expires, number",
        "by_key": "",
        "half_full": " with (fillfactor = 50)",  # rows that change stay on their pages
        "mostly_full": " with (fillfactor = 70)",
    },
}
_COUNTS = QUERY_COLUMNS[QUERY_COLUMNS.index("updated") : QUERY_COLUMNS.index("reward")]


def tables(database: str) -> str:
    """The statements that make them all."""
    words = WORDS[database] | _OWN_WORDS[database]
    counts = ", ".join(f"{name} {words['int']} not null default 0" for name in _COUNTS)
    made = _TABLES.format(**words, counts=counts, version=VERSION, pending=PENDING)
    return made + "".join(f"{statement};\n" for statement in later_tables(database))
