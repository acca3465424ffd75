"""What was read from a log: how much was used, and what was left out or odd, each kind counted and explained."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clickbandit.errors import InputError, shortened
from clickbandit.wording import counted

EXPLANATIONS = {
    "malformed lines": "skipped: not a line of this format",
    "clicks on nothing shown": "dropped: no list shown earlier in the session has the item",
    "repeated clicks": "the same position clicked again: counted once",
    "empty lists": "dropped: nothing was shown",
    "lists longer than 64": "dropped: at most 64 positions are counted",
    "lists with an item twice": "kept: a click counts for the item's first position",
    "rows that are copies": "dropped: another row says exactly the same",
    "rows that repeat a result": "the same result again: counted once, clicked if any of its rows says so",
    "impressions without a query": "dropped: none of their rows names it",
    "impressions of two queries": "dropped: their rows disagree",
    "impressions without a first position": "dropped: nothing is known of the top of the list",
    "impressions with a gap": "kept up to the first position of which nothing, or two different things, are known",
    "broken impressions": "dropped, by the version that saved these counts: a row was malformed or missing",
    "events of other kinds": "not used: neither impressions nor clicks",
    "files with positions from 0": "counted from 1",
    "files without a last line end": "the last line was read as it is, and may be incomplete",
    "files without a session": "nothing in them could be used",
    "files cut short": "the compressed data ended early: what came before was read",
}
"""Every kind of oddity that formats count, and what was done about it; saved counts hold these names."""

WARNING_SHARE = 0.01
"""Which share of lines or lists may be dropped without a word of warning."""
_LOST_LISTS = (
    *("empty lists", "lists longer than 64", "impressions without a query"),
    *("impressions of two queries", "impressions without a first position"),
)
_MAX_LENGTH = 120  # of an example
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
    causes: Counter[str] = field(default_factory=Counter)
    """How many malformed lines have which problem."""
    lost: list[str] = field(default_factory=list)
    """Some of the lists that were dropped, and why; they are not kept with saved counts."""

    def note(self, oddity: str, times: int) -> None:
        """Count an oddity."""
        assert oddity in EXPLANATIONS, oddity
        if times:
            self.odd[oddity] += times

    def note_malformed(
        self, where: str, problems: Sequence[tuple[int, str, str]], causes: Mapping[str, int], strict: bool
    ) -> None:
        """Count malformed lines by cause, the first of which are given with their numbers and, where it is known, what
        they say; fail at once if `strict`."""
        if problems and strict:
            line, problem, _ = problems[0]
            raise InputError(
                f"{where}:{line}: malformed line: {problem}; correct it, or read without --strict"
            )
        self.note("malformed lines", sum(causes.values()))
        self.causes.update(causes)
        self.malformed += [
            f"{where}:{line}: {problem}" + (f": {_short(text)}" if text else "")
            for line, problem, text in problems
        ]
        del self.malformed[MAX_EXAMPLES:]

    def note_lost(self, lists: Iterable[str]) -> None:
        """Keep examples of lists that were dropped."""
        self.lost = [*self.lost, *map(_short, lists)][:MAX_EXAMPLES]

    @property
    def dropped(self) -> str | None:
        """A sentence if more than 1% of lines or of lists were dropped."""
        lost = sum(self.odd[name] for name in _LOST_LISTS)
        lines, n_lists = self.odd["malformed lines"], self.sessions + lost
        parts, shown = [], []
        for times, total, what in ((lines, self.lines, "lines"), (lost, n_lists, "lists")):
            if times > WARNING_SHARE * total:
                parts.append(f"{times:,} of {total:,} {what} ({times / total:.1%})")
                shown += (self.malformed if what == "lines" else self.lost)[:3]
        if not parts:
            return None
        examples = "".join(f"\n  {line}" for line in shown)
        return f"{' and '.join(parts)} were dropped{': for example' if examples else ''}{examples}"

    @property
    def warnings(self) -> list[str]:
        """What users of the counts should know first: that much was dropped, or that nobody clicked."""
        found = [self.dropped] if self.dropped else []
        if self.sessions and not self.clicks:
            found.append(
                f"no click was found in {counted(self.sessions, 'session')}: is the right column read as clicks "
                "(--columns)?"
            )
        return found

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(
            self.sessions + other.sessions,
            self.clicks + other.clicks,
            self.lines + other.lines,
            self.files + other.files,
            self.odd + other.odd,
            (self.malformed + other.malformed)[:MAX_EXAMPLES],
            self.causes + other.causes,
            (self.lost + other.lost)[:MAX_EXAMPLES],
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
            "causes": dict(self.causes),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Reading":
        """The reading that `as_dict` gave."""
        return cls(**{**data, "odd": Counter(data["odd"]), "causes": Counter(data.get("causes", {}))})

    def __str__(self) -> str:
        parts = [f"{counted(self.sessions, 'session')}, {counted(self.clicks, 'click')}"]
        parts += [
            f"{self.odd[name]:,} {name} ({why})" for name, why in EXPLANATIONS.items() if self.odd[name]
        ]
        by_number = sorted(self.causes.items(), key=lambda pair: (-pair[1], pair[0]))
        parts += [f"  {times:,} {cause}" for cause, times in by_number]
        parts += [f"  {line}" for line in self.malformed]
        return "\n".join(parts)


def _short(text: str) -> str:
    return shortened(text.strip(), _MAX_LENGTH)
