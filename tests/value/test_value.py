"""What other lists would have earned: right where it can be known, refused where it cannot, and by the command."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from clickbandit import InputError
from clickbandit.cli import app
from clickbandit.intervals import watched_means
from clickbandit.live.export import schema
from clickbandit.value import Decisions, read_decisions, replay, value_of_lists
from clickbandit.value.lists import _where_shown

ITEMS = "ABCD"
ATTRACTION = {"A": 0.5, "B": 0.3, "C": 0.2, "D": 0.1}
EXAMINATION = (1.0, 0.6)


def uniform_log(n, seed=1):
    """Two of four items in random order, before users of a position-based model."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(4), (n, 1)), axis=1)[:, :2]
    chances = np.array(list(ATTRACTION.values()))[order] * EXAMINATION
    clicks = (rng.random((n, 2)) < chances).astype(float)
    lists = [tuple(ITEMS[item] for item in one) for one in order.tolist()]
    known = {"q": frozenset(ITEMS)}
    prefixes = np.tile([1 / 4, 1 / 12], (n, 1))
    return Decisions(["q"] * n, lists, known, clicks, np.full((n, 2), 1 / 4), prefixes)


def rows(decisions):
    """As an export has them."""
    return [
        {
            "impression": f"i{k}",
            "time": k,
            "query": "q",
            "candidates": list(ITEMS),
            "list": list(shown),
            "source": "policy",
            "propensities": decisions.propensities[k].tolist(),
            "prefix_propensities": decisions.prefixes[k].tolist(),
            "clicks": decisions.clicks[k].astype(int).tolist(),
        }
        for k, shown in enumerate(decisions.lists)
    ]


def with_rewards(log, seed=2):
    """A click is worth 1, and B is bought by half of those who click it, for 20; A, which is clicked most, is not."""
    bought = np.random.default_rng(seed).random(log.clicks.shape) < 0.5
    is_b = np.array(log.lists) == "B"
    return replace(log, rewards=log.clicks * (1 + 20 * (bought & is_b)))


def test_rewards_are_valued_where_there_are_some(tmp_path):
    """By every estimator, by a policy that learns, and from a file, which then has them."""
    log = with_rewards(uniform_log(12_000))
    found = value_of_lists(log, {"q": ["B", "A"]})
    truth = 0.3 * 11 + 0.6 * 0.5
    assert found.unit == "reward"
    assert all(one.low < truth < one.high for one in found.estimates if one.refused is None)
    assert sum(one.refused is None for one in found.estimates) >= 9
    assert abs(found.predicted - truth) < 0.3
    assert found.shown.value == pytest.approx(log.rewards.sum() / 12_000)
    learned = replay(log, "cts")
    assert learned.unit == "reward"
    assert learned.value > found.shown.value
    written = [
        {**row, "rewards": earned.tolist()} for row, earned in zip(rows(log), log.rewards, strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(written, schema=schema()), tmp_path / "log.parquet")
    assert np.array_equal(read_decisions(tmp_path / "log.parquet").rewards, log.rewards)
    lists = tmp_path / "lists.json"
    lists.write_text('{"q": ["B", "A"]}')
    said = CliRunner().invoke(app, ["value", str(tmp_path / "log.parquet"), "--lists", str(lists)]).stdout
    assert "reward per list" in said
    assert "clicks per list" not in said


def test_what_other_lists_would_have_earned():
    """The click model fits, so all estimators are right; whole lists are the rarest evidence."""
    truth = 0.5 + 0.6 * 0.3
    found = value_of_lists(uniform_log(6000), {"q": ["A", "B"]})
    by_name = {estimate.estimator: estimate for estimate in found.estimates}
    assert all(estimate.low < truth < estimate.high for estimate in found.estimates)
    assert abs(found.predicted - truth) < 0.05
    assert found.shown.value == pytest.approx(0.275 * 1.6, abs=0.05)
    assert by_name["sips"].effective == pytest.approx(6000 / 12, rel=0.2)
    assert by_name["iips"].effective == pytest.approx(6000 / 4, rel=0.2)
    width = {name: one.high - one.low for name, one in by_name.items()}
    assert width["iips"] < width["rips"] < width["sips"]
    assert width["snsips"] < width["sips"]
    assert width["cascade-dr"] < width["rips"]


def test_the_interval_covers_what_lists_would_have_earned(monkeypatch):
    """Also of the estimator that uses a model, however wrong that is."""
    monkeypatch.setattr("clickbandit.value.lists._predictions", lambda *_: {"q": np.array([0.9, 0.1])})
    covered = [
        estimate.low <= 0.68 <= estimate.high
        for seed in range(30)
        for estimate in value_of_lists(uniform_log(2000, seed), {"q": ["A", "B"]}).estimates
    ]
    assert np.mean(covered) > 0.95


def test_the_weights_are_those_of_the_pipeline():
    """From the rows of a log whose propensities change, a slot at a time as the Open Bandit Pipeline has them."""
    rng, n, target = np.random.default_rng(4), 3000, (0, 2)
    first = rng.dirichlet([5] * 4, n)
    shown, (whole, top, second) = np.zeros((n, 2), int), np.zeros((3, n))
    for k, chances in enumerate(first):
        chance = {
            (i, j): chances[i] * chances[j] / (1 - chances[i]) for i in range(4) for j in range(4) if i != j
        }
        shown[k] = list(chance)[rng.choice(12, p=list(chance.values()))]
        whole[k], top[k] = chance[tuple(shown[k])], chances[shown[k, 0]]
        second[k] = sum(p for (_, j), p in chance.items() if j == shown[k, 1])
    clicks = (rng.random((n, 2)) < np.array([0.5, 0.4, 0.3, 0.2])[shown] * EXAMINATION).astype(float)
    names = [tuple(ITEMS[item] for item in one) for one in shown.tolist()]
    chances, prefixes = np.stack([top, second], axis=1), np.stack([top, whole], axis=1)
    log = Decisions(["q"] * n, names, {"q": frozenset(ITEMS)}, clicks, chances, prefixes)
    found = {one.estimator: one.value for one in value_of_lists(log, {"q": ["A", "C"]}).estimates}
    right = shown == target
    both = right.all(axis=1)
    iw = {
        "sips": np.stack([both / whole, both / whole], axis=1),
        "iips": right / chances,
        "rips": np.stack([right[:, 0] / top, both / whole], axis=1),
    }
    for name, weights in iw.items():
        slots = weights * clicks
        assert found[name] == pytest.approx(slots.sum() / n, abs=1e-9)
        assert found[f"sn{name}"] == pytest.approx((slots / weights.mean(axis=0)).sum() / n, abs=1e-9)
    assert found["rm"] == pytest.approx(clicks[both].sum() / both.sum(), abs=1e-9)
    assert found["irm"] == pytest.approx(sum(clicks[right[:, k], k].mean() for k in (0, 1)), abs=1e-9)
    assert found["rrm"] == pytest.approx(clicks[right[:, 0], 0].mean() + clicks[both, 1].mean(), abs=1e-9)


def test_queries_are_valued_by_themselves():
    """One shows the target ten times as often as the other, which is asked nine times as often."""
    rng, n = np.random.default_rng(5), 6000
    other = rng.random(n) < 0.9
    right = rng.random(n) < np.where(other, 0.08, 0.8)
    clicks = (rng.random(n) < np.where(other, 0.2, 0.9)).astype(float)[:, None]
    chances = np.where(right, np.where(other, 0.08, 0.8), np.where(other, 0.92, 0.2))[:, None]
    queries, lists = np.where(other, "p", "q").tolist(), [("A",) if one else ("B",) for one in right]
    known = {query: frozenset("AB") for query in "pq"}
    log = Decisions(queries, lists, known, clicks, chances, chances)
    found = value_of_lists(log, {"p": ["A"], "q": ["A"]}).estimates
    truth = 0.9 * 0.2 + 0.1 * 0.9
    assert all(one.low < truth < one.high for one in found)
    rm = next(one for one in found if one.estimator == "rm")
    assert rm.high < 0.4
    assert rm.effective == pytest.approx(1 / (0.9**2 / 432 + 0.1**2 / 480), rel=0.15)
    never = Decisions(
        [*queries, "r"],
        [*lists, ("B",)],
        {**known, "r": frozenset("AB")},
        *[np.append(a, [[1.0]], axis=0) for a in (clicks, chances, chances)],
    )
    found = value_of_lists(never, {"p": ["A"], "q": ["A"], "r": ["A"]}).estimates
    assert next(one for one in found if one.estimator == "rm").refused.startswith("the log is worth 0 lists")


def test_short_lists_say_nothing_of_the_positions_below_them():
    """Half of the lists have two items, the target's; of those with three a tenth are."""
    rng, n = np.random.default_rng(7), 10_000
    lists = [
        ("A", "B") if k < n / 2 else ("A", "B", "C") if k % 10 == 0 else ("B", "A", "D") for k in range(n)
    ]
    shown = np.array([len(one) for one in lists])[:, None] > np.arange(3)
    clicks = ((rng.random((n, 3)) < 0.3) & shown).astype(float)
    by_list = np.array([0.1 if one[-1] == "C" else 0.9 if one[-1] == "D" else 1.0 for one in lists])
    chances = np.where(shown, by_list[:, None], 1.0)
    found = value_of_lists(
        Decisions(["q"] * n, lists, {"q": frozenset("ABCD")}, clicks, chances, chances),
        {"q": ["A", "B", "C"]},
    )
    assert all(one.low < 0.75 < one.high for one in found.estimates)
    assert found.predicted == pytest.approx(0.75, abs=0.03)


def test_a_query_whose_target_was_never_shown_is_refused_however_rare_it_is():
    strata, counted = (
        [(np.arange(399_999), 1), (np.array([399_999]), 1)],
        np.arange(400_000)[:, None] < 399_999,
    )
    clicks = (np.arange(400_000)[:, None] % 3 == 0).astype(float)
    assert _where_shown("rm", "any users", strata, clicks, counted).refused.startswith(
        "the log is worth 0 lists"
    )


def test_the_intervals_of_all_queries_hold_at_once():
    clicks, ones = np.tile([[1.0], [0.0]], (500, 1)), np.ones((1000, 1), bool)
    queries = np.arange(400), np.arange(400, 1000)
    p, q = (watched_means(clicks[rows], ones[rows], 0.975) for rows in queries)
    found = _where_shown("rm", "any users", [(rows, 1) for rows in queries], clicks, ones)
    assert found.low == pytest.approx(0.4 * p.low + 0.6 * q.low)


def test_a_learning_policy_is_replayed():
    found = replay(uniform_log(4000), "random")
    assert found.low < 0.44 < found.high
    assert found.met == pytest.approx(4000 / 12, rel=0.25)
    with pytest.raises(InputError, match=r"must meet 100 lists of its own with 20 clicks, found \d+ worth"):
        replay(uniform_log(300), "random")


def test_a_few_large_rewards_are_little_evidence():
    log = uniform_log(4000)
    rewards = np.zeros(log.clicks.shape)
    rewards[::400] = 100.0
    with pytest.raises(InputError, match="with 20 clicks"):
        replay(replace(log, rewards=rewards), "random")
    replay(replace(log, rewards=log.clicks / 100), "random")


def test_lists_that_were_shown_more_often_are_met_as_often():
    """A log that shows one list nine times as often as the other."""
    rng = np.random.default_rng(3)
    often = rng.random(4000) < 0.9
    lists = [("A",) if one else ("B",) for one in often]
    clicks = np.where(often, 1.0, 0.0)[:, None]
    chances = np.where(often, 0.9, 0.1)[:, None]
    log = Decisions(["q"] * 4000, lists, {"q": frozenset("AB")}, clicks, chances, chances)
    assert replay(log, "random").value == pytest.approx(0.5, abs=0.07)


def test_lists_without_support_are_refused():
    """What the policy stopped to show at some time has a mean weight below 1: what it earned until then is known."""
    log = uniform_log(4000)
    kept = [shown != ("A", "B") or k < 2000 for k, shown in enumerate(log.lists)]
    half = Decisions(
        ["q"] * sum(kept),
        [one for one, keep in zip(log.lists, kept, strict=True) if keep],
        log.candidates,
        *(values[kept] for values in (log.clicks, log.propensities, log.prefixes)),
    )
    by_name = {one.estimator: one for one in value_of_lists(half, {"q": ["A", "B"]}).estimates}
    for name in ("sips", "snsips", "rips", "cascade-dr"):
        assert by_name[name].refused.startswith(
            "the policy could not always have shown them: their mean weight is 0."
        )
    assert by_name["rm"].low < 0.68 < by_name["rm"].high
    for n, said in ((90, "it has 90 lists for their queries"), (300, "lists of theirs, and 100 are needed")):
        with pytest.raises(InputError, match=said):
            value_of_lists(uniform_log(n), {"q": ["A", "B"]})


def test_exports_are_read_in_order_and_once(tmp_path):
    log = uniform_log(30)
    written = rows(log)
    others = [{**row, "impression": f"other {k}", "source": "holdout"} for k, row in enumerate(written[:4])]
    for name, part in (("a", written[20:] + others), ("b", written[:22])):
        pq.write_table(pa.Table.from_pylist(part, schema=schema()), tmp_path / f"{name}.parquet")
    found = read_decisions(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert found.lists == log.lists
    assert found.left_out == 4
    assert np.array_equal(found.clicks, log.clicks)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("value")
    log = rows(uniform_log(3000))
    pq.write_table(pa.Table.from_pylist(log, schema=schema()), folder / "log.parquet")
    without = [{**row, "propensities": None, "prefix_propensities": None} for row in log[:9]]
    pq.write_table(pa.Table.from_pylist(without, schema=schema()), folder / "without.parquet")
    pq.write_table(pa.table({"a": [1]}), folder / "foreign.parquet")
    pq.write_table(pa.table({name: [1] for name in schema().names}), folder / "alike.parquet")
    short = [{**row, "clicks": row["clicks"][:1]} for row in log[:9]]
    pq.write_table(pa.Table.from_pylist(short, schema=schema()), folder / "short.parquet")
    (folder / "log.csv").write_text("query,list,clicks\n" + "q,A B,1 0\nq,B A,0 1\n" * 30)
    (folder / "named.csv").write_text("term,list,clicks\n" + "q,A B,1 0\nq,B A,0 1\n" * 30)
    lists = {
        "good": {"q": ["A", "B"]},
        "unknown": {"q": ["A", "Z"]},
        "nowhere": {"p": ["A", "B"]},
        "wrong": ["A"],
    }
    for name, content in lists.items():
        (folder / f"{name}.json").write_text(json.dumps(content))

    def run_(log, *options):
        paths = [str(folder / text) if "." in text else text for text in options]
        return CliRunner().invoke(app, ["value", str(folder / log), *paths])

    return run_


def test_the_command(run):
    result = run("log.parquet", "--lists", "good.json")
    assert result.exit_code == 0, result.output
    for text in ("3,000 lists were shown", "snrips", "cascade-dr", "dm: a fitted PBM"):
        assert text in result.output
    as_json = json.loads(run("log.parquet", "--lists", "good.json", "--json").output)
    assert as_json["estimates"][0]["estimator"] == "sips"
    assert "random would have earned 0." in run("log.parquet", "--policy", "random").output
    said = run("log.csv", "--lists", "good.json", "--click-log").output
    assert "the prediction of a fitted PBM, not a measurement: the log has no propensities" in said
    named = run("named.csv", "--lists", "good.json", "--click-log", "--columns", "query=term").output
    assert named == said


@pytest.mark.parametrize(
    ("log", "options", "said"),
    [
        ("without.parquet", ["--lists", "good.json"], "needs propensities to be valued, found none in 9"),
        ("foreign.parquet", ["--lists", "good.json"], "must be Parquet that clickbandit export wrote"),
        ("alike.parquet", ["--lists", "good.json"], "found another: Unsupported cast"),
        (
            "short.parquet",
            ["--lists", "good.json"],
            "'i0' does not have clicks and propensities for each item",
        ),
        ("missing.parquet", ["--lists", "good.json"], "found no file"),
        ("good.json", ["--lists", "good.json"], "must be Parquet that clickbandit export wrote"),
        ("log.parquet", ["--lists", "unknown.json"], "found 'Z' for query 'q', which never was"),
        ("log.parquet", ["--lists", "nowhere.json"], "lists for queries of the log, such as 'q'"),
        ("log.parquet", ["--lists", "wrong.json"], "must have a list of items for each query"),
        ("log.parquet", ["--lists", "missing.json"], "cannot be read"),
        ("log.parquet", [], "expected either --lists or --policy, found neither"),
        ("log.parquet", ["--lists", "good.json", "--columns", "query=q"], "give --click-log too"),
        ("log.csv", ["--policy", "random", "--click-log"], "cannot be run along a click log"),
        ("log.csv", ["--lists", "nowhere.json", "--click-log"], "found 'p', which is not in it"),
    ],
)
def test_wrong_inputs_get_one_sentence(run, log, options, said):
    result = run(log, *options)
    assert isinstance(result.exception, InputError), result.output
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)
