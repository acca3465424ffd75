"""What events are worth beyond clicks, and what a policy that learns from clicks is told of it.

An item of a list earns what its events are worth together: its click once, every other event each time. A policy is
told a yes or no for each item, and yes has the probability earned / most, so that what it learns of clicks it learns of
rewards. Two draws decide, both made of the impression's id, so that they come out the same whenever they are made. The
first says what the impression is about: its clicks, with probability click / most, or else its other events. If it is
about clicks these are the answer, known when the window ends. Else the second draw, for each item, says yes with the
probability other / (most - click), where `other` is what its other events earned; that is known when the conversion
window ends (docs/decisions/0016-rewards.md).
"""

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from clickbandit.errors import InputError

CLICK = "click"
MAX_ACTION = 100
"""Characters in the name of an action."""
MAX_AMOUNT = 1e12


class Rewards(NamedTuple):
    """What events are worth."""

    worth: Mapping[str, float]
    """By action."""
    most: float
    """That an item can earn in an impression; from events other than clicks, this less a click's worth. More is
    counted, but not learned from."""

    @property
    def click(self) -> float:
        return self.worth.get(CLICK, 0.0)

    def of(self, action: str, amount: float | None) -> float:
        """What an event is worth; that of a click has no amount."""
        return self.worth.get(action, 0.0) * (1.0 if amount is None or action == CLICK else amount)

    def is_about_clicks(self, id: str) -> bool:
        """Whether what is learned from an impression are its clicks; else its other events."""
        return _uniform(id.encode(), b"about") < self.click / self.most

    def draw(self, id: str, items: Sequence[str], earned: Sequence[float]) -> int:
        """A bit for each item of an impression, 1 with the probability that its other events earned.

        >>> Rewards({"purchase": 10.0}, 10.0).draw("visit", ["A", "B", "C"], [0.0, 10.0, 0.0])
        2
        """
        other = self.most - self.click
        drawn = (_uniform(f"{id}\0{item}".encode(), b"reward") for item in items)
        return sum((u < one / other) << k for k, (u, one) in enumerate(zip(drawn, earned, strict=True)))


def _uniform(text: bytes, person: bytes) -> float:
    """From 0 to below 1, the same for the same text."""
    return int.from_bytes(blake2b(text, digest_size=6, person=person).digest(), "little") / 2**48


def parse_rewards(text: str | None, most: float | None) -> Rewards | None:
    """Rewards as they are set; None if clicks alone are learned from.

    >>> parse_rewards("click=1,add_to_cart=3,purchase=10", None)
    Rewards(worth={'click': 1.0, 'add_to_cart': 3.0, 'purchase': 10.0}, most=14.0)
    """
    if text is None:
        if most is not None:
            raise InputError("max_reward is of rewards, and there are none: give rewards too")
        return None
    worth: dict[str, float] = {}
    for part in text.split(","):
        action, _, value = (piece.strip() for piece in part.partition("="))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (action and len(action) <= MAX_ACTION and action not in worth and 0 <= number <= MAX_AMOUNT):
            raise InputError(
                f"rewards must be a number from 0 for each action once, as in click=1,purchase=10, found {part!r}"
            )
        worth[action] = number
    found = Rewards(worth, sum(worth.values()) if most is None else most)
    others = any(worth[action] > 0 for action in worth if action != CLICK)
    if not found.click <= found.most < math.inf or found.most == 0 or (others and found.click == found.most):
        raise InputError(
            f"max_reward must be more than a click is worth, {found.click:g}, found {found.most:g}"
        )
    return found


def added(earned: Sequence[float] | None, n_items: int, more: Mapping[int, float]) -> list[float]:
    """What items earned, by position, with `more` added.

    >>> added(None, 3, {1: 2.5})
    [0.0, 2.5, 0.0]
    """
    start = [0.0] * n_items if earned is None else earned
    return [one + more.get(k, 0.0) for k, one in enumerate(start)]


def check_amount(value: object) -> float | None:
    """How many times its reward an event is worth."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_AMOUNT:
        raise InputError(f"amount must be a number from 0 to {MAX_AMOUNT:g}, found {repr(value)[:50]}")
    return float(value)
