"""A ranker that learns from real clicks, embedded in a program or as a service, and loses nothing."""

from clickbandit.live.ranker import AsyncRanker as AsyncRanker
from clickbandit.live.ranker import Ranker as Ranker
from clickbandit.live.types import Conflict as Conflict
from clickbandit.live.types import Event as Event
from clickbandit.live.types import Shown as Shown
from clickbandit.live.types import StoreError as StoreError
from clickbandit.live.types import Unknown as Unknown
from clickbandit.live.types import Verdict as Verdict
