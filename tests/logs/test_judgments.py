"""What other tools need from a log: judgments in their formats, and the examination curve."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from benchmarks.judgments import NOISE, log, taus

from clickbandit import cli
from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log
from clickbandit.logs.bias import bias
from clickbandit.logs.judgments import judging_model, judgments, write_judgments
from clickbandit.logs.relevance import dbn_relevance, usual_places

EXAMINATION = np.array([0.9, 0.6, 0.4, 0.25, 0.15])
N_QUERIES, N_ITEMS, SESSIONS = 40, 5, 300


@pytest.fixture(scope="module")
def world() -> tuple[Counts, dict[tuple[str, str], float], pandas.DataFrame]:
    """A ranker that puts the worst items on top; what attracts in truth; and the log."""
    rng = np.random.default_rng(0)
    names, lists, clicks, truth = [], [], [], {}
    for q in range(N_QUERIES):
        attraction = np.sort(rng.beta(1.5, 4, N_ITEMS))
        order = np.argsort(np.arange(N_ITEMS) + rng.gumbel(0, 1, (SESSIONS, N_ITEMS)), axis=1)
        hits = rng.random(order.shape) < attraction[order] * EXAMINATION
        names += [f"q {q}"] * SESSIONS
        lists += order.astype(str).tolist()
        clicks += hits.astype(int).tolist()
        truth |= {(f"q {q}", str(i)): float(attraction[i]) for i in range(N_ITEMS)}
    frame = pandas.DataFrame({"query": names, "list": lists, "clicks": clicks})
    return count_log(frame), truth, frame


def kendall(one: list[float], other: list[float]) -> float:
    pairs = [(i, j) for i in range(len(one)) for j in range(i)]
    return float(np.mean([np.sign(one[i] - one[j]) * np.sign(other[i] - other[j]) for i, j in pairs]))


def test_judgments_rank_as_the_truth_does_and_better_than_click_rates(world: Any) -> None:
    counts, truth, _ = world
    found = judgments(counts, "PBM").to_pandas()
    cells = counts.by_position
    rates = np.bincount(cells.pair, cells.clicked) / np.bincount(cells.pair, cells.shown)
    found["rate"], found["truth"] = (
        rates,
        [truth[pair] for pair in zip(found["query"], found["item"], strict=True)],
    )
    by_query = [rows for _, rows in found.groupby("query")]
    mine, raw = (
        np.mean([kendall(rows["truth"].tolist(), rows[name].tolist()) for rows in by_query])
        for name in ("relevance", "rate")
    )
    assert mine > 0.75
    assert mine > raw + 0.2
    off = (found["relevance"] / found["relevance"].mean() - found["truth"] / found["truth"].mean()).abs()
    assert off.mean() < 0.25


def test_judgments_by_dbn_beat_click_rates_where_the_ranker_is_good() -> None:
    """Where few have clicked, the ranker's order is evidence too, and click rates have it in them."""
    found = []
    for noise, sessions in (("good", 30), ("good", 100), ("poor", 100)):
        counts, truth = log("DBN", 40, sessions, NOISE[noise], np.random.default_rng(1))
        found.append(taus(counts, truth, "DBN"))
    assert all(mine > raw for mine, raw in found)
    assert found[0][0] > found[0][1] + 0.05
    assert found[2][0] > found[2][1] + 0.1


def test_items_that_are_seldom_shown_stand_below_the_list() -> None:
    lists = ["a b"] * 9 + ["c a"]
    frame = pandas.DataFrame({"query": ["q"] * 10, "list": lists, "clicks": ["1 0"] * 10})
    counts = count_log(frame)
    places = dict(zip(counts.pairs["item"].to_pylist(), usual_places(counts).tolist(), strict=True))
    assert places == {"a": 0.1, "b": pytest.approx(1.1), "c": 1.8}
    relevance, error, looked = dbn_relevance(counts)
    assert np.all((relevance > 0) & (relevance <= 1) & (error > 0) & (error <= 0.5))
    assert np.all((looked > 0) & (looked <= [10, 9, 1]))


def fixed_order(clicks: list[int], sessions: int = 100, queries: int = 8) -> Counts:
    """One list for each query, and how many click at each position of it, apart from each other."""
    rng = np.random.default_rng(3)
    marks = rng.random((queries * sessions, len(clicks))) < np.array(clicks) / sessions
    names = np.repeat([f"q{q}" for q in range(queries)], sessions)
    lists = [" ".join("abcdefghij"[: len(clicks)])] * len(names)
    return count_log(pandas.DataFrame({"query": names, "list": lists, "clicks": marks.astype(int).tolist()}))


@pytest.mark.parametrize("model", [None, "DBN", "PBM"])
def test_what_nobody_looked_at_is_not_held_for_the_best(model: str | None) -> None:
    """One order for all, and clicks that fall along it: nothing says that lower items are any better."""
    counts = fixed_order([30, 11, 5, 0, 0, 0, 0, 0])
    found = judgments(counts, model, min_impressions=5).to_pandas()
    assert set(found["item"]) <= {"a", "b", "c"}
    if model != "DBN":  # by which the few who come to the third item are most eager to click it
        means = found.groupby("item")["relevance"].mean()
        assert means.max() == means["a"]
    assert found["error"].max() <= 0.5
    everything = judgments(counts, model, min_impressions=0).to_pandas()
    assert set(everything["grade"][~everything["item"].isin(["a", "b", "c"])]) == {0}


def test_without_a_click_nothing_is_judged() -> None:
    with pytest.raises(InputError, match="nothing can be judged without clicks"):
        judgments(fixed_order([0, 0, 0]))


def test_a_single_session_is_enough_to_choose_a_model() -> None:
    counts = count_log(pandas.DataFrame({"query": ["q"], "list": ["a b"], "clicks": ["0 1"]}))
    assert judgments(counts, min_impressions=0).num_rows == 2


def test_the_model_that_fits_better_judges(world: Any) -> None:
    counts, _, _ = world
    assert judging_model(counts) == "PBM"
    assert judgments(counts).equals(judgments(counts, "PBM"))
    assert judging_model(log("DBN", 40, 300, NOISE["good"], np.random.default_rng(1))[0]) == "DBN"


def test_few_impressions_are_not_judged_and_grades_are_in_range(world: Any) -> None:
    counts, _, _ = world
    found = judgments(counts, "CM", grades=(1, 3), min_impressions=10)
    assert set(found["grade"].to_pylist()) == {1, 2, 3}
    order = np.argsort(found["relevance"].to_numpy())
    assert np.all(np.diff(found["grade"].to_numpy()[order]) >= 0)
    with pytest.raises(InputError, match="no item was looked at 1,000,000 times, the most is 300"):
        judgments(counts, "CM", min_impressions=1_000_000)
    with pytest.raises(InputError, match="expected grades such as 0-4, found 4-0"):
        judgments(counts, "CM", grades=(4, 0))


TABLE = pa.table(
    {
        "query": ["a b", "a b", "c"],
        "item": ["x", "ü", "z 1"],
        "grade": [4, 0, 2],
        "relevance": [0.8, 0.1, 0.4],
        "error": [0.1, 0.1, 0.1],
        "impressions": [100, 50, 30],
    }
)


def test_every_tool_reads_its_format(tmp_path: Path) -> None:
    texts = {}
    for kind in ("csv", "qrels", "opensearch", "quepid", "letor"):
        write_judgments(TABLE, tmp_path / kind, kind)
        texts[kind] = (tmp_path / kind).read_text()
    assert texts["qrels"] == "a%20b 0 x 4\na%20b 0 ü 0\nc 0 z%201 2\n"
    ratings = json.loads(texts["opensearch"])["judgmentRatings"]
    assert ratings[0] == {
        "query": "a b",
        "ratings": [{"docId": "x", "rating": "4.000"}, {"docId": "ü", "rating": "0.000"}],
    }
    assert list(csv.reader(texts["quepid"].splitlines()))[:2] == [
        ["query", "docid", "rating"],
        ["a b", "x", "4"],
    ]
    assert texts["letor"].splitlines()[2] == '2 qid:2 # {"query": "c", "docid": "z 1"}'
    assert list(csv.DictReader(texts["csv"].splitlines()))[2]["error"] == "0.1"
    with pytest.raises(InputError, match="did you mean qrels"):
        write_judgments(TABLE, tmp_path / "x", "qrel")


def test_the_examination_curve_has_the_truth_in_its_intervals(world: Any) -> None:
    counts, _, _ = world
    places = bias(counts)
    true = EXAMINATION / EXAMINATION[0]
    assert [place.position for place in places] == [1, 2, 3, 4, 5]
    held = [p.examination.low <= e <= p.examination.high for p, e in zip(places, true, strict=True)]
    assert sum(held) >= 4
    assert places[4].examination.high - places[4].examination.low < 0.1
    assert places[0].rate < places[0].examination.mean
    assert places[0].impressions == N_QUERIES * SESSIONS


def test_positions_with_few_clicks_have_wide_intervals() -> None:
    """Half of the lists have five positions and few have ten, of which the lower ones have hardly a click."""
    held, true = [], 1 / np.arange(1, 11) ** 0.8
    for seed in range(6):
        rng = np.random.default_rng(seed)
        attraction = rng.beta(2, 4, 12)
        lists = [rng.permutation(12)[: 10 if k % 20 == 0 else 5] for k in range(400)]
        marks = [(rng.random(len(one)) < attraction[one] * true[: len(one)]).astype(int) for one in lists]
        frame = {"query": ["q"] * 400, "list": [one.astype(str).tolist() for one in lists], "clicks": marks}
        deep = bias(count_log(pandas.DataFrame(frame)))[5:]
        held += [p.examination.low <= e <= p.examination.high for p, e in zip(deep, true[5:], strict=True)]
    assert np.mean(held) >= 0.9
    (_, second) = bias(
        count_log(pandas.DataFrame({"query": ["q"], "list": [["a", "b"]], "clicks": [[0, 1]]}))
    )
    assert second.examination.high - second.examination.low > 1


def test_the_commands(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    _, _, frame = world
    monkeypatch.chdir(tmp_path)
    few = frame[: 2 * SESSIONS]
    few.map(lambda cell: "|".join(map(str, cell)) if isinstance(cell, list) else cell).to_csv(
        "log.csv", index=False
    )

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["clickbandit", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    code, out, _ = run("judgments", "log.csv", "--model", "cm", "--as", "qrels", "--out", "mine.qrels")
    assert "fits" not in out
    assert (code, "10 of 10 items were looked at 20 times and judged by CM\n" in out) == (0, True)
    assert len((tmp_path / "mine.qrels").read_text().splitlines()) == 10
    code, out, _ = run("judgments", "log.csv", "--model", "DBN", "--out", "worse.csv")
    assert "PBM fits this log better: judge by it" in out
    code, out, _ = run("bias", "log.csv", "--json", "--figure", "bias.svg")
    assert len(json.loads(out)["positions"]) == 5
    assert "<svg" in (tmp_path / "bias.svg").read_text()
    for arguments, message in (
        (["judgments", "log.csv", "--out", "x", "--as", "trec"], "expected --as to be one of csv, qrels"),
        (["judgments", "log.csv", "--out", "x", "--grades", "high"], "expected --grades such as 0-4"),
        (["bias", "log.csv", "--figure", "bias.pdf"], "ends in .svg, .png or .html"),
    ):
        code, _, error = run(*arguments)
        assert (code, message in error) == (2, True)
