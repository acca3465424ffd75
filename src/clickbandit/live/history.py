"""How a query came to know what it knows: its groups of items over time, why items left, and clicks per impression.

One small document for each query, written in the transaction of what it tells of. A policy's `describe` is what
there is to compare, and it says itself for how many impressions nothing can change, so looking costs next to nothing
(docs/decisions/0011-page.md). Everything in it is bounded: of frames the last ones are kept, of points every other
one goes when there are too many.
"""

import json
from typing import Any

from clickbandit.live.comparison import LEAST_CERTAINTY, certainty
from clickbandit.live.learner import Learner
from clickbandit.live.stores.rows import DIVIDED, FINISHED, SURE, UNDIVIDED, QueryRow

MAX_FRAMES = 200
MAX_POINTS = 240
MAX_BYTES = 100_000
"""About, of all frames, and of all evidence."""
LOOK_AGAIN = 8
"""Records between two looks at least: close to a decision a policy would have us look at every one."""
_ASK_AFTER = 500

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_EVIDENCE = ("observed", "clicks", "estimate", "low", "high")


class LearnerReport:
    """What a learner says of itself at one moment."""

    def __init__(self, row: QueryRow, learner: Learner, now: int) -> None:
        said = learner.divided()
        self.groups = [
            {key: group[key] for key in ("first", "last", "stage", "items") if key in group}
            for group in said.get("groups", ())
        ]
        self.items = {entry["item"]: entry for entry in said.get("items", ())}
        self.eliminated = [name for name, entry in self.items.items() if entry.get("eliminated")]
        self.frozen = row.frozen is not None
        self.generation = learner.generation
        self.now, self.learned = now, row.learned
        if said.get("settled"):
            self.progress = FINISHED
        elif learner.items and not learner.algorithm.divides:
            self.progress = _certainty(row, learner)
        else:
            shown = [group for group in self.groups if "first" in group]
            self.progress = DIVIDED if len(shown) > 1 or self.eliminated else UNDIVIDED
        wait = said.get("next_decision", 0)
        self.look_at = learner.number + max(wait, LOOK_AGAIN) if wait else None
        """The number of a record before which nothing changes; None if that is not known."""

    @property
    def signature(self) -> Any:
        """Two looks with the same one are the same frame."""
        return (self.generation, self.frozen, self.groups, self.eliminated)

    def frame(self) -> dict[str, Any]:
        return {
            "at": self.now,
            "learned": self.learned,
            "generation": self.generation,
            "frozen": self.frozen,
            "groups": self.groups,
            "eliminated": self.eliminated,
        }


class History:
    """A query's document."""

    def __init__(self, written: bytes | None = None) -> None:
        document = json.loads(written) if written else {}
        self.frames: list[dict[str, Any]] = document.get("frames", [])
        """How the items were grouped, whenever that changed."""
        self.evidence: dict[str, dict[str, Any]] = document.get("evidence", {})
        """For each eliminated item what was known of it when it left."""
        self.points: list[list[Any]] = document.get("points", [])
        """Now and then: the time, and how many impressions had settled by then, what they had earned."""

    def to_bytes(self) -> bytes:
        document = {"frames": self.frames, "evidence": self.evidence, "points": self.points}
        return _write(document).encode()

    def add(self, look: LearnerReport) -> bool:
        """Remember a look, if it is not what was seen last; whether it was."""
        last = self.frames[-1] if self.frames else None
        if last is not None and look.signature == (
            last["generation"],
            last["frozen"],
            last["groups"],
            last["eliminated"],
        ):
            return False
        self.frames.append(look.frame())
        self.frames = _last(self.frames[-MAX_FRAMES:])
        known = {} if last is None or last["generation"] != look.generation else self.evidence
        kept = {name: known[name] if name in known else _evidence(look, name) for name in look.eliminated}
        self.evidence = dict(_last(list(kept.items())))
        return True

    def count(self, row: QueryRow, now: int) -> None:
        """Remember what was earned so far."""
        self.points.append([now, row.settled, row.reward])
        if len(self.points) > MAX_POINTS:
            del self.points[1:-1:2]


def _certainty(row: QueryRow, learner: Learner) -> int:
    """How far a policy without groups is, which takes a while to say: asked when twice as much was learned."""
    if row.learned < learner.ask_at:
        return row.progress
    learner.ask_at = 2 * max(row.learned, _ASK_AFTER)
    sure = certainty(learner.describe(), learner.best())
    return SURE if sure is not None and sure >= LEAST_CERTAINTY else UNDIVIDED


def _evidence(look: LearnerReport, name: str) -> dict[str, Any]:
    entry = look.items[name]
    evidence = {key: entry[key] for key in _EVIDENCE if key in entry}
    if "high" in entry:
        others = [other for other in look.items.values() if not other.get("eliminated")]
        evidence["worse_than"] = sum(other["low"] > entry["high"] for other in others)
    return {"at": look.now, "learned": look.learned, **evidence}


def _last(entries: list[Any]) -> list[Any]:
    """As many of the last of these as there is room for, one at least."""
    size, first = 0, len(entries)
    while first > 0 and (size == 0 or size < MAX_BYTES):
        first -= 1
        size += len(_write(entries[first]))
    return entries[first:]
