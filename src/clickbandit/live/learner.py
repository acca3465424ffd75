"""What is learned about one query: a policy's state, changed by numbered records and by nothing else.

No clock, no files: the same records give the same bytes, here, in another process, and when the log is replayed.
"""

import json
import struct
from collections.abc import Callable, Sequence
from sys import intern
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, for_types_of
from clickbandit.errors import InputError
from clickbandit.live import records
from clickbandit.live.algorithm import Algorithms, LiveAlgorithm
from clickbandit.live.own_lists import OwnLists
from clickbandit.live.packing import pack, unpack
from clickbandit.live.records import Damaged, Feedback
from clickbandit.live.told import Told
from clickbandit.live.values import MAX_ITEMS
from clickbandit.policies.propensities import PropensityEstimate, by_draws, copy_of
from clickbandit.priors import Prior
from clickbandit.randomness import generators

MAX_CHANGES = 1000
"""A list that was made more changes of the items ago than this is not learned from."""


class Learner(OwnLists):
    """A query's learner. Before its first start it has no items and no state."""

    # There are many, and each is seldom in the processor's cache.
    __slots__ = (
        "_algorithms", "_give_back", "_learn", "_serve", "algorithm", "ask_at", "chances", "changes", "counted",
        "described", "estimate", "footprint", "generation", "horizon", "index", "look_at", "missing", "number", "offer",
        "positions", "query", "random", "rng", "seed", "seen", "size", "state", "told", "whole",
    )  # fmt: skip

    algorithm: LiveAlgorithm
    state: Any
    rng: np.random.Generator
    random: Any
    """The generator as kernels take it."""
    _serve: Callable[..., None]
    """The algorithm's functions for this state."""
    _learn: Callable[..., None]
    _give_back: Callable[..., None]
    chances: FloatArray
    whole: FloatArray
    estimate: PropensityEstimate | None

    def __init__(self, query: str, algorithms: Algorithms) -> None:
        self._algorithms = algorithms
        self.query = query
        self.number = 0
        """The number of the last record."""
        self.generation = 0
        """How often it was started."""
        self.version = 0
        """How often it was started, or items came or went, ever."""
        self.positions = 0
        self.horizon = 0
        self.seed = 0
        self.items, self.written, self.numbers = [], [], object()
        self.index: dict[str, int] = {}
        self.footprint = 0
        """About how many bytes its state, its items and what was told of them take."""
        self.counted = 0
        """How many bytes of it are counted where it is kept."""
        self.missing: dict[str, int] = {}
        """How many requests in a row left an item out."""
        self.offer: bytes | None = None
        """The digest of a request that changes nothing of the items."""
        self.changes: list[list[int]] = []
        """For each of the last versions what made it of the one before: n for n new items, -1 - i if item i left."""
        self.told = Told()
        """By item: what the request that it started with said."""
        self.size = 0
        """About how many bytes its snapshot has."""
        self.described: tuple[int, dict[str, Any]] | None = None
        """What it last said of itself, and after which record: `describe` may make many draws."""
        self.seen: Any = None
        """What was last looked at for the query's history, and the number of the record to look at next."""
        self.look_at = 0
        self.ask_at = 0
        """After how much was learned to ask again how sure it is."""

    @classmethod
    def blank(cls, query: str, algorithm: LiveAlgorithm, algorithms: Algorithms) -> "Learner":
        """One that knows nothing and has no items, to be started again."""
        self = cls(query, algorithms)
        self.algorithm = algorithm
        self._make_room()
        return self

    def take_over(self, number: int, generation: int) -> None:
        """Stand in the place of another learner, whose lists this one does not know."""
        self.number, self.generation = number, generation
        self.version = number  # at least as much as any of the other's
        self.changes = []

    # --- what changes it ------------------------------------------------------------------------------------

    def apply(self, record: records.Record) -> None:
        """Do what a record says."""
        match record:
            case records.RankRecord():
                self.rank()
            case records.SettleRecord(ranking, clicks, memo):
                self.settle(ranking, clicks, memo)
            case records.VoidRecord(ranking, memo):
                self.void(ranking, memo)
            case records.StartRecord():
                self.start(record)
            case records.ItemsRecord():
                self.change(record)

    def replay(self, log: bytes, last: int | None = None, until: int | None = None) -> None:
        """Do what records say, the last of which must have the number `last`, but none after the number `until`."""
        found = list(records.read(log))
        if last is not None and self.number + len(found) != last:
            raise Damaged(f"record {self.number + 1} must come next, found {last - len(found) + 1} to {last}")
        for record in found if until is None else found[: until - self.number]:
            if isinstance(record, records.SettleRecord | records.VoidRecord):
                self.check(record.ranking, record.memo, complete=isinstance(record, records.SettleRecord))
            self.apply(record)

    def check(self, ranking: IntArray, memo: FloatArray, *, complete: bool) -> None:
        """Refuse a list that this learner cannot have made, for kernels do not check bounds; unless it is complete
        items that are gone are -1."""
        shown = ranking.tolist()
        if (
            len(shown) != len(self.ranking)
            or len(memo) != len(self.memo)
            or min(shown) < (0 if complete else -1)
            or max(shown) >= len(self.items)
        ):
            raise Damaged(f"there cannot be a list of {shown} among {len(self.items)} items")

    def rank(self, draws: int = 0) -> None:
        """Make a list: `ranking`, `memo`, `chances` and `estimate` are its own until the next one.

        With `draws` the chances of a policy that cannot state them are estimated, and the list is the same.
        """
        self.number += 1
        self.estimate = None
        estimated = draws > 0 and not self.algorithm.states_chances
        before = copy_of(self.state) if estimated else None
        self._serve(self.state, self.random, self.ranking, self.memo, self.chances, self.whole)
        if before is not None:
            apart, _ = generators(self.seed, self.query, "propensities", self.algorithm.name, self.number)
            unstated = np.zeros_like(self.chances)
            self.estimate = by_draws(
                lambda *given: self.algorithm.serve(*given, unstated, unstated),
                before,
                self.ranking,
                self.memo,
                self.algorithm.random(apart),
                draws,
            )

    def _draw_from(self, rng: np.random.Generator) -> None:
        self.rng, self.random = rng, self.algorithm.random(rng)

    def settle(self, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
        self.number += 1
        self._learn(self.state, ranking, clicks, memo)

    def void(self, ranking: IntArray, memo: FloatArray) -> None:
        self.number += 1
        self._give_back(self.state, ranking, memo)

    def start(self, record: records.StartRecord) -> None:
        self.number += 1
        self.generation += 1
        self.version += 1
        self.algorithm = self._algorithms.add(record.policy)
        self.positions, self.horizon, self.seed = record.positions, record.horizon, record.seed
        self.missing, self.changes = {}, []
        self.told = Told(record.scores, record.features)
        self._name(list(record.items))
        if self.items:
            prior = None if record.prior is None else Prior(**record.prior)
            self.state = self.algorithm.start(len(self.items), self.shown, self.horizon, prior)
            self._draw_from(
                generators(self.seed, self.query, "live", self.algorithm.name, self.generation - 1)[0]
            )
        self._make_room()

    def change(self, record: records.ItemsRecord) -> None:
        self.number += 1
        self.missing, self.offer = dict(record.missing), None
        if not record.new and not record.gone:
            return
        self.version += 1
        made_of, items = [], self.items + record.new
        # new ones first: the policy must never have fewer items than positions
        if record.new:
            assert self.algorithm.admit is not None
            self.state = self.algorithm.admit(self.state, len(record.new))
            if record.expected is not None and self.algorithm.expect is not None:
                self.state = self.algorithm.expect(self.state, record.expected)
            made_of.append(len(record.new))
        for name in record.gone:
            assert self.algorithm.retire is not None
            item = items.index(name)
            self.state = self.algorithm.retire(self.state, item)
            del items[item]
            made_of.append(-1 - item)
        self._name(items)
        self.changes = [*self.changes, made_of][-MAX_CHANGES:]
        self._make_room()

    def _name(self, items: list[str]) -> None:
        self.items, self.offer = [intern(name) for name in items], None  # as other queries have them too
        self.index = {name: item for item, name in enumerate(self.items)}
        self.written = [intern(json.dumps(name, ensure_ascii=False)) for name in items]

    def _make_room(self) -> None:
        self.make_room(self.shown, self.algorithm.memo_size(len(self.items), self.shown) if self.items else 0)
        self.chances, self.whole = np.zeros((2, self.shown))
        if self.items:
            algorithm, state, ranking, memo = self.algorithm, self.state, self.ranking, self.memo
            served = (state, self.random, ranking, memo, self.chances, self.whole)
            self._serve = for_types_of(algorithm.serve, *served)
            self._learn = for_types_of(algorithm.learn, state, ranking, ranking, memo)
            self._give_back = for_types_of(algorithm.give_back, state, ranking, memo)
        arrays = (value for value in self.state if isinstance(value, np.ndarray)) if self.items else ()
        self.size = 1000 + sum(array.nbytes for array in arrays)
        names = 200 * len(self.items) + 2 * sum(map(len, self.items))
        self.footprint = self.size + names + self.told.size

    # --- what it says ---------------------------------------------------------------------------------------

    @property
    def shown(self) -> int:
        """How many items its lists have: as many as positions unless there are fewer."""
        return min(self.positions, len(self.items))

    def best(self) -> list[str]:
        """The list that it would show if it stopped exploring now."""
        if not self.items:
            return []
        ranking = np.zeros(self.shown, np.int64)
        self.algorithm.best(self.state, ranking)
        return [self.items[item] for item in ranking]

    def describe(self) -> dict[str, Any]:
        """What the policy says of its state, with the names of items."""
        if not self.items or self.algorithm.describe is None:
            return {}
        if self.described is not None and self.described[0] == self.number:
            return self.described[1]
        learned: dict[str, Any] = self.algorithm.describe(self.state)
        for entry in learned.get("items", ()):
            entry["item"] = self.items[entry["item"]]
        for group in learned.get("groups", ()):
            group["items"] = [self.items[item] for item in group["items"]]
        self.described = self.number, learned
        return learned

    def divided(self) -> dict[str, Any]:
        """What the policy says of its state if it divides items; else nothing, since it may take long to say."""
        return self.describe() if self.items and self.algorithm.divides else {}

    def never_shows(self, items: Sequence[str]) -> bool:
        """Whether these items stand in no list that the policy could make now."""
        groups = self.divided().get("groups") if items else []
        if groups is None:
            return False
        shown = {item for group in groups if "first" in group for item in group["items"]}
        return shown.isdisjoint(items)

    def always_shows(self, item: str, position: int) -> bool:
        """Whether every list that the policy could make now has the item at this position."""
        groups = self.divided().get("groups", ())
        return any(
            group.get("first") == group.get("last") == position and group["items"] == [item]
            for group in groups
        )

    # --- items that come and go -----------------------------------------------------------------------------

    def plan(self, items: Sequence[str], grace: int) -> records.StartRecord | records.ItemsRecord | None:
        """What a request for these items changes, if anything.

        New items enter at once. An item that is left out leaves after `grace` such requests in a row. A policy that
        cannot do either starts afresh with the items at hand; so does a query whose lists become shorter or longer,
        or that had a single item, or none of the items.
        """
        new = [item for item in items if item not in self.index]
        if not new and not self.missing and len(items) == len(self.items):
            return None
        present = set(items)
        missing = {item: self.missing.get(item, 0) + 1 for item in self.items if item not in present}
        gone = [item for item, times in missing.items() if times >= grace]
        if len(self.items) + len(new) - len(gone) > MAX_ITEMS:
            gone = list(missing)
        for item in gone:
            del missing[item]
        n_items = len(self.items) + len(new) - len(gone)
        if (
            len(new) == len(items)
            or (new and (self.algorithm.admit is None or len(self.items) == 1))
            or (gone and self.algorithm.retire is None)
            or min(self.positions, n_items) != self.shown
        ):
            return records.StartRecord(
                self.algorithm.name, self.positions, self.horizon, self.seed, list(items)
            )
        return records.ItemsRecord(new, gone, missing) if new or gone or missing != self.missing else None

    def feedback(self, version: int, ranking: bytes, memo: bytes) -> Feedback | None:
        """A list that was made at another version of the items, in the numbers that they have now.

        None if the policy cannot use its memo any more.
        """
        numbers = self._numbers_since(version)
        if numbers is None:
            return None
        now = numbers[np.frombuffer(ranking, "<i2")]
        if self.algorithm.renumber is not None:
            carried = self.algorithm.renumber(np.frombuffer(memo).copy(), numbers, len(self.items))
            memo = carried.tobytes()
        if len(memo) != self.memo.nbytes:
            return None
        return Feedback(now.astype("<i2").tobytes(), memo, complete=bool((now >= 0).all()))

    def _numbers_since(self, version: int) -> IntArray | None:
        """For each item that there was, its number now, -1 if it is gone; None if that was too long ago."""
        age = self.version - version
        if age > len(self.changes):
            return None
        steps = [step for made_of in self.changes[len(self.changes) - age :] for step in made_of]
        n_items = len(self.items) - sum(step if step > 0 else -1 for step in steps)
        numbers = np.arange(n_items)
        for step in steps:
            if step < 0:
                item = -1 - step
                numbers = np.where(numbers == item, -1, np.where(numbers > item, numbers - 1, numbers))
        return numbers

    # --- as bytes -------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Everything that its future depends on."""
        header: dict[str, Any] = {
            "number": self.number,
            "generation": self.generation,
            "version": self.version,
            "positions": self.positions,
            "horizon": self.horizon,
            "seed": self.seed,
            "items": self.items,
            "missing": self.missing,
            "changes": self.changes,
        }
        header |= self.told.given()
        if self.generation:
            header["policy"] = self.algorithm.name
        if not self.items:
            return pack(header)
        return pack({**header, "rng": self.rng.bit_generator.state}, self.state)

    def copy(self) -> "Learner":
        """One that changes without this one."""
        return Learner.from_bytes(self.query, self._algorithms, self.to_bytes())

    @classmethod
    def from_bytes(cls, query: str, algorithms: Algorithms, snapshot: bytes) -> "Learner":
        """As it was written; a `Damaged` if there can be no such learner."""
        try:
            return cls._from_bytes(query, algorithms, snapshot)
        except (ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
            if isinstance(error, InputError):
                raise  # the policy is gone, say
            raise Damaged(f"a snapshot cannot be read: {type(error).__name__}: {error}") from error

    @classmethod
    def _from_bytes(cls, query: str, algorithms: Algorithms, snapshot: bytes) -> "Learner":
        header, values = unpack(snapshot)
        self = cls(query, algorithms)
        for name in ("number", "generation", "version", "positions", "horizon", "seed", "missing", "changes"):
            setattr(self, name, header[name])
        self.told = Told(header.get("scores"), header.get("features"))
        self._name(header["items"])
        if self.generation:
            self.algorithm = algorithms.add(header["policy"])
        if self.items:
            self.state = self.algorithm.restore(values, len(self.items), self.shown, self.horizon)
            bit_generator = np.random.SFC64(0)
            bit_generator.state = header["rng"]
            self._draw_from(np.random.Generator(bit_generator))
        if self.generation:
            self._make_room()
        return self
