"""Synthetic logs follow their model, are the same for the same seed, and are whole or not there."""

import csv
import io
import itertools
from pathlib import Path

import numpy as np
import pytest

from clickbandit.click_models.base import model_names
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.errors import InputError
from clickbandit.logs import count_log, generate_log
from clickbandit.logs.formats.base import log_format
from clickbandit.logs.synthetic import generate
from clickbandit.queries import Query, load_queries

LAW = PositionBasedModel([0.9, 0.5, 0.2], [0.9, 0.5])
QUERIES = [Query(name, [f"{name}1", f"{name}2", f"{name}3"], {"PBM": LAW}) for name in ("a", "b")]


@pytest.mark.parametrize("name", ["log.tsv", "log.tsv.gz", "log.tsv.zst"])
def test_the_same_seed_gives_the_same_file(tmp_path: Path, name: str) -> None:
    texts = []
    for seed in (1, 1, 2):
        generate_log(QUERIES, tmp_path / name, model="PBM", sessions=500, seed=seed)
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1] != texts[2]
    assert count_log(tmp_path / name, "yandex-relpred", strict=True).n_sessions == 500


@pytest.mark.parametrize("format", ["yandex-relpred", "csv"])
def test_clicks_follow_the_model(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "BATCH", 7_000)
    steps: list[int] = []
    generate_log(
        QUERIES, tmp_path / "log", model="PBM", sessions=40_000, format=format, lists=4, progress=steps.append
    )
    counts = count_log(tmp_path / "log", format, strict=True)
    assert counts.n_sessions == sum(steps) == 40_000
    assert counts.reading.odd == {}
    cells = counts.by_position
    item = np.array([int(name[-1]) - 1 for name in counts.pairs["item"].to_pylist()])[cells.pair]
    expected = np.array(LAW.attraction)[item] * np.array(LAW.examination)[cells.position]
    error = (cells.clicked / cells.shown - expected) / np.sqrt(expected * (1 - expected) / cells.shown)
    assert np.abs(error).max() < 4.5
    assert counts.query_sessions[1].tolist() == pytest.approx([40_000 * 2 / 3, 40_000 / 3], rel=0.05)


def test_lists_repeat(tmp_path: Path) -> None:
    generate_log(QUERIES, tmp_path / "log", model="PBM", sessions=5_000, positions=1, lists=2)
    table = count_log(tmp_path / "log").table.to_pylist()
    assert len({(row["query"], *row["list"]) for row in table}) <= 4


def test_every_model_can_be_generated_from(tmp_path: Path, shared: Path) -> None:
    queries = load_queries(shared / "queries" / "yandex-10.json")
    for name in set(model_names()) & set(queries[0].models):
        generate_log(queries, tmp_path / "log", model=name, sessions=2_000)
        assert count_log(tmp_path / "log").n_sessions == 2_000


def test_csv_has_all_names_that_can_be_read_back(tmp_path: Path) -> None:
    """Also in lists of one item, where there is nothing to separate."""
    names = [
        "".join(letters)
        for n in (1, 2, 3)
        for letters in itertools.product("a ,;|\"'([])\t\0\n\r\ud800é#", repeat=n)
    ]
    writer = log_format("csv").writer
    assert writer
    assert writer.forbidden_in_queries
    items = [name for name in names if not writer.forbidden.search(name)]
    assert {"a a", "a,a", "a;a", "a'a", "a)", "[a]", "(,)", "\ta#", "é"} <= set(items)
    queries = [name for name in names if not writer.forbidden_in_queries.search(name)]
    assert {" a", '"a"', "a|a", "'"} <= set(queries)
    shown = [(f"{n} {i}", items[i : i + n]) for n in (1, 2, 3) for i in range(0, len(items) - 3)]
    shown += [(query, ["a", "b"]) for query in queries]
    lines = [writer.session(query, names, [1] + [0] * (len(names) - 1)) for query, names in shown]
    (tmp_path / "log").write_text(writer.header + "".join(lines), newline="")
    counts = count_log(tmp_path / "log", strict=True)
    assert counts.n_sessions == len(shown)
    assert {(row["query"], *row["list"]): row["clicks"] for row in counts.table.to_pylist()} == {
        (query, *names): 1 for query, names in shown
    }
    python = list(csv.reader(io.StringIO("".join(lines), newline="")))
    assert [query for query, *_ in python] == [query for query, _ in shown]


def test_csv_has_the_names_of_the_examples(tmp_path: Path) -> None:
    queries = load_queries("example")
    for positions in (1, 5):
        generate_log(queries, tmp_path / "log", model="PBM", sessions=300, positions=positions, format="csv")
        counts = count_log(tmp_path / "log", strict=True)
        assert set(counts.pairs["query"].to_pylist()) == {query.query for query in queries}
        assert set(counts.pairs["item"].to_pylist()) <= {item for query in queries for item in query.items}
        assert counts.n_positions == positions


def test_nothing_is_overwritten_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("precious")

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_log(QUERIES, path, model="PBM", sessions=10, progress=stop)
    assert path.read_text() == "precious"
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]
    for wrong, message in (
        ({"format": "json"}, "cannot be generated as 'json'"),
        ({"sessions": 0}, "at least 1 session"),
        ({"model": "CM"}, "has no model CM"),
    ):
        with pytest.raises(InputError, match=message):
            generate_log(QUERIES, path, **({"model": "PBM", "sessions": 5} | wrong))  # type: ignore[arg-type]
    odd = [Query("q", ["a|b", "c d", "e"], {"PBM": LAW})]
    generate_log(odd, tmp_path / "odd", model="PBM", sessions=5)
    assert set(count_log(tmp_path / "odd").pairs["item"].to_pylist()) <= {"a|b", "c d", "e"}
    with pytest.raises(InputError, match=r"csv cannot hold the name 'a\|b' of query q"):
        generate_log(odd, path, model="PBM", sessions=5, format="csv")
    named_alike = [Query("a|b", ["a|b", "c d", "e"], {"PBM": LAW})]
    with pytest.raises(InputError, match=r"csv cannot hold the name 'a\|b' of query a\|b"):
        generate_log(named_alike, path, model="PBM", sessions=5, format="csv")
    with pytest.raises(InputError, match="cannot be written"):
        generate_log(QUERIES, tmp_path / "none" / "log", model="PBM", sessions=5)
