"""Several workers that serve as one: they die, are started anew, and end together."""

import contextlib
import json
import os
import re
import signal
from pathlib import Path

import pytest

from clickbandit.live import Ranker
from live.conftest import new_schema
from live.processes import ask, can_answer, running
from live.serving import until

ITEMS = list("ABCDEF")


def children(pid: int) -> list[int]:
    """The workers of a service; multiprocessing also has a process that looks after resources."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError):
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                found.append(int(child))
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def total(port: int, name: str) -> float:
    text = ask(port, "GET", "/metrics", None)[1].decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, flags=re.M)[1])


@pytest.fixture
def workers(folder, postgres_server):
    """A service with two workers, which are both there."""
    store = new_schema(postgres_server)
    with running(folder, "--workers", "2", CLICKBANDIT_STORE=store) as (process, line, port):
        assert store not in line
        until(lambda: len(children(process.pid)) == 2 and can_answer(port), 60)
        yield process, port, store


def test_many_workers_are_one_service(workers):
    process, port, store = workers
    for one in children(process.pid):  # while one does nothing the other answers
        os.kill(one, signal.SIGSTOP)
        until(lambda: can_answer(port), 60)
        os.kill(one, signal.SIGCONT)
    for k in range(40):  # each on a connection of its own, which either worker may get
        for _ in range(2):
            status, answer = ask(port, "POST", "/v1/rank", {"query": "shoes", "items": ITEMS, "id": str(k)})
            assert status == 200
        item = json.loads(answer)["items"][0]["id"]
        answer = ask(port, "POST", "/v1/events", {"events": [{"id": str(k), "item": item}]})[1]
        assert json.loads(answer)["results"][0]["verdict"] == "accepted"
    accepted = 'clickbandit_events_total{verdict="accepted"}'
    until(lambda: total(port, accepted) == 40, 60)  # the last may be counted just after it was answered
    dead, survivor = children(process.pid)
    os.kill(dead, signal.SIGKILL)
    until(lambda: is_gone(dead) and len(children(process.pid)) == 2, 60)
    until(lambda: can_answer(port), 60)
    assert total(port, 'clickbandit_lists_total{source="policy"}') == 80
    assert total(port, accepted) == 40
    assert total(port, "clickbandit_impressions_total") == 40
    _, replaced = children(process.pid)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    logged = [json.loads(line) for line in err.splitlines()]
    (death,) = [line for line in logged if line["event"] != "request"]
    assert (death["event"], death["pid"], death["exit_code"]) == ("worker died", dead, -signal.SIGKILL)
    ids = {line["request_id"].partition("-")[0] for line in logged if line["event"] == "request"}
    assert len(ids) >= 2  # all of them did something
    assert all(map(is_gone, (survivor, replaced)))
    with Ranker(store, policy="random") as ranker:
        assert ranker.query("shoes").summary.impressions == 40


def test_workers_end_with_the_process_that_started_them(workers):
    process, _, _ = workers
    ends = children(process.pid)
    process.kill()
    until(lambda: all(map(is_gone, ends)), 60)


def test_workers_that_take_the_place_of_others_go_on_with_their_clock(folder, postgres_server):
    """Whatever the machine's was set to meanwhile: else they would settle at once what is not due for long."""
    jump = "import os, time\nwall = time.time\ntime.time = lambda: wall() + 7200 * os.path.exists('jumped')\n"
    (folder / "sitecustomize.py").write_text(jump)
    environment = {"CLICKBANDIT_STORE": new_schema(postgres_server), "PYTHONPATH": str(folder)}
    with running(folder, "--workers", "2", **environment) as (process, _, port):
        until(lambda: len(children(process.pid)) == 2 and can_answer(port), 60)
        (folder / "jumped").touch()
        before = children(process.pid)
        for one in before:
            os.kill(one, signal.SIGKILL)
        until(lambda: len({*children(process.pid)} - {*before}) == 2 and can_answer(port), 60)
        assert total(port, "clickbandit_clock_skew") == pytest.approx(7200, abs=100)
