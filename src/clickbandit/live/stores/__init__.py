"""Where everything is kept: the contract of a store, and stores in SQLite and PostgreSQL."""

from pathlib import Path

from clickbandit.errors import InputError
from clickbandit.live.stores.contract import Store


def open_store(url: str) -> Store:
    """The store that a URL names."""
    if url.startswith("sqlite:///"):
        from clickbandit.live.stores.sqlite import SqliteStore

        return SqliteStore(Path(url.removeprefix("sqlite:///")))
    if url.startswith(("postgresql://", "postgres://")):
        from clickbandit.live.stores.postgres import PostgresStore

        return PostgresStore(url)
    raise InputError(
        "a store must be sqlite:///FILE, such as sqlite:///clicks.db, or postgresql://USER@HOST/DATABASE, "
        f"found {url.partition('://')[0]}://..."
        if "://" in url
        else f"a store must be a URL such as sqlite:///clicks.db or postgresql://USER@HOST/DATABASE, found {url!r}"
    )
