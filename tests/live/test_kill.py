"""kill -9 at any moment: nothing that was acknowledged is lost, nothing counts twice. See `kill.py`."""

from pathlib import Path

from tests.live import kill

from clickbandit.live import Ranker, shared
from clickbandit.priors import usual_attraction


def test_a_few_kills(url, monkeypatch):
    said = []

    def unhurried(*given):
        client = kill.Client(*given)
        client.pause = 0.05  # kills come at the same moments, and there is less to ask again in the end
        return client

    workers = 1 if url.startswith("sqlite:") else 2
    kill.run(url, 2, workers=workers, say=said.append, make_client=unhurried)
    assert said[-1].endswith("0 lost, 0 double")
    monkeypatch.setattr(shared, "MIN_LESSONS", 1)
    policy = f"{Path(__file__).with_name('counting.py')}:Counting"
    with Ranker(url, policy=policy, prior="given-order", positions=3) as ranker:
        ranker.rank("last", ["last-A", "last-B"], features=[[65.0], [66.0]])
        first, _ = ranker.query("last").learned["items"]
        assert first["expected"] != usual_attraction(1)[0], "others taught nothing"
        assert all(ranker.verify(one.query) for one in ranker.queries().queries)
