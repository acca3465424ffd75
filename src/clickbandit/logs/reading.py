"""What was read from a log: how much was used, and what was left out or odd, each kind counted and explained."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clickbandit.errors import InputError

EXPLANATIONS = {
    "malformed lines": "skipped: not a line of this format",
    "clicks on nothing shown": "dropped: no list shown earlier in the session has the item",
    "repeated clicks": "the same position clicked again: counted once",
    "empty lists": "dropped: nothing was shown",
    "lists longer than 64": "dropped: at most 64 positions are counted",
    "lists with an item twice": "kept: a click counts for the item's first position",
    "broken impressions": "dropped: positions are not 1, 2, .. once each, or a row is malformed",
    "files without a last line end": "the last line was read as it is, and may be incomplete",
    "files without a session": "nothing in them could be used",
    "files cut short": "the compressed data ended early: what came before was read",
}
"""Every kind of oddity that formats count, and what was done about it; saved counts hold these names."""

MAX_EXAMPLES = 10
"""How many malformed lines are kept to be shown."""


@dataclass
class Reading:
    """What was read from a log.

    >>> reading = Reading(sessions=2, clicks=3)
    >>> reading.note("repeated clicks", 1)
    >>> print(reading)
    2 sessions, 3 clicks
    1 repeated clicks (the same position clicked again: counted once)
    """

    sessions: int = 0
    """Lists shown."""
    clicks: int = 0
    """Positions clicked, each at most once in a session."""
    lines: int = 0
    """Lines or rows."""
    files: int = 0
    odd: Counter[str] = field(default_factory=Counter)
    """How often each of `EXPLANATIONS` occurred."""
    malformed: list[str] = field(default_factory=list)
    """The first malformed lines: file, number and what is wrong."""

    def note(self, oddity: str, times: int) -> None:
        """Count an oddity."""
        assert oddity in EXPLANATIONS, oddity
        if times:
            self.odd[oddity] += times

    def note_malformed(
        self, where: str, problems: Sequence[tuple[int, str]], total: int, strict: bool
    ) -> None:
        """Count malformed lines, the first of which are given with their numbers; fail at once if `strict`."""
        if problems and strict:
            line, problem = problems[0]
            raise InputError(
                f"{where}:{line}: malformed line: {problem}; correct it, or read without --strict"
            )
        self.note("malformed lines", total)
        self.malformed += [f"{where}:{line}: {problem}" for line, problem in problems]
        del self.malformed[MAX_EXAMPLES:]

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(
            self.sessions + other.sessions,
            self.clicks + other.clicks,
            self.lines + other.lines,
            self.files + other.files,
            self.odd + other.odd,
            (self.malformed + other.malformed)[:MAX_EXAMPLES],
        )

    def as_dict(self) -> dict[str, Any]:
        """The reading as plain data."""
        return {
            "sessions": self.sessions,
            "clicks": self.clicks,
            "lines": self.lines,
            "files": self.files,
            "odd": {name: self.odd[name] for name in EXPLANATIONS if self.odd[name]},
            "malformed": self.malformed,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Reading":
        """The reading that `as_dict` gave."""
        return cls(**{**data, "odd": Counter(data["odd"])})

    def __str__(self) -> str:
        parts = [f"{self.sessions:,} sessions, {self.clicks:,} clicks"]
        parts += [
            f"{self.odd[name]:,} {name} ({why})" for name, why in EXPLANATIONS.items() if self.odd[name]
        ]
        parts += [f"  {line}" for line in self.malformed]
        return "\n".join(parts)
