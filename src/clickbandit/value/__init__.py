"""What other lists, or another policy, would have earned: estimated from decisions that were logged."""

from clickbandit.value.decisions import Decisions as Decisions
from clickbandit.value.decisions import read_decisions as read_decisions
from clickbandit.value.lists import Valuation as Valuation
from clickbandit.value.lists import value_of_lists as value_of_lists
from clickbandit.value.replay import Replayed as Replayed
from clickbandit.value.replay import replay as replay
