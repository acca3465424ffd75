"""How policies look: a colour, a dash pattern and a name for each, the same in all charts and pages.

A policy's class states its title, colour and dashes. Its variants have the same colour with other dashes, and so do its
other settings where several of them are drawn together. There are more algorithms than colours that everyone can tell
apart, so colour and dashes together say which it is.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from clickbandit import style
from clickbandit.policies.base import Policy, policy_class, policy_names

PALETTE = tuple(light for light, _ in style.COLOURS.values())
DASHES = tuple(style.DASHES.values())
_SETTINGS = {
    "variant=experiment": "experiment",
    "feedback=first": "first click",
    "feedback=last": "last click",
    "feedback=full": "all positions",
    "bounds=kl": "KL",
    "bounds=hoeffding": "Hoeffding",
    "budget=log t": "log t",
    "eliminate=false": "no elimination",
    "mixing=true": "mixing",
}
"""Settings in words; others are shown as they are spelled."""


class Look(NamedTuple):
    """What tells a policy's marks from those of others."""

    name: str
    """For people: short enough for a legend."""
    colour: str
    dash: Sequence[int]


def looks(policies: Iterable[str]) -> dict[str, Look]:
    """The look of each of these policies: its own wherever it appears, but never that of another one here.

    >>> looks(["batchrank", "cascade-kl-ucb:feedback=last"])["batchrank"]
    Look(name='BatchRank (printed)', colour='#D55E00', dash=(6, 3))
    """
    policies = list(dict.fromkeys(policies))
    places: dict[str, tuple[int, int]] = {}
    for policy in sorted(policies, key=_precedence):
        colour, dash = _usual(policy)
        for place in _turns(colour, dash):
            if place not in places.values():
                break
        places[policy] = place
    return {
        policy: Look(policy_name(policy), PALETTE[places[policy][0]], DASHES[places[policy][1]])
        for policy in policies
    }


def plain(look: Mapping[str, Look]) -> dict[str, Look]:
    """The same looks, without the settings in the name of an algorithm that is there only once.

    >>> [one.name for one in plain(looks(["batchrank", "cascade-kl-ucb:feedback=last"])).values()]
    ['BatchRank', 'CascadeKL-UCB']
    """
    kinds = [_class(policy) for policy in look]
    return {
        policy: one._replace(name=kind.title) if kind and kinds.count(kind) == 1 else one
        for kind, (policy, one) in zip(kinds, look.items(), strict=True)
    }


def _class(policy: str) -> type[Policy] | None:
    """The class of a registered policy; None for a user's own, and for one that results of the past name."""
    name = policy.partition(" within ")[0].partition(":")[0]
    return policy_class(name) if name in policy_names() else None


def _precedence(policy: str) -> int:
    """Who keeps a look that several would have: a policy, its variants, its other settings, those without a colour."""
    kind = _class(policy)
    if kind is None or not kind.colour:
        return 3
    if " within " in policy:
        return 2
    return 0 if ":" not in policy else 1 if "variant=" in policy else 2


def _turns(colour: int, dash: int) -> Iterator[tuple[int, int]]:
    """All places, from its own on: other dashes first, then other colours; its own again if all are taken."""
    for i, j in itertools.product(range(len(PALETTE)), range(len(DASHES))):
        yield (colour + i) % len(PALETTE), (dash + j) % len(DASHES)
    yield colour, dash % len(DASHES)


def _usual(policy: str) -> tuple[int, int]:
    """Which colour and which dashes a policy has if it may choose."""
    kind = _class(policy)
    number = crc32(policy.encode())
    if kind is None or not kind.colour:  # derived from its name, so that it is the same in all charts
        return number % len(PALETTE), number // len(PALETTE) % len(DASHES)
    colour, _, dashes = kind.colour.partition(" ")
    shift = 1 + number % (len(DASHES) - 1) if "variant=" in policy else 0
    return list(style.COLOURS).index(colour), list(style.DASHES).index(dashes or "solid") + shift


def policy_name(policy: str) -> str:
    """A policy's name in papers, and its settings in words.

    >>> [policy_name(name) for name in ("batchrank:variant=experiment", "cascade-kl-ucb", "mine.py:Greedy:a=1")]
    ['BatchRank (experiment)', 'CascadeKL-UCB', 'mine.py:Greedy:a=1']
    """
    kind = _class(policy)
    if kind is None:
        return policy
    explorer, within, loss = policy.partition(" within ")
    settings = explorer.partition(":")[2]
    words = [_SETTINGS.get(setting, setting) for setting in settings.split(",") if setting]
    if not words and hasattr(kind, "variant"):
        words = [kind.variant]
    words += [f"within {float(loss):.3g}"] if within else []
    return kind.title + (f" ({', '.join(words)})" if words else "")
