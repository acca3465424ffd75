"""What the page gets: streams of what changes, and its files."""

import contextlib
import http.client
import json
import time

from clickbandit.live import AsyncRanker
from clickbandit.live.http import server, stream
from clickbandit.live.http.auth import KeysFile
from live.conftest import only_sqlite
from live.serving import serve


def messages(response, n):
    """The first messages of a stream, without those that only say that it is there."""
    found = []
    while len(found) < n:
        line = response.readline()
        if line.startswith(b"event: "):
            found.append(line[7:].decode().strip())
        elif line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    return found


@only_sqlite
def test_a_stream_says_what_changes(url, monkeypatch):
    monkeypatch.setattr(stream, "_MIN_INTERVAL", 0.1)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serve(AsyncRanker(url, policy="random", positions=3)))

        def follow(path):
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
            stack.callback(connection.close)
            connection.request("GET", path)
            return stack.enter_context(connection.getresponse())

        viewed = follow("/v1/stream?view=query&query=shoes")
        assert viewed.headers["content-type"] == "text/event-stream"
        found, problem = messages(viewed, 2)
        assert (found, problem["status"]) == ("problem", 404)
        served.rank("shoes")
        while found == "problem":
            (found,) = messages(viewed, 1)
            if found == "problem":
                messages(viewed, 1)
        assert found["detail"]["summary"]["impressions"] == 1
        assert len(found["history"]["impressions"]) == 1
        assert served.get("/v1/stream?view=nothing").status == 422
        assert served.get("/v1/stream?view=demo").status == 422
        health = served.get("/v1/health").json
        assert {entry["endpoint"] for entry in health["latency"]} == {"/v1/rank", "/v1/stream"}
        assert (health["requests"], health["refused"], health["failed"]) == (3, 2, 0)
        other = follow("/v1/stream")
        assert messages(other, 1)[0]["stats"]["impressions"] == 1
        # to be stopped ends streams too, at once
        started = time.monotonic()
        served.service.stop()
        other.read()
        viewed.read()
        assert time.monotonic() - started < 10


@only_sqlite
def test_a_stream_ends_with_its_key(url, folder, monkeypatch):
    """Also if another key now has its name, or it may do less; others go on."""
    monkeypatch.setattr(server, "_CHECK_INTERVAL", 0.05)
    monkeypatch.setattr(stream, "_MIN_INTERVAL", 0.1)
    stay, *go = (f"{name}:{name}-correct-horse-battery" for name in ("stay", "gone", "other", "less"))
    path = folder / "keys"
    path.write_text("\n".join([stay, *go]))
    ranker = AsyncRanker(url, policy="random")
    with serve(ranker, keys=KeysFile(path, {})) as served, contextlib.ExitStack() as stack:

        def follow(entry):
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
            stack.callback(connection.close)
            key = {"Authorization": f"Bearer {entry.partition(':')[2]}"}
            connection.request("GET", "/v1/stream", headers=key)
            return stack.enter_context(connection.getresponse())

        staying, *going = map(follow, (stay, *go))
        for one in (staying, *going):
            messages(one, 1)
        path.write_text(f"{stay}\nother:another-correct-horse\n{go[2]} rank\n")
        for one in going:
            assert b"" in (one.readline() for _ in range(300))  # its end
        messages(staying, 3)


@only_sqlite
def test_all_who_look_at_the_same_cost_one(url, monkeypatch):
    monkeypatch.setattr(stream, "MAX_STREAMS", 5)
    monkeypatch.setattr(stream, "_MIN_INTERVAL", 0.3)
    looks = 0
    stats = AsyncRanker.stats

    async def counted(self, **settings):
        nonlocal looks
        looks += 1
        return await stats(self, **settings)

    monkeypatch.setattr(AsyncRanker, "stats", counted)
    with serve(AsyncRanker(url, policy="random", positions=3)) as served, contextlib.ExitStack() as stack:
        streams = []
        for _ in range(5):
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
            stack.callback(connection.close)
            connection.request("GET", "/v1/stream")
            streams.append(stack.enter_context(connection.getresponse()))
        for one in streams:
            messages(one, 3)
        assert 3 <= looks <= 5
        refused = served.get("/v1/stream")
        assert refused.status == 503
        assert "5 pages are open already" in refused.detail


@only_sqlite
def test_the_page_is_served_and_asks_nobody_else(url):
    with serve(AsyncRanker(url, policy="random")) as served:
        for path, kind in (
            ("/", "text/html"),
            ("/page/app.js", "text/javascript"),
            ("/page/base.css", "text/css"),
        ):
            answer = served.get(path)
            assert answer.status == 200
            assert answer.headers["content-type"].startswith(kind)
            assert answer.headers["content-security-policy"].startswith("default-src 'self';")
            assert b"://" not in answer.body
        assert served.get("/page/info.json").json["demo"] is False
        assert served.send("HEAD", "/").status == 200
        for path in ("/page/", "/page/../__init__.py", "/page/missing.js"):
            assert served.get(path).status == 404
