"""A ranker that learns from real clicks, embedded in a program or as a service, and loses nothing.

The names are imported when they are first used, so that a client of the service need not wait for numba.
"""

import importlib
from typing import TYPE_CHECKING

from clickbandit.extras import explained
from clickbandit.live.values import Conflict as Conflict
from clickbandit.live.values import Event as Event
from clickbandit.live.values import Shown as Shown
from clickbandit.live.values import StoreError as StoreError
from clickbandit.live.values import Unknown as Unknown
from clickbandit.live.values import Verdict as Verdict

if TYPE_CHECKING:
    from clickbandit.live.async_ranker import AsyncRanker as AsyncRanker
    from clickbandit.live.http.client import Client as Client
    from clickbandit.live.ranker import Ranker as Ranker

_HOMES = {"AsyncRanker": "async_ranker", "Client": "http.client", "Ranker": "ranker"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        with explained():
            return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
