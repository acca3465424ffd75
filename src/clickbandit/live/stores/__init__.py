"""Where everything is kept: the contract of a store, and stores in SQLite and PostgreSQL."""

from pathlib import Path

from clickbandit.errors import InputError
from clickbandit.live.stores.contract import Store
from clickbandit.live.stores.reading import Reader


def open_store(url: str) -> Store:
    """The store that a URL names."""
    if url.startswith("sqlite:///"):
        from clickbandit.live.stores.sqlite import SqliteStore

        return SqliteStore(Path(url.removeprefix("sqlite:///")))
    if url.startswith(("postgresql://", "postgres://")):
        from clickbandit.live.stores.postgres import PostgresStore

        return PostgresStore(url)
    raise _no_url(url)


def open_reader(url: str) -> Reader:
    """Reads the store that a URL names, also while it is served."""
    if url.startswith("sqlite:///"):
        from clickbandit.live.stores.sqlite import open_file

        return open_file(Path(url.removeprefix("sqlite:///")))
    if url.startswith(("postgresql://", "postgres://")):
        from clickbandit.live.stores.postgres import open_database

        return open_database(url)
    raise _no_url(url)


def _no_url(url: str) -> InputError:
    return InputError(
        "a store must be sqlite:///FILE, such as sqlite:///clicks.db, or postgresql://USER@HOST/DATABASE, "
        f"found {url.partition('://')[0]}://..."
        if "://" in url
        else f"a store must be a URL such as sqlite:///clicks.db or postgresql://USER@HOST/DATABASE, found {url!r}"
    )
