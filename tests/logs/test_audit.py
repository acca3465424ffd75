"""Audits of logs: what is wrong is found, what is promised is kept, and what is measured is counted."""

import json
import re
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pandas
import pytest

from clickbandit import DynamicBayesianModel, PositionBasedModel
from clickbandit.click_models.em import information
from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log, fit
from clickbandit.logs.audit import Audit, Evidence, audit, best_model, climb
from clickbandit.logs.posterior import fit_posterior
from clickbandit.report.pages.audit import moved, sentences, write_audit

EXAMINATION = np.array([1.0, 0.7, 0.5, 0.35])
N_QUERIES, N_ITEMS, SESSIONS = 60, 6, 400


def clicks_of(
    rng: np.random.Generator, attraction: np.ndarray[Any, Any], shown: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    return (rng.random(shown.shape) < attraction[shown] * EXAMINATION[: shown.shape[1]]).astype(int)


@pytest.fixture(scope="module")
def world() -> tuple[Counts, dict[str, list[float]]]:
    """Queries whose usual list is in no order, among others shown less often; and what attracts in truth."""
    rng = np.random.default_rng(0)
    names, lists, clicks, truth = [], [], [], {}
    for q in range(N_QUERIES):
        attraction = rng.beta(1, 6, N_ITEMS)
        orders = np.array([rng.permutation(N_ITEMS)[:4] for _ in range(6)])
        shown = orders[np.minimum(rng.geometric(0.4, SESSIONS) - 1, 5)]
        names += [f"q{q:02}"] * SESSIONS
        lists += shown.astype(str).tolist()
        clicks += clicks_of(rng, attraction, shown).tolist()
        truth[f"q{q:02}"] = attraction.tolist()
    names += ["rare"] * 30
    lists += [list("012")] * 30
    clicks += [[1, 0, 0]] * 30
    return count_log(pandas.DataFrame({"query": names, "list": lists, "clicks": clicks})), truth


@pytest.fixture(scope="module")
def found(world: Any) -> Audit:
    counts, _ = world
    return audit(counts, model="PBM", models=["PBM", "CM"], evidence=Evidence(clicks=1, impressions=20))


def true_gain(finding: Any, attraction: list[float]) -> float:
    before, after = (
        float(np.take(attraction, [int(item) for item in order]) @ EXAMINATION)
        for order in (finding.usual, finding.better)
    )
    return after - before


def test_promises_are_kept_though_the_lists_were_chosen_by_them(world: Any, found: Audit) -> None:
    _, truth = world
    pairs = [(one, true_gain(one, truth[one.query])) for one in found.findings if one.verdict != "no"]
    assert len(pairs) > 50
    held = np.mean([one.gain.low <= gain <= one.gain.high for one, gain in pairs])
    assert held >= 0.9
    error = np.std([one.gain.mean - gain for one, gain in pairs]) / np.sqrt(len(pairs))
    promised, kept = np.mean([one.gain.mean for one, _ in pairs]), np.mean([gain for _, gain in pairs])
    assert abs(promised - kept) < 3 * error
    sure = [gain > 0 for one, gain in pairs if one.verdict == "yes"]
    assert len(sure) > 20
    assert np.mean(sure) >= 0.95


def test_a_list_that_is_already_the_best_is_hardly_ever_called_wrong() -> None:
    """Whatever is promised is made up by the choice of the list: draws alone call 8% of these lists wrong."""
    rng = np.random.default_rng(3)
    names, lists, clicks = [], [], []
    for q in range(N_QUERIES):
        attraction = np.where(rng.random(N_ITEMS) < 0.25, rng.uniform(0.3, 0.6, N_ITEMS), 0.1)
        best = np.argsort(-attraction)
        orders = np.array([best[:4], *(rng.permutation(N_ITEMS)[:4] for _ in range(5))])
        shown = orders[np.minimum(rng.geometric(0.4, SESSIONS) - 1, 5)]
        names += [f"q{q:02}"] * SESSIONS
        lists += shown.astype(str).tolist()
        clicks += clicks_of(rng, attraction, shown).tolist()
    counts = count_log(pandas.DataFrame({"query": names, "list": lists, "clicks": clicks}))
    found = audit(counts, model="PBM", models=["PBM"], evidence=Evidence(clicks=1, impressions=20))
    verdicts = Counter(one.verdict for one in found.findings)
    assert verdicts["maybe"] > 40
    assert verdicts["yes"] <= 3


def test_what_is_measured_is_counted(world: Any, found: Audit) -> None:
    counts, _ = world
    rows = counts.table.to_pylist()
    for one in found.findings[::10]:
        mine = [row for row in rows if row["query"] == one.query]
        assert one.sessions == sum(row["sessions"] for row in mine) == SESSIONS
        usual = [row for row in mine if tuple(row["list"]) == one.usual]
        assert one.shown == sum(row["sessions"] for row in usual)
        often = Counter({tuple(row["list"]): 0 for row in mine})
        for row in mine:
            often[tuple(row["list"])] += row["sessions"]
        assert one.shown == max(often.values())
        assert one.measured == pytest.approx(
            sum(row["sessions"] * row["clicks"].bit_count() for row in usual) / one.shown
        )
        seen = {(item, k) for row in mine for k, item in enumerate(row["list"])}
        assert one.new_places == sum((item, k) not in seen for k, item in enumerate(one.better))


def test_too_little_evidence_is_refused(found: Audit) -> None:
    assert found.refused == {"rare": "30 sessions, of at least 200"}
    assert "rare" not in [one.query for one in found.findings]
    assert found.as_dict()["refused"] == found.refused


def test_more_clicks_come_first_and_numbers_hang_together(found: Audit) -> None:
    more = [one.more for one in found.findings]
    assert more == sorted(more, reverse=True)
    for one in found.findings:
        assert set(one.others) == {"CM"}
        assert 0 <= one.chance <= 1
        if one.verdict == "yes":
            assert one.gain.low > 0
            assert one.chance > 0.97
            assert one.cost == pytest.approx(one.to_prove / 2 * one.gain.mean, rel=0.05)


def test_a_query_in_order_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    attraction = np.array([0.6, 0.3, 0.1, 0.05])
    shown = np.array([[0, 1, 2, 3]] * 3000 + [[1, 0, 3, 2]] * 1000)
    log = {"query": ["q"] * 4000, "list": shown.astype(str).tolist()}
    clicks = clicks_of(rng, attraction, shown).tolist()
    counts = count_log(pandas.DataFrame(log | {"clicks": clicks}))
    (one,) = audit(counts, model="PBM", models=["PBM"]).findings
    assert (one.verdict, one.better, one.to_prove, one.cost) == ("no", one.usual, float("inf"), 0.0)
    assert one.as_dict()["to_prove"] is None
    strict = audit(counts, model="PBM", models=["PBM"], evidence=Evidence(clicks=1_000_000))
    assert (strict.findings, list(strict.refused)) == ([], ["q"])


@pytest.mark.parametrize(
    "law",
    [
        PositionBasedModel([0.30, 0.34, 0.31, 0.33, 0.32], [1, 0.8, 0.9]),
        DynamicBayesianModel([0.5, 0.4, 0.7, 0.2, 0.3], [0.9, 0.1, 0.6, 0.5, 0.2], 0.9),
    ],
)
def test_climbing_ends_at_the_best_list(law: Any) -> None:
    def rewards(lists: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array([law.reward(order) for order in lists.tolist()])

    best = max(law.reward(order) for order in permutations(range(5), 3))
    assert law.reward(climb(rewards, np.array([3, 0, 4]), 5)) == pytest.approx(best, abs=1e-3)


def test_few_clicks_do_not_outrank_many() -> None:
    """One click in one session is not as good as eighty in a hundred, and others say how good items are."""
    lists = ["a"] * 100 + ["b"] + ["c"] * 100 + ["d"] * 100
    clicks = ["1"] * 80 + ["0"] * 20 + ["1"] + (["1"] * 20 + ["0"] * 80) * 2
    log = pandas.DataFrame({"query": ["q"] * len(lists), "list": lists, "clicks": clicks})
    counts = count_log(log)
    raw = fit(counts, "CM", smoothing=(0.0, 0.0)).parameters["attraction"]
    assert raw[1] > raw[0], "the raw rate is misled"
    known = fit_posterior(counts, "CM")
    mean, error = known.means["attraction"], known.errors["attraction"]
    assert mean[0] > mean[1] > mean[2]
    assert mean[1] < 0.65, "smoothing alone would give 2/3"
    assert error[1] > 3 * error[0]
    rows = np.arange(4)
    drawn = known.draws(rows, known.shared_draws(4000, np.random.default_rng(0)), np.random.default_rng(1))
    assert drawn["attraction"].mean(axis=0) == pytest.approx(mean, abs=0.02)
    assert drawn["attraction"].std(axis=0) == pytest.approx(error, rel=0.1)


def test_what_all_queries_share_moves_the_items_along(world: Any) -> None:
    """Where users look more, items attract less: the mean correlation is about -.055. It would be 0 if items were drawn
    by themselves, with a standard error of .005. Single items are too noisy to say."""
    counts, _ = world
    known = fit_posterior(counts, "PBM")
    deviations = known.shared_draws(2000, np.random.default_rng(0))
    rows = np.flatnonzero(counts.impressions > 300)[:20]
    drawn = known.draws(rows, deviations, np.random.default_rng(1))["attraction"]
    examination = np.log([law.examination[3] for law in known.laws(deviations)])
    correlations = [np.corrcoef(item, examination)[0, 1] for item in np.log(drawn).T]
    assert np.mean(correlations) < -0.03


def test_the_model_is_the_one_that_foretells_best(world: Any) -> None:
    counts, _ = world
    assert best_model(counts, ["CM", "PBM", "SDBN"]) == "PBM"
    first, second = counts.split(0.25, seed=1)
    assert first.n_sessions + second.n_sessions == counts.n_sessions
    assert first.n_sessions == pytest.approx(counts.n_sessions / 4, rel=0.05)
    assert (first + second).table.equals(counts.table)


def test_models_with_wrong_errors_do_not_judge(world: Any) -> None:
    counts, _ = world
    for settings in ({"model": "SDBN"}, {"models": ["DCM", "SDBN"]}):
        with pytest.raises(
            InputError, match=r"takes the last click for the end of a session: judge by CM, PBM, DBN"
        ):
            audit(counts, **settings)


def test_click_rates_order_nothing(world: Any) -> None:
    with pytest.raises(InputError, match="found the click rate DCTR"):
        audit(world[0], models=["PBM", "DCTR"])


def test_the_page_and_its_words(found: Audit, tmp_path: Any) -> None:
    wrong = sum(one.verdict == "yes" for one in found.findings)
    told = sentences(found)
    assert told[0].startswith(f"Of {N_QUERIES} queries judged, {wrong} are ordered wrongly: ")
    assert "Everything else rests on the click model PBM" in told[1]
    assert told[2] == "1 query has too little evidence to be judged."
    write_audit(tmp_path / "audit.html", found)
    page = (tmp_path / "audit.html").read_text()
    assert all(f"<summary>{one.query}</summary>" in page for one in found.findings if one.verdict == "yes")
    assert "30 sessions, of at least 200" in page
    spec = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])  # type: ignore[index]
    assert len(spec["data"]["values"]) == 40
    swapped = [one for one in found.findings if sorted(one.usual) == sorted(one.better)]
    assert all("new" not in moved(one) for one in swapped)


def test_the_command(tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    from clickbandit import cli

    rng = np.random.default_rng(0)
    shown = np.array([[0, 1, 2]] * 300 + [[2, 0, 1]] * 150 + [[1, 2, 0]] * 150)
    clicks = clicks_of(rng, np.array([0.1, 0.2, 0.6]), shown)
    rows = [
        "|".join(map(str, order)) + "," + "|".join(map(str, c))
        for order, c in zip(shown, clicks, strict=True)
    ]
    (tmp_path / "log.csv").write_text("query,list,clicks\n" + "".join(f"q,{row}\n" for row in rows))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["clickbandit", "audit", "log.csv", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert ended.value.code in (None, 0), err
        return str(out)

    said = run("--models", "PBM,CM", "--page", "audit.html")
    assert "Of 1 query judged, 1 is ordered wrongly" in said
    assert "written: audit.html" in said
    data = json.loads(run("--model", "pbm", "--models", "PBM", "--json"))
    assert (data["model"], data["queries"][0]["better"], data["queries"][0]["wrong"]) == (
        "PBM",
        ["2", "1", "0"],
        "yes",
    )
    assert "better" in data["rests_on_the_model"]
    assert "measured" not in data["rests_on_the_model"]


def test_the_curvature_of_items_is_not_mixed_with_that_of_their_neighbours() -> None:
    """Of a known matrix, blocks of which are queries, probes that are apart give the diagonal exactly."""
    rng = np.random.default_rng(0)
    n_queries, size = 5, 8
    n = 2 * n_queries * size
    matrix = np.eye(n + 1)
    for q in range(n_queries):
        rows = np.concatenate([kind * n_queries * size + q * size + np.arange(size) for kind in range(2)])
        root = rng.normal(size=(2 * size, 2 * size))
        matrix[np.ix_(rows, rows)] = root @ root.T + np.eye(2 * size)
    values = tuple(np.full(length, 0.5) for length in (n // 2, n // 2, 1))

    def step(at: Any, num: Any, den: Any) -> float:
        value = np.concatenate(at)
        gradient = -matrix @ (np.log(value) - np.log1p(-value))
        for part, mine in zip(num, np.split(gradient, [n // 2, n]), strict=True):
            part += mine
        return 0.0

    nothing = (np.zeros(n + 1), np.zeros(n + 1))
    with information(values, step, nothing, n, separate=False, spacing=size) as found:
        assert found.local == pytest.approx(np.diag(matrix)[:n], rel=1e-3)
    with information(values, step, nothing, n, separate=False) as found:
        assert found.local != pytest.approx(np.diag(matrix)[:n], rel=0.1)
