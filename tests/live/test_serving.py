"""`clickbandit serve`: what it refuses, what it says, and that being stopped loses nothing."""

import http.client
import json
import re
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import closing

import pytest

from clickbandit import InputError
from clickbandit.live import Ranker, StoreError
from clickbandit.live.http import server
from clickbandit.live.http.auth import Keys, Rates, read_keys
from clickbandit.live.http.server import serve
from clickbandit.live.settings import ServiceSettings
from clickbandit.live.stores.late import open_when_there
from live.conftest import new_schema
from live.processes import ask, can_answer, command, running
from live.serving import until

ITEMS = list("ABCDEF")
KEY = "correct-horse-battery"


def refusal(folder, **options) -> str:
    """What it says when it does not start."""
    options = {"store": f"sqlite:///{folder}/clicks.db", "host": "127.0.0.1", "port": 0, **options}
    with pytest.raises(InputError) as raised:
        serve(ServiceSettings(**options))
    return str(raised.value)


def test_sqlite_serves_one_worker(tmp_path):
    done = subprocess.run(command("--workers", "2"), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("clickbandit: a SQLite store serves one worker, found 2 workers")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_other_machines_need_keys(tmp_path):
    said = refusal(tmp_path, host="0.0.0.0")
    assert "API keys are needed" in said
    assert "--insecure" in said


def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} cannot be listened on" in refusal(tmp_path, port=port)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"policy": "batchrak"}, "did you mean batchrank?"),
        ({"store": "mysql://x"}, "a store must be"),
        ({"window": "soon"}, "window must be"),
        ({"holdout": 2.0}, "holdout must be"),
        ({"positions": 0}, "positions must be"),
        ({"rate": 0.0}, "rate must be"),
        ({"workers": 0}, "workers must be"),
        ({"api_keys_file": "nowhere.txt"}, "cannot be read"),
        ({"host": "no.such.host.invalid"}, "cannot be listened on"),
    ],
)
def test_wrong_options(tmp_path, option, says):
    assert says in refusal(tmp_path, **option)


def test_temporary_files_are_where_sockets_can_be(tmp_path, postgres_server, monkeypatch):
    """The path of a socket has at most 107 bytes."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(server, "_supervise", lambda *_: pytest.fail("it serves"))
    said = refusal(tmp_path, store=new_schema(postgres_server), workers=2)
    assert "too long: set TMPDIR to another" in said
    assert not list(long.iterdir())


def test_who_refuses_to_start_closes_the_store(tmp_path, monkeypatch):
    opened = []

    def open_(url):
        opened.append(open_when_there(url))
        return opened[0]

    monkeypatch.setattr(server, "open_when_there", open_)
    assert "did you mean" in refusal(tmp_path, policy="batchrak")
    with pytest.raises(StoreError, match="closed database"):
        opened[0].policies()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux says it of another process")
def test_it_may_have_as_many_open_files_as_connections(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    try:
        with running(tmp_path) as (process, _, _):
            limit, _ = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert limit >= min(5100, hard)


# --- keys ---------------------------------------------------------------------------------------------------


def test_where_keys_come_from(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# who may\n\nshop:{KEY}1   # the shop\n{KEY}2\n")
    keys = read_keys(file, {"CLICKBANDIT_API_KEYS": f"page:{KEY}3, {KEY}4"})
    owners = [keys.owner(f"Bearer {KEY}{k}".encode()) for k in (1, 2, 3, 4, 5)]
    assert owners == ["shop", "key4", "page", "key2", None]
    assert not read_keys(None, {})
    assert KEY not in repr(vars(keys))


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (["short"], "at least 16"),
        (["has spaces in it, and many of them"], "KEY or NAME:KEY"),
        (["a:b:" + KEY], "KEY or NAME:KEY"),
        ([f"a:{KEY}1", f"a:{KEY}2"], "names of their own, found 'a' twice"),
    ],
)
def test_keys_that_cannot_be(entries, says):
    with pytest.raises(InputError, match=says) as raised:
        Keys(entries)
    assert KEY not in str(raised.value)


def test_a_file_without_keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# none\n")
    with pytest.raises(InputError, match="must have a key on a line"):
        read_keys(file, {})


def test_a_rate_is_kept_over_time():
    rates = Rates(10.0)
    allowed = sum(rates.wait("a", step / 1000) == 0 for step in range(5000))
    assert 10 + 49 <= allowed <= 10 + 50
    assert sum(rates.wait("b", 5.0) == 0 for _ in range(20)) == 10
    assert rates.wait("b", 5.0) == pytest.approx(0.1)
    assert rates.wait("b", 5.2) == 0


# --- serving ------------------------------------------------------------------------------------------------


def test_what_it_says_works(folder):
    """The commands that it prints are commands, for whoever has curl; here the first is asked without."""
    with running(folder, "--positions", "2", CLICKBANDIT_API_KEYS=f"shop:{KEY}") as (process, line, port):
        assert line.startswith(
            f"clickbandit serves http://127.0.0.1:{port} from sqlite:///clickbandit.db with random"
        )
        example = process.stdout.readline()
        body = json.loads(re.search(r"--json '(.*)'", example)[1])
        assert f"curl http://127.0.0.1:{port}/v1/rank -H 'Authorization: Bearer KEY'" in example
        status, answer = ask(port, "POST", "/v1/rank", body, Authorization=f"Bearer {KEY}")
        assert status == 200
        assert len(json.loads(answer)["items"]) == 2
        assert ask(port, "POST", "/v1/rank", body)[0] == 401
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert (folder / "clickbandit.db").exists()
        logged = [json.loads(line) for line in err.splitlines()]
        assert [line["status"] for line in logged] == [200, 401]
        assert KEY not in out + err
        assert "red shoes" not in err


def check_acknowledged(folder, ranked, clicked):
    """Every list and click that was answered is in the store, once."""
    with Ranker(f"sqlite:///{folder}/clickbandit.db", policy="random") as ranker:
        before = ranker.stats()
        for id, items in ranked.items():
            assert ranker.rank(f"q{int(id.partition('-')[2]) % 3}", ITEMS, id=id).items == items
        assert {verdict.verdict for verdict in ranker.events(list(clicked.values()))} == {"duplicate"}
        after = ranker.stats()
        assert after.impressions == before.impressions <= len(ranked) + 8
        assert after.settled == before.settled <= len(ranked) / 2 + 8
        assert all(ranker.verify(f"q{k}") for k in range(3))


def test_to_be_stopped_loses_nothing(folder):
    """SIGTERM while many ask: whatever was acknowledged is there afterwards, once."""
    ranked, clicked, errors = {}, {}, []
    stop = threading.Event()

    def client(number: int, port: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            ask_until_stopped(number, connection)

    def ask_until_stopped(number: int, connection: http.client.HTTPConnection) -> None:
        def post(path, body):
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
            assert response.status == 200, answer
            return answer

        try:
            for k in range(100_000):
                id = f"{number}-{k}"
                answer = post("/v1/rank", {"query": f"q{k % 3}", "items": ITEMS, "id": id})
                ranked[id] = tuple(item["id"] for item in answer["items"])
                event = {"id": id, "item": ranked[id][0], "event_id": f"e{id}"}
                (result,) = post("/v1/events", {"events": [event]})["results"]
                assert result["verdict"] == "accepted"
                clicked[id] = event
                if k % 2:
                    assert post(f"/v1/impressions/{id}/settle", None)["clicked"] == [ranked[id][0]]
        except (OSError, http.client.HTTPException):
            if not stop.is_set():
                errors.append("the connection broke before the service was stopped")
        except BaseException as error:
            errors.append(repr(error))

    with running(folder, "--no-log-requests") as (process, _, port):
        clients = [threading.Thread(target=client, args=(number, port)) for number in range(8)]
        for thread in clients:
            thread.start()
        while len(clicked) < 300 and not errors:
            time.sleep(0.01)
        stop.set()
        process.terminate()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert err == ""
        for thread in clients:
            thread.join()
    assert errors == []
    assert len(clicked) >= 300
    check_acknowledged(folder, ranked, clicked)


def test_to_be_stopped_at_once(folder):
    with running(folder) as (process, _, _):
        process.terminate()
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")


def test_a_pause_before_the_end(folder):
    """Whoever sends requests here can see that it is not ready, and has the time to send them elsewhere."""
    with running(folder, "--drain", "1s") as (process, _, port):
        until(lambda: can_answer(port), 60)
        process.terminate()
        until(lambda: ask(port, "GET", "/readyz", None)[0] == 503, 60)
        assert ask(port, "POST", "/v1/rank", {"query": "q", "items": ITEMS})[0] == 200
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_one_process_has_the_file(folder):
    with running(folder) as (process, _, _):
        said = refusal(folder, store=f"sqlite:///{folder}/clickbandit.db")
    assert f"is in use by process {process.pid}" in said


# --- many workers -------------------------------------------------------------------------------------------
