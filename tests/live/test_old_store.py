"""A store that an earlier version wrote is read by this one, and serves as it would have then."""

import json
import shutil

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
