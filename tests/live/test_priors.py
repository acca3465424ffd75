"""What queries start from live: the given order, scores, a file, what others teach; and exact replay of all that."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from clickbandit import CascadeModel, InputError, Prior, Query, save_queries
from clickbandit.defaults import STRENGTH
from clickbandit.features import Ridge
from clickbandit.live import Ranker, algorithm
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.learner import Learner
from clickbandit.live.records import ItemsRecord, StartRecord, read, text
from clickbandit.live.settings import RankerSettings
from clickbandit.live.shared import MIN_LESSONS, Shared, Taught, as_record
from clickbandit.live.told import Told
from clickbandit.priors import Lesson
from live.conftest import only_sqlite, specialise_plainly

ITEMS = ["A", "B", "C", "D"]
FEATURES = [[1.0, 0.0], [0.5, 0.0], [0.2, 1.0], [0.0, 1.0]]


@pytest.fixture(autouse=True)
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithm, "specialise", specialise_plainly)


def started(learner: Learner, n: int = 30) -> list[bytes]:
    """Lists and clicks on the first item of each; the records."""
    written = []
    for _ in range(n):
        learner.rank()
        shown = learner.ranking.copy()
        clicks = np.array([1, *[0] * (len(shown) - 1)])
        learner.settle(shown, clicks, learner.memo.copy())
        written.append(shown.tobytes())
    return written


@pytest.mark.parametrize("policy", ["click-ts", "click-ts within 0.1", "cts", "given"])
def test_a_record_holds_all_that_a_query_starts_from(policy: str, plain: Algorithms) -> None:
    """Made again from its bytes and from a snapshot, with an item that came later, it shows the same lists."""
    prior = as_record(
        Prior([0.1, 0.5, 0.3, 0.2], [50.0] * 4, [1, 2, 3, 0], [[1.0], [0.5, 0.4]], [[0.1], [0.2, 0.3]])
    )
    records = [
        StartRecord(policy, 2, 1000, 1, ITEMS, prior, [3.0, 4.0, 2.0, 1.0], FEATURES),
        ItemsRecord(["E"], [], {}, [(0.4, 7.0)]),
    ]
    learners = [Learner("q", plain), Learner("q", plain)]
    for record in records:
        learners[0].apply(record)
        (again,) = read(text(record))
        learners[1].apply(again)
    assert learners[0].best()[0] == "B"
    assert started(learners[0]) == started(learners[1])
    third = Learner.from_bytes("q", plain, learners[0].to_bytes())
    assert third.told == ([3.0, 4.0, 2.0, 1.0], FEATURES)
    assert started(third) == started(learners[1])
    if policy.startswith("click-ts"):
        assert third.state.expected[-1] == 0.4
        assert third.state.strength[-1] == 7.0


def test_records_of_before_priors_are_as_they_were() -> None:
    assert b"prior" not in text(StartRecord("cts", 2, 1000, 1, ITEMS))
    assert b"expected" not in text(ItemsRecord(["E"], [], {}))


def test_a_lesson_is_read_as_it_was_written() -> None:
    lesson = Lesson([1.0, 2.0], [3.0, 4.5], [[0.0], [-0.5, -1.25]], [[np.inf], [4.0, 0.0]])
    told = Told([0.5, 0.000025], [[1.0, 2.0], [0.000012345, 2.0]])
    assert Taught.from_bytes(Taught(lesson, True, told).to_bytes()) == (lesson, True, told)
    before = {
        "log_examination": [],
        "precision": [],
        "in_order": True,
        "scores": [],
    }  # as it was without features
    written = json.dumps({"clicks": [1.0], "examined": [2.0], **before}).encode()
    assert Taught.from_bytes(written) == (([1.0], [2.0], [], []), True, Told())


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, FloatingPointError, InputError])
def test_a_regression_that_fails_is_done_without_until_another_query_teaches(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Prior:
        raise error("no such inverse")

    shared = Shared(RankerSettings())
    taught = Taught(Lesson([5.0, 2.0], [20.0, 15.0], [], []), True, Told(None, [[1.0], [2.0]]))
    for number in range(MIN_LESSONS):
        shared.add(number, taught)
    with monkeypatch.context() as patch:
        patch.setattr(Ridge, "prior", fail)
        assert [shared.by_features([[1.0]]) for _ in range(3)] == [None] * 3
    assert caplog.text.count("nothing can be learned from 1 features") == 1
    shared.add(0, taught)
    assert shared.by_features([[1.0]]) is not None


def test_what_features_are_worth_is_not_computed_for_each_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor from more numbers than nobody has to wait for, but from the last queries that taught."""
    added: list[int] = []
    monkeypatch.setattr(Ridge, "add", lambda self, x, clicks, examined: added.append(len(x)))
    monkeypatch.setattr(Ridge, "prior", lambda self, x: Prior([0.5] * len(x), [1.0] * len(x)))
    shared = Shared(RankerSettings())
    taught = Taught(Lesson([5.0] * 10, [20.0] * 10), True, Told(None, [[1.0] * 99] * 10))
    fitted = []
    for number in range(160):
        shared.add(number, taught)
        added.clear()
        assert (shared.by_features([[1.0] * 99]) is None) == (number + 1 < MIN_LESSONS)
        fitted.append(len(added))
    assert sum(n > 0 for n in fitted[80:]) <= 80 / (80 / 16)
    assert max(fitted) > 140
    monkeypatch.setattr("clickbandit.live.shared._MAX_NUMBERS", 50_000)
    for number in range(20):
        shared.add(number, taught)
    added.clear()
    shared.by_features([[1.0] * 99])
    assert sum(added) * 100 <= 50_000 < sum(added) * 100 + 2000


def test_what_is_known_is_not_computed_for_each_lesson() -> None:
    shared = Shared(RankerSettings())
    taught = Taught(Lesson([5.0, 2.0], [20.0, 15.0]), True, Told())
    known = []
    for number in range(160):
        shared.add(number, taught)
        known.append(shared.known())
        assert shared.known() is known[-1]
    assert (known[MIN_LESSONS - 2][0] is None, known[MIN_LESSONS - 1][0] is None) == (True, False)
    assert 160 / 16 <= len(set(map(id, known[80:]))) <= 80 / (80 / 16)


def test_lessons_are_bounded_by_their_bytes() -> None:
    shared = Shared(RankerSettings(), max_bytes=2**20)
    taught = Taught(Lesson([1.0] * 10, [5.0] * 10), True, Told(None, [[1.0] * 100] * 10))
    for k in range(200):
        shared.add(k % 150, taught)
        assert shared.n_bytes == taught.size * shared.view()["queries"] <= 2**20
    assert 20 < shared.view()["queries"] < 40


@only_sqlite
class TestRanker:
    @pytest.fixture
    def rankers(self) -> list[Ranker]:
        return []

    @pytest.fixture
    def opened(self, open_ranker: Callable[..., Ranker], rankers: list[Ranker]) -> Callable[..., Ranker]:
        def open_(**given: Any) -> Ranker:
            rankers.append(
                open_ranker(**{"policy": "click-ts", "positions": 2, "prior": "given-order", **given})
            )
            return rankers[-1]

        return open_

    @pytest.fixture
    def start_of(
        self, sql: Callable[[str], list[tuple[Any, ...]]], rankers: list[Ranker]
    ) -> Callable[[str], dict[str, Any]]:
        """What the first record of a query holds."""

        def first(query: str) -> dict[str, Any]:
            rankers[-1].ping()  # from then on the log is where it is read
            asked = f"select records from log join queries on query = id where name = '{query}' order by log.number"
            (start, *_) = read(sql(asked)[0][0])
            assert isinstance(start, StartRecord)
            return start._asdict()

        return first

    def test_queries_teach_each_other_and_that_is_kept(
        self, opened: Callable[..., Ranker], start_of: Any
    ) -> None:
        opened = partial(opened, policy="click-ts:guard=false")  # tests would tell how "B" does at the top
        ranker = opened()
        for number in range(MIN_LESSONS):
            for _ in range(130):
                shown = ranker.rank(f"q{number}", ITEMS)
                if shown.items[0] == "A":
                    ranker.click(shown.id, "A")
                ranker.settle(shown.id)
            assert ranker.verify(f"q{number}")
        first = start_of("q0")["prior"]
        assert first["attraction"][0] == 0.4
        assert first["examination"] == []
        ranker.rank("later", ITEMS)
        later = start_of("later")["prior"]
        assert later["attraction"][0] > 0.8
        assert 0.6 < later["attraction"][1] / later["attraction"][0] < 0.8, "nobody told of it: as is usual"
        assert len(later["examination"]) == 2
        shared = ranker.stats().shared
        assert shared["queries"] == MIN_LESSONS
        assert shared["curve"][0]["low"] <= shared["curve"][0]["estimate"] <= shared["curve"][0]["high"]
        assert [point["position"] for point in shared["examination"]] == [1, 2]
        assert msgspec.json.decode(msgspec.json.encode(shared)) == shared, "the service can send it"
        ranker.close()
        again = opened()
        again.rank("after a restart", ITEMS)
        assert start_of("after a restart")["prior"] == later
        assert again.verify("q0")
        assert again.reset("q0").query == "q0"
        again.rank("q0", ITEMS)
        assert again.verify("q0")

    def test_scores_order_a_query_and_bad_ones_lose_nothing(
        self, opened: Callable[..., Ranker], start_of: Any
    ) -> None:
        ranker = opened(prior="none")
        for scores, message in (
            ([1, 2, 3], "one for each of the 4 items, found 3"),
            ([1, 2, 3, float("nan")], "finite numbers, found nan"),
            ([1, 2, 3, "high"], "finite numbers, found 'high'"),
            ([1, 2, 3, True], "finite numbers, found True"),
            ("1234", "a list of numbers, found str"),
        ):
            with pytest.raises(InputError, match=message):
                ranker.rank("q", ITEMS, scores=scores)  # type: ignore[arg-type]
        assert ranker.stats().queries == 0
        ranker.rank("q", ITEMS, scores=[1, 2, 3, 4])
        assert start_of("q")["prior"]["order"] == [3, 2, 1, 0]
        ranker.rank("plain", ITEMS)
        assert start_of("plain")["prior"] is None
        assert ranker.query("q").best == ["D", "C"]

    def test_features_teach_what_they_are_worth(self, opened: Callable[..., Ranker], start_of: Any) -> None:
        """Clicks go where the first feature is high, whatever the order; a new query starts from that, as does a new
        item."""
        ranker = opened(prior="none")
        rows = dict(zip(ITEMS, FEATURES, strict=True))
        for number in range(MIN_LESSONS):
            items = ITEMS[number % 4 :] + ITEMS[: number % 4]
            told: Any = {"features": [rows[item] for item in items], "context": [1.0]}
            for _ in range(130):
                shown = ranker.rank(f"q{number}", items, **told)
                for item in shown.items:
                    if item in "AB":
                        ranker.click(shown.id, item)
                ranker.settle(shown.id)
            assert ranker.verify(f"q{number}")
        assert start_of("q0")["prior"] is None
        assert start_of("q0")["features"][0] == [1.0, 0.0, 1.0]
        ranker.rank("later", ["x", "y", "z"], features=[[0.0, 1.0], [0.3, 0.5], [0.9, 0.0]], context=[1.0])
        later = start_of("later")["prior"]
        assert later["order"] == [2, 1, 0]
        assert max(later["strength"]) <= STRENGTH
        rows_now = [[0.0, 1.0], [0.3, 0.5], [0.9, 0.0], [0.0, 1.0], [1.0, 0.0]]
        ranker.rank("later", ["x", "y", "z", "dull", "new"], features=rows_now, context=[1.0])
        known = {entry["item"]: entry for entry in ranker.query("later").learned["items"]}
        assert known["new"]["in_list"] > known["dull"]["in_list"], "against the order"
        ranker.rank("other features", ITEMS, features=[[1.0]] * 4)
        assert start_of("other features")["prior"] is None
        assert all(ranker.verify(query) for query in ("later", "other features", "q0"))
        ranker.close()
        again = opened(prior="none")
        again.rank("after a restart", ["x", "y"], features=[[0.0, 1.0], [0.9, 0.0]], context=[1.0])
        assert start_of("after a restart")["prior"]["order"] == [1, 0]
        assert again.verify("later")

    @pytest.mark.parametrize(
        ("told", "message"),
        [
            ({"features": [[1], [2], [3]]}, "one for each of the 4 items, found 3"),
            ({"features": [[1], [2], [3], [4, 5]]}, "as many numbers for each item, found 1 and 2"),
            ({"features": [[1], [2], [3], [float("inf")]]}, "finite numbers, found inf"),
            ({"features": [[1], [2], [3], "4"]}, "a list of numbers, found str"),
            ({"features": "abcd"}, "a list of lists of numbers, found str"),
            ({"features": [[], [], [], []]}, "1 to 100 numbers together, found 0"),
            ({"context": [0.0] * 101}, "1 to 100 numbers together, found 101"),
            ({"context": ["noon"]}, "finite numbers, found 'noon'"),
            ({"context": [-1e200]}, "context must be numbers from -1e.15 to 1e.15, found -1e.200"),
            (
                {"features": [[1], [2], [3], [10**16]]},
                "features must be numbers from -1e.15 to 1e.15, found 1e.16",
            ),
            ({"scores": [1, 2, 3, 10**400]}, "finite numbers, found 1000"),
        ],
    )
    def test_bad_features_lose_nothing(
        self, opened: Callable[..., Ranker], told: dict[str, Any], message: str
    ) -> None:
        ranker = opened()
        with pytest.raises(InputError, match=message):
            ranker.rank("q", ITEMS, **told)
        assert ranker.stats().queries == 0

    @pytest.mark.parametrize("value", [1.7e9, 1e200], ids=["two times", "of an old store"])
    def test_features_that_cannot_be_learned_from_stop_no_query(
        self, opened: Callable[..., Ranker], value: float
    ) -> None:
        """Two columns that are the same, or one number beyond all others: what others taught is used all the same, or
        none of it."""
        ranker = opened(prior="none")
        shared = ranker._core._engine.learners.shared
        for number in range(MIN_LESSONS + 1):
            low = 1.7e9 + 1000.0 * number
            rows = [[low, low], [low + 500, low + 500]] if number or value == 1.7e9 else [[value, 1.0]] * 2
            shared.add(-number, Taught(Lesson([5.0, 2.0], [20.0, 15.0], [], []), True, Told(None, rows)))
        assert ranker.rank("q", ["A", "B"], features=[[1.7e9, 1.7e9]] * 2).source == "policy"
        assert ranker.rank("q", ["A", "B", "C"], features=[[1.7e9, 1.7e9]] * 3).source == "policy"
        assert ranker.verify("q")

    def test_items_that_changed_teach_nothing_of_what_was_said_of_others(
        self, opened: Callable[..., Ranker], sql: Callable[[str], list[tuple[Any, ...]]]
    ) -> None:
        ranker = opened(grace=2)
        told: Any = {"scores": [3.0, 2.0, 1.0], "features": [[1.0], [2.0], [3.0]]}
        for number in range(260):
            shown = ranker.rank("q", ["A", "B", "C"] if number < 130 else ["D", "B", "C"], **told)
            ranker.settle(shown.id)
            if number in (129, 259):
                ((written,),) = sql("select prior from queries")
                assert Taught.from_bytes(written).told == (Told(*told.values()) if number == 129 else Told())
        assert sorted(ranker.query("q").items) == ["B", "C", "D"]

    def test_from_a_file_and_within_a_budget(
        self, opened: Callable[..., Ranker], start_of: Any, tmp_path: Any
    ) -> None:
        file = tmp_path / "fitted.json"
        models = {"CM": CascadeModel(attraction=[0.2, 0.7])}
        sure = Query("sure", ["A", "C"], models, errors={"CM": [0.04, 0.01]})
        save_queries(file, [Query("q", ["A", "C"], models), sure])
        ranker = opened(prior=str(file), max_loss=0.05)
        shown = ranker.rank("q", ITEMS)
        prior = start_of("q")["prior"]
        assert [round(value, 2) for value in prior["attraction"]] == [0.2, 0.28, 0.69, 0.2]
        assert [round(value) for value in prior["strength"]] == [202, 4, 204, 5]
        ranker.rank("sure", ITEMS)
        by_errors = [0.2 * 0.8 / 0.04**2 - 1, 0, 0.7 * 0.3 / 0.01**2 - 1, 0]
        beside = [1 / 0.4, 2**0.5 / 0.4, 3**0.5 / 0.4, 2 / 0.4]
        assert start_of("sure")["prior"]["strength"] == pytest.approx(np.add(by_errors, beside), rel=1e-4)
        assert shown.policy == "click-ts within 0.05"
        assert shown.items == ("C", "B")
        assert ranker.query("q").learned["budget"]["max_loss"] == 0.05
        for given, message in (
            ({"prior": "nowhere.json"}, "there is no file 'nowhere.json'"),
            ({"prior_strength": 0}, "above 0, found 0"),
            ({"max_loss": 1}, "from 0 to below 1, found 1"),
        ):
            with pytest.raises(InputError, match=message):
                opened(**given)

    def test_new_items_enter_as_is_expected_of_their_place(self, opened: Callable[..., Ranker]) -> None:
        ranker = opened()
        ranker.rank("q", ITEMS)
        ranker.rank("q", ["new", *ITEMS])
        known = {entry["item"]: entry for entry in ranker.query("q").learned["items"]}
        assert known["new"]["in_list"] > known["D"]["in_list"]
        assert ranker.verify("q")


def test_bad_scores_over_http(open_service: Any) -> None:
    service = open_service({"policy": "cts", "prior": "given-order"})
    for scores in ("[1, 2]", "[1, 2, null]", '[1, 2, "x"]', "[1, 2, NaN]", "{}"):
        body = f'{{"query": "q", "items": ["A", "B", "C"], "scores": {scores}}}'
        assert service.post("/v1/rank", body.encode()).status == 422, scores
    for features in (
        "[[1], [2]]",
        "[[1], [2], [3, 4]]",
        '[[1], [2], ["x"]]',
        "[1, 2, 3]",
        "[[1], [2], [NaN]]",
    ):
        body = f'{{"query": "q", "items": ["A", "B", "C"], "features": {features}}}'
        assert service.post("/v1/rank", body.encode()).status == 422, features
    told = {"scores": [1, 2, 3.5], "features": [[1], [2], [3]], "context": [0.5]}
    assert service.rank(query="q", items=["A", "B", "C"], **told)
    assert service.rank(query="q", items=[], scores=[], features=[])["items"] == []
