"""A store that is opened when it is there: a service can start before its database, and serves lists without it."""

from typing import Any, cast

from clickbandit.errors import InputError
from clickbandit.live.stores import open_store
from clickbandit.live.stores.contract import Store
from clickbandit.live.values import StoreError, Unreachable


def open_when_there(url: str) -> Store:
    """The store that a URL names, opened now or later; what cannot be right later either is said now."""
    return cast(Store, _LateStore(url))


class _LateStore:
    """Everything is the store's own, once that is there."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None
        try:
            self._store = open_store(url)
        except Unreachable as error:
            self._why = str(error)

    def _opened(self) -> Store:
        if self._store is None:
            raise StoreError(self._why)
        return self._store

    def probe(self) -> None:
        if self._store is None:
            try:
                self._store = open_store(self._url)
            except InputError as error:
                self._why = str(error)
        self._opened().probe()

    def rollback(self) -> None:
        if self._store is not None:
            self._store.rollback()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)
