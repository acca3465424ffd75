"""Keys and rates, a store that fails, metrics and logs."""

import json
import time
from datetime import datetime

from clickbandit.live import AsyncRanker
from clickbandit.live.http import notes
from clickbandit.live.http import server as server_module
from clickbandit.live.http import service as service_module
from clickbandit.live.http.auth import Keys, KeysFile
from clickbandit.live.stores.sqlite import SqliteStore
from clickbandit.live.values import StoreError
from live.serving import metrics, serve, until

ITEMS = list("ABCDEF")


# --- keys, rates, browsers ----------------------------------------------------------------------------------

KEY = "correct-horse-battery"


def test_keys(open_service):
    service = open_service(keys=Keys([f"shop:{KEY}", "another-key-of-someone"]))
    for header in (
        {},
        {"authorization": f"Bearer {KEY}x"},
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
    ):
        for method, path in [
            ("POST", "/v1/rank"),
            ("GET", "/v1/queries"),
            ("GET", "/metrics"),
            ("GET", "/v1/stats"),
        ]:
            answer = service.send(method, path, **header)
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "Authorization: Bearer KEY" in answer.detail
    for key in (KEY, "another-key-of-someone"):
        assert service.get("/v1/queries", authorization=f"Bearer {key}").status == 200
        assert service.get("/v1/queries", authorization=f"bearer  {key}").status == 200
    for path in ("/livez", "/readyz", "/openapi.json"):
        assert service.get(path).status == 200
    assert service.get("/v1/queries", authorization=f"Bearer {KEY}", host="shop.example").status == 200


def test_what_a_key_may_do(open_service):
    names = {"all": "", "look": " read", "shop": " rank write", "boss": " admin"}
    service = open_service(keys=Keys([f"{name}:{KEY}-{name}{scopes}" for name, scopes in names.items()]))
    calls = {
        "read": ("GET", "/v1/stats"),
        "rank": ("POST", "/v1/rank"),
        "write": ("POST", "/v1/events"),
        "admin": ("POST", "/v1/queries/x/reset"),
    }
    may = {"all": calls, "look": ["read"], "shop": ["rank", "write"], "boss": calls}
    for name in names:
        for scope, (method, path) in calls.items():
            answer = service.send(method, path, authorization=f"Bearer {KEY}-{name}")
            if scope in may[name]:
                assert answer.status not in (401, 403), (name, scope)
            else:
                assert (answer.status, scope in answer.detail) == (403, True), (name, scope)
    for method, path in (
        ("DELETE", "/v1/queries/x"),
        ("DELETE", "/v1/users/x"),
        ("POST", "/v1/queries/x/freeze"),
    ):
        assert service.send(method, path, authorization=f"Bearer {KEY}-shop").status == 403


def test_wrong_keys_are_slowed_down(open_service, monkeypatch):
    monkeypatch.setattr(service_module, "_WRONG_KEYS", 0.01)
    service = open_service(keys=Keys([KEY]))
    found = [service.get("/v1/stats", authorization="Bearer wrong").status for _ in range(5)]
    assert found == [401, 429, 429, 429, 429]
    assert service.get("/v1/stats", authorization=f"Bearer {KEY}").status == 200


def test_keys_are_read_again_when_their_file_changes(open_service, folder, capfd, monkeypatch):
    monkeypatch.setattr(server_module, "_CHECK_INTERVAL", 0.05)
    path = folder / "keys"
    path.write_text(f"a:{KEY}a\n")
    service = open_service(keys=KeysFile(path, {}))

    def status(key):
        return service.get("/v1/stats", authorization=f"Bearer {KEY}{key}").status

    assert (status("a"), status("b")) == (200, 401)
    path.write_text(f"b:{KEY}b\nc:{KEY}c\n")
    until(lambda: (status("a"), status("b")) == (401, 200) or time.sleep(0.1))
    for spoil in (lambda: path.write_text("what\n"), path.unlink):
        spoil()
        assert "the keys are as they were" in read_log(capfd, 1)
        assert status("b") == 200


def test_rates(open_service):
    service = open_service(keys=Keys([f"a:{KEY}a", f"b:{KEY}b"]), rate=0.01)
    assert service.get("/v1/queries", authorization=f"Bearer {KEY}a").status == 200
    answer = service.get("/v1/queries", authorization=f"Bearer {KEY}a")
    assert answer.status == 429
    assert 95 <= int(answer.headers["retry-after"]) <= 100
    assert "too many requests" in answer.detail
    assert service.get("/v1/queries", authorization=f"Bearer {KEY}b").status == 200
    assert service.get("/livez").status == 200


def test_without_keys_no_web_page_may_ask(open_service):
    service = open_service()
    own = f"127.0.0.1:{service.port}"
    for host in (own, "localhost", "localhost:80", "[::1]:8000"):
        assert service.get("/v1/queries", host=host).status == 200
    for host in ("evil.example", "127.0.0.1.evil.example:8000", "10.0.0.1", "x:y"):
        assert service.get("/v1/queries", host=host).status == 403
    assert service.get("/v1/queries", origin=f"http://{own}").status == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        answer = service.send("POST", "/v1/queries/x/reset", origin=origin)
        assert answer.status == 403
        assert "another origin" in answer.detail
    assert service.get("/v1/stats").json["queries"] == 0


# --- when the store fails -----------------------------------------------------------------------------------


class Failing(SqliteStore):
    """A store that fails when told to."""

    broken = False

    def begin(self):
        if self.broken:
            raise StoreError("the disk is gone")
        super().begin()


def test_the_given_order_when_the_store_fails(folder, open_service):
    store = Failing(folder / "failing.db")
    service = open_service({"store": store})
    service.rank(id="x")
    assert metrics(service)["clickbandit_store_up",] == 1
    store.broken = True
    answer = service.rank(items=ITEMS[::-1], excluded=["E"])
    assert [item["id"] for item in answer["items"]] == ["F", "D", "C"]
    assert answer["source"] == "fallback"
    for answer in (
        service.post("/v1/events", {"events": [{"id": "x", "item": "A"}]}),
        service.post("/v1/impressions/x/settle"),
        service.get("/v1/queries/shoes"),
        service.get("/v1/queries"),
    ):
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.detail == "the disk is gone"
    answer = service.get("/readyz")
    assert (answer.status, "disk" in answer.detail) == (503, False)  # whoever asks without a key
    assert service.get("/livez").status == 200
    found = metrics(service)
    assert found["clickbandit_store_up",] == 0
    assert found["clickbandit_lists_total", "fallback"] == 1
    assert found["clickbandit_requests_total", "/v1/events", "503"] == 1
    store.broken = False
    until(lambda: service.get("/readyz").status == 200)
    assert service.rank(id="x")["source"] == "policy"
    assert metrics(service)["clickbandit_store_up",] == 1


def test_not_ready_when_stopping(service):
    service.service.stop()
    answer = service.get("/readyz")
    assert answer.status == 503
    assert "stopping" in answer.detail
    assert service.get("/livez").status == 200


# --- metrics and logs ---------------------------------------------------------------------------------------


def test_metrics(open_service):
    service = open_service({"holdout": 0.5})
    for k in range(140):
        item = service.rank(id=str(k))["items"][0]["id"]
        service.events({"id": str(k) if k % 2 else "none", "item": item})
        service.post(f"/v1/impressions/{k}/settle")
        if k == 30:
            early = metrics(service)
    service.get("/nowhere")
    found = metrics(service)
    lists = {key[1]: value for key, value in found.items() if key[0] == "clickbandit_lists_total"}
    assert lists == {
        "policy": lists["policy"],
        "holdout": 140 - lists["policy"],
        "rules": 0,
        "frozen": 0,
        "fallback": 0,
    }
    assert 0 < lists["policy"] < 140
    assert found["clickbandit_events_total", "accepted"] == 70
    assert found["clickbandit_events_total", "unknown"] == 70
    assert found["clickbandit_requests_total", "/v1/rank", "200"] == 140
    assert found["clickbandit_requests_total", "none", "404"] == 1
    assert found["clickbandit_request_seconds_count", "/v1/rank"] == 140
    assert found["clickbandit_impressions_total",] == 140
    assert found["clickbandit_settled_total",] == 140
    assert found["clickbandit_clicks_total",] == 70
    assert found["clickbandit_learned",] == lists["policy"]
    assert 0.3 < found["clickbandit_clicks_per_impression", "held_out"] < 0.7
    difference = [found["clickbandit_holdout_difference", "all", end] for end in ("low", "mean", "high")]
    assert difference == sorted(difference)
    assert ("clickbandit_holdout_difference", "all", "high") not in early, (
        "20 clicks on either side are needed"
    )
    assert found["process_resident_memory_bytes",] > 0


def read_log(capfd, lines):
    """A line is written just after its answer."""
    text = ""
    for _ in range(200):
        text += capfd.readouterr().err
        if text.count("\n") >= lines:
            break
        time.sleep(0.05)
    return text


def test_logs_hold_no_keys_and_no_names(open_service, capfd):
    service = open_service(keys=Keys([f"shop:{KEY}"]), log_requests=True)
    key = {"authorization": f"Bearer {KEY}"}
    service.post("/v1/rank", {"query": "red shoes", "items": ["A"], "id": "x"}, **key)
    service.get("/v1/queries/red%20shoes", x_request_id="mine", **key)
    service.get("/v1/queries/red%20shoes", authorization="Bearer wrong-key-wrong-key")
    service.get("/red%20shoes?secret=red")
    text = read_log(capfd, 4)
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("POST", "/v1/rank", 200),
        ("GET", "/v1/queries/{query}", 200),
        ("GET", "/v1/queries/{query}", 401),
        ("GET", "none", 404),
    ]
    assert [line.get("key") for line in lines] == ["shop", "shop", None, None]
    assert lines[1]["request_id"] == "mine"
    assert 0 < lines[0]["seconds"] < 30
    assert "shoes" not in text
    assert KEY not in text
    assert "wrong-key" not in text


def test_logs_hold_names_when_asked(open_service, capfd):
    service = open_service(log_requests=True, log_queries=True)
    service.get("/v1/queries/red%20shoes")
    assert json.loads(read_log(capfd, 1))["name"] == "red shoes"


def test_the_last_answers_are_logged_when_it_ends(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(notes, "PAUSE", 60.0)
    ranker = AsyncRanker(f"sqlite:///{tmp_path}/clicks.db", policy="random")
    with serve(ranker, log_requests=True) as served:
        before = time.time()
        served.rank("boots", list("AB"))
        after = time.time()
        assert (
            b'clickbandit_requests_total{endpoint="/v1/rank",status="200"} 1.0' in served.get("/metrics").body
        )
        assert capfd.readouterr().err == ""
        time.sleep(0.1)
    first = json.loads(capfd.readouterr().err.splitlines()[0])
    assert first["path"] == "/v1/rank"
    assert before - 0.01 < datetime.fromisoformat(first["time"]).timestamp() < after + 0.01
