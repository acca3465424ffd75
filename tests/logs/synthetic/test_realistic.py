"""The realistic log gives the parameters that real logs give, once click models are fitted to it."""

from pathlib import Path

import numpy as np
import pytest

from clickbandit.errors import InputError
from clickbandit.logs import Counts, Fit, choose_queries, count_log, fit, write_realistic_log
from clickbandit.logs.synthetic.realistic import ATTRACTION, EXAMINATION, POSITIONS, RANKINGS
from clickbandit.queries import Query

Fitted = tuple[Counts, dict[str, Fit], list[Query]]


@pytest.fixture(scope="module", params=[0, pytest.param(1, marks=pytest.mark.long)])
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    path = tmp_path_factory.mktemp("realistic") / "log.tsv"
    write_realistic_log(path, seed=request.param)
    counts = count_log(path, "yandex-relpred", strict=True)
    fits = [fit(counts, name) for name in ("CM", "PBM")]
    return counts, {one.name: one for one in fits}, choose_queries(counts, fits, top_queries=60, items=10)


def _attraction(queries: list[Query], model: str) -> np.ndarray:
    """A row for each query: its items' attractions, from the highest down."""
    return np.array([sorted(query.models[model].attraction, reverse=True) for query in queries])


def test_examination_is_that_of_real_logs(fitted: Fitted) -> None:
    learned = fitted[1]["PBM"].parameters["examination"]
    np.testing.assert_allclose(learned, EXAMINATION, rtol=0, atol=0.02)


def test_attraction_is_that_of_real_logs(fitted: Fitted) -> None:
    position_based, cascade = _attraction(fitted[2], "PBM"), _attraction(fitted[2], "CM")
    assert position_based.shape == (60, 10)
    np.testing.assert_allclose(position_based.mean(axis=0), ATTRACTION, rtol=0.15)
    spread = position_based.std(axis=0) / position_based.mean(axis=0)
    assert 0.35 < spread.min() <= spread.max() < 0.6
    # a cascade takes what was not looked at as not attractive, the more the lower it stands
    ratio = cascade.mean(axis=0) / position_based.mean(axis=0)
    assert 0.9 < ratio[0] < 1
    assert 0.5 < ratio[9] < 0.7
    assert (np.diff(ratio[:6]) < 0).all()


def test_the_fifth_and_the_sixth_item_are_as_close_as_in_real_logs(fitted: Fitted) -> None:
    attraction = _attraction(fitted[2], "PBM")
    gap = attraction[:, 4] - attraction[:, 5]
    assert np.median(gap) == pytest.approx(0.012, rel=0.25)
    assert np.mean((gap >= 0.0004) & (gap <= 0.05)) >= 0.9
    assert gap.max() < 0.06


def test_queries_are_heavy_tailed_and_lists_vary(fitted: Fitted) -> None:
    counts = fitted[0]
    sessions = np.sort(counts.query_sessions[1])[::-1]
    assert counts.n_sessions == 400_000
    assert len(sessions) == 300
    np.testing.assert_allclose(sessions[:60], sessions[0] / np.arange(1, 61), rtol=0.15)
    most_frequent = fitted[2][0].query
    lists = {tuple(row["list"]) for row in counts.table.to_pylist() if row["query"] == most_frequent}
    assert 20 < len(lists) <= RANKINGS
    assert {len(shown) for shown in lists} == {POSITIONS}
    assert len({item for shown in lists for item in shown}) > POSITIONS  # drawn from a larger pool


def test_good_items_stand_high_more_often_and_most_items_stand_everywhere(fitted: Fitted) -> None:
    cells = fitted[0].by_position
    rows = np.array([fitted[1]["PBM"].rows(query.query, list(query.items)) for query in fitted[2]])
    shown = np.zeros((len(fitted[0].impressions), POSITIONS))
    shown[cells.pair, cells.position] = cells.shown
    position = shown @ np.arange(1, POSITIONS + 1) / shown.sum(axis=1)
    assert np.median((shown[rows] > 0).sum(axis=2)) >= 8
    assert (shown[rows] > 0).sum(axis=1).mean() > 6  # a position of a query shows that many of its items
    by_attraction = position[rows].mean(axis=0)  # items are in the order of their attraction
    assert by_attraction[0] < 3
    assert by_attraction[9] > 5.5
    assert (np.diff(by_attraction) > 0).mean() >= 0.8


def test_users_are_neither_all_of_a_cascade_nor_all_position_based(fitted: Fitted) -> None:
    counts = fitted[0]
    first = counts.table["clicks"].to_numpy() & 1
    below = counts.table["clicks"].to_numpy() > 1
    sessions = counts.table["sessions"].to_numpy()
    site = counts.query_sessions[0][int(counts.query_sessions[1].argmax())]
    others = counts.table["query"].to_numpy() != site
    more = [
        sessions[others & (first == c) & below].sum() / sessions[others & (first == c)].sum() for c in (0, 1)
    ]
    assert more[1] > 0.3  # no cascade: users go on after a click
    assert more[1] < more[0] - 0.05  # not position-based: they go on less often than without one


def test_the_same_seed_gives_the_same_whole_file(tmp_path: Path) -> None:
    path, steps = tmp_path / "log.tsv", []
    texts = []
    for seed in (1, 1, 2):
        write_realistic_log(path, seed=seed, sessions=500, queries=20, progress=steps.append)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1] != texts[2]
    assert steps == [500] * 3
    for line in texts[0].decode().splitlines():
        assert all(field.isdigit() or field in "QC" for field in line.split("\t"))

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_realistic_log(path, sessions=500, progress=stop)
    assert path.read_bytes() == texts[2]
    assert [entry.name for entry in tmp_path.iterdir()] == ["log.tsv"]


@pytest.mark.parametrize("wrong", [{"sessions": 0}, {"queries": 0}])
def test_nothing_is_no_log(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least 1 session and 1 query"):
        write_realistic_log(tmp_path / "log", **wrong)
