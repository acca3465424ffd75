"""A store that an earlier version wrote is read by this one, and serves as it would have then."""

import json
import shutil

from clickbandit.live import Ranker
from clickbandit.live.settings import RankerSettings
from live import old_store


def test_a_store_of_version_0_1(folder):
    """Counts, histories, learners from a snapshot and from the log alone, and every list that comes next."""
    copy = folder / "copy.db"
    shutil.copy(old_store.DATA / f"{old_store.NAME}.db", copy)
    expected = json.loads((old_store.DATA / f"{old_store.NAME}.json").read_text(encoding="utf-8"))
    found = old_store.said(copy)
    assert found.keys() == expected.keys()
    for arm in ("treated", "held_out"):
        one, other = (said["before"]["stats"]["holdout"][arm] for said in (found, expected))
        assert (one["impressions"], one["clicks"]) == (other["impressions"], other["clicks"])
    for said in (found, expected):
        forget_comparisons(said)
    for part in ("stats", "summaries", "details", "histories", "verified"):
        assert found["before"][part] == expected["before"][part], part
    assert found == expected


def forget_comparisons(said):
    """Their intervals are others since, which may be watched, and come once there are more clicks."""
    for when in ("before", "after"):
        for part in (said[when]["stats"], *said[when]["details"]):
            del part["holdout"]


def test_old_queries_learn_on_with_their_policy(folder):
    """The default was another then, and none is named now: only a new query gets today's."""
    copy = folder / "copy.db"
    shutil.copy(old_store.DATA / f"{old_store.NAME}.db", copy)
    with Ranker(f"sqlite:///{copy}", positions=3) as ranker:
        before = {summary.query: summary for summary in ranker.queries().queries}
        shown = ranker.rank("batched", [*old_store.ITEMS, "new"])
        ranker.settle(shown.id)
        new = ranker.rank("today", old_store.ITEMS)
        assert (shown.policy, new.policy) == ("batchrank", RankerSettings().policy)
        after = ranker.query("batched")
        assert after.summary.learned == before["batched"].learned + 1
        assert after.generation == 1
        assert ranker.verify("batched")
        assert {query: summary.policy for query, summary in before.items()} == {
            **old_store.POLICIES,
            "frozen": "batchrank",
            "started over": "batchrank",
        }
