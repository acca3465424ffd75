"""Whatever is asked in whatever order, with crashes and restarts between: the ranker does what a few lines say."""

import os
import shutil
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from clickbandit.live import Conflict, Event, Ranker, Unknown
from clickbandit.policies.base import parse_policy

POLICY = parse_policy(f"{Path(__file__).with_name('counting.py')}:Counting")
WINDOW = 100
QUERIES = {"shoes": list("ABCDE"), "hats": list("XYZ"), "socks": ["S"]}
POSITIONS = 3
MEMORY = "/dev/shm"


@dataclass
class Impression:
    """The model: what is known of an impression from outside."""

    query: str
    shown: tuple[str, ...]
    learns: bool
    expires: float
    outcome: str = "pending"
    clicked: set[str] = field(default_factory=set)


class Machine(RuleBasedStateMachine):
    """`impressions` and `events` are the model; every rule says what must come of it."""

    ids = Bundle("ids")

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self.now = 1_700_000_000.0
        self.impressions: dict[str, Impression] = {}
        self.events: set[str] = set()
        self.frozen: set[str] = set()
        self.generation: Counter[str] = Counter()
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.credit: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.file = 0
        self.open()

    def open(self):
        self.ranker = Ranker(
            f"sqlite:///{self.folder}/{self.file}.db",
            policy=POLICY,
            positions=POSITIONS,
            window=WINDOW,
            learners=2,
            clock=lambda: self.now,
        )

    def teardown(self):
        if hasattr(self, "ranker"):
            self.ranker.close()
            shutil.rmtree(self.folder)

    # --- the model ---

    def end(self, impression, outcome):
        """Settle or void, once."""
        if impression.outcome == "pending":
            impression.outcome = outcome
            counts = self.counts[impression.query]
            counts[outcome] += 1
            if outcome == "settled":
                counts["clicks"] += len(impression.clicked)
                if impression.learns:
                    counts["learned"] += 1
                    self.credit[impression.query].update(impression.clicked)

    def settle_due(self):
        for impression in self.impressions.values():
            if impression.expires <= self.now:
                self.end(impression, "settled")

    # --- what is asked ---

    @rule(target=ids, query=st.sampled_from(sorted(QUERIES)), shift=st.integers(0, 4))
    def rank(self, query, shift):
        self.settle_due()
        items = QUERIES[query]
        items = items[shift % len(items) :] + items[: shift % len(items)]
        id = f"i{len(self.impressions)}"
        shown = self.ranker.rank(query, items, id=id)
        assert len(set(shown.items)) == min(POSITIONS, len(items))
        assert set(shown.items) <= set(items)
        assert shown.source == ("frozen" if query in self.frozen else "policy")
        self.impressions[id] = Impression(query, shown.items, shown.source == "policy", self.now + WINDOW)
        self.counts[query]["impressions"] += 1
        assert self.ranker.rank(query, items, id=id) == shown
        with pytest.raises(Conflict):
            self.ranker.rank(query, [*items, "new"], id=id)
        return id

    @rule(id=ids, chosen=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=6))
    def click(self, id, chosen):
        """Events of one impression, some on no item of it, some of them repeated, now and before."""
        self.settle_due()
        impression = self.impressions[id]
        sent, expected = [], []
        for place, n in chosen:
            item = (*impression.shown, *"????")[place]
            key = f"{id}-{item}-{n}" if n else None
            known = key or f"{id}-{item}"
            sent.append(Event(id, item, key))
            if known in self.events:
                expected.append("duplicate")
            elif item == "?":
                expected.append("invalid")
            else:
                self.events.add(known)
                if impression.outcome == "pending":
                    impression.clicked.add(item)
                    expected.append("accepted")
                else:
                    self.counts[impression.query]["late"] += 1
                    expected.append("late")
        found = self.ranker.events([*sent, Event("nowhere", "A")])
        assert [verdict.verdict for verdict in found] == [*expected, "unknown"]

    @rule(id=ids, outcome=st.sampled_from(["settled", "void"]))
    def finish(self, id, outcome):
        self.settle_due()
        impression = self.impressions[id]
        self.end(impression, outcome)
        ask = self.ranker.settle if outcome == "settled" else self.ranker.void
        if impression.outcome == outcome:
            found = ask(id)
            assert found.outcome == outcome
            assert set(found.clicked) == impression.clicked
        else:
            with pytest.raises(Conflict):
                ask(id)

    @rule(seconds=st.sampled_from([1, WINDOW // 2, WINDOW]))
    def wait(self, seconds):
        self.now += seconds

    @rule(query=st.sampled_from(sorted(QUERIES)), freeze=st.booleans())
    def freeze(self, query, freeze):
        self.settle_due()
        if self.counts[query]["impressions"] == 0:
            with pytest.raises(Unknown):
                self.ranker.freeze(query)
            return
        (self.ranker.freeze if freeze else self.ranker.unfreeze)(query)
        (self.frozen.add if freeze else self.frozen.discard)(query)

    @rule(query=st.sampled_from(sorted(QUERIES)))
    def reset(self, query):
        self.settle_due()
        if self.counts[query]["impressions"]:
            self.ranker.reset(query)
            self.frozen.discard(query)
            self.counts[query]["learned"] = 0
            self.credit[query].clear()
            for impression in self.impressions.values():
                if impression.query == query:
                    impression.learns = False

    @rule()
    def restart(self):
        self.ranker.close()
        self.open()

    @rule()
    def crash(self):
        """Go on from what is on disk at this moment; the ranker that was there never closes its files."""
        for name in (f"{self.file}.db", f"{self.file}.db-wal"):
            shutil.copy(self.folder / name, self.folder / name.replace(str(self.file), str(self.file + 1), 1))
        self.ranker.close()
        self.file += 1
        self.open()

    # --- what must hold at all times ---

    @invariant()
    def counts_are_right(self):
        if not hasattr(self, "ranker"):
            return
        self.settle_due()
        for query, counts in self.counts.items():
            if counts["impressions"] == 0:
                continue
            detail = self.ranker.query(query)
            found = detail.summary
            assert found.impressions == counts["impressions"]
            assert (found.settled, found.voided) == (counts["settled"], counts["void"])
            assert (found.learned, found.clicks, found.late) == (
                counts["learned"], counts["clicks"], counts["late"],
            )  # fmt: skip
            told = {entry["item"]: entry for entry in detail.learned["items"]}
            assert {item: entry["clicks"] for item, entry in told.items() if entry["clicks"]} == {
                item: n for item, n in self.credit[query].items() if n
            }
            shown = min(POSITIONS, len(QUERIES[query]))
            assert sum(entry["observed"] for entry in told.values()) == shown * counts["learned"]
            assert self.ranker.verify(query)


TestMachine = Machine.TestCase
TestMachine.settings = settings(stateful_step_count=40, max_examples=settings.default.max_examples // 2)
