"""How policies look: a colour, a dash pattern and a name for each, the same in all charts and pages.

An algorithm has its colour, and a variant of it the same colour with other dashes. There are more algorithms than
colours that everyone can tell apart, so colour and dashes together say which it is.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from clickbandit.style import COLOURS

PALETTE = tuple(light for light, _ in COLOURS.values())
DASHES = ((1, 0), (6, 3), (2, 2), (9, 3, 2, 3))
"""The dash patterns: solid, dashes, dots, both. Solid is not the empty pattern, which a scale does not take."""

_SOLID, _DASHES, _DOTS, _BOTH = range(4)
_KNOWN = {
    "batchrank": ("BatchRank", "vermillion", _DASHES),
    "batchrank:variant=experiment": ("BatchRank", "vermillion", _SOLID),
    "batchrank:bounds=hoeffding": ("BatchRank", "vermillion", _DOTS),
    "batchrank:eliminate=false": ("BatchRank", "vermillion", _DOTS),
    "cascade-kl-ucb": ("CascadeKL-UCB", "blue", _SOLID),
    "cascade-kl-ucb:feedback=last": ("CascadeKL-UCB", "blue", _SOLID),
    "cascade-kl-ucb:feedback=last,budget=log t": ("CascadeKL-UCB", "blue", _SOLID),
    "ranked-exp3": ("RankedExp3", "gray", _SOLID),
    "toprank": ("TopRank", "green", _SOLID),
    "bubblerank": ("BubbleRank", "green", _DASHES),
    "unirank": ("UniRank", "purple", _SOLID),
    "grab": ("GRAB", "purple", _DASHES),
    "rank1elim": ("Rank1Elim", "purple", _DOTS),
    "rank1elim-kl": ("Rank1ElimKL", "purple", _BOTH),
    "cascade-ucb1": ("CascadeUCB1", "lilac", _SOLID),
    "cascade-ucb-v": ("CascadeUCB-V", "lilac", _DASHES),
    "ts-cascade": ("TS-Cascade", "lilac", _DOTS),
    "cts": ("CTS", "lilac", _BOTH),
    "dcm-kl-ucb": ("dcmKL-UCB", "blue", _BOTH),
    "cascade-ducb": ("CascadeDUCB", "black", _BOTH),
    "cascade-swucb": ("CascadeSWUCB", "black", _DASHES),
    "ranked-ucb1": ("RankedUCB1", "gray", _DOTS),
    "ranked-kl-ucb": ("RankedKL-UCB", "gray", _BOTH),
    "pbm-ucb": ("PBM-UCB", "clay", _SOLID),
    "pbm-ts": ("PBM-TS", "clay", _DASHES),
    "pbm-pie": ("PBM-PIE", "clay", _DOTS),
    "random": ("random lists", "black", _DOTS),
    "optimal": ("the best list", "black", _SOLID),
}
"""For each policy of the library: its name in papers, its colour and its dashes."""
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
    for policy in sorted(policies, key=lambda policy: policy not in _KNOWN):
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
    bases = [policy.partition(":")[0] for policy in look]
    return {
        policy: one._replace(name=_KNOWN[base][0]) if base in _KNOWN and bases.count(base) == 1 else one
        for base, (policy, one) in zip(bases, look.items(), strict=True)
    }


def _turns(colour: int, dash: int) -> Iterator[tuple[int, int]]:
    """All places, from its own on: other dashes first, then other colours; its own again if all are taken."""
    for i, j in itertools.product(range(len(PALETTE)), range(len(DASHES))):
        yield (colour + i) % len(PALETTE), (dash + j) % len(DASHES)
    yield colour, dash % len(DASHES)


def _usual(policy: str) -> tuple[int, int]:
    """Which colour and which dashes a policy has if it may choose."""
    base = policy.partition(":")[0]
    known = _KNOWN.get(policy) or _KNOWN.get(base)
    if known is None:  # a user's own: told by its name, so that it is the same in all charts
        number = crc32(policy.encode())
        return number % len(PALETTE), number // len(PALETTE) % len(DASHES)
    dash = known[2] if policy in _KNOWN else known[2] + 1 + crc32(policy.encode()) % (len(DASHES) - 1)
    return list(COLOURS).index(known[1]), dash


def policy_name(policy: str) -> str:
    """A policy's name in papers, and its settings in words.

    >>> [policy_name(name) for name in ("batchrank:variant=experiment", "cascade-kl-ucb", "mine.py:Greedy:a=1")]
    ['BatchRank (experiment)', 'CascadeKL-UCB', 'mine.py:Greedy:a=1']
    """
    base, _, settings = policy.partition(":")
    if base not in _KNOWN:
        return policy
    words = [_SETTINGS.get(setting, setting) for setting in settings.split(",") if setting]
    if base == "batchrank" and "variant=" not in settings:
        words = words or ["printed"]
    return _KNOWN[base][0] + (f" ({', '.join(words)})" if words else "")
