"""Requests of other workers, as the ranker's thread takes them from their sockets."""

import asyncio
import contextlib
import threading
import time

import pytest
import uvloop

from clickbandit.live import AsyncRanker
from clickbandit.live.answers import Operation
from clickbandit.live.http import mailbox
from clickbandit.live.http.elsewhere import read_request, write_request
from clickbandit.live.http.lists import list_request, read_list
from clickbandit.live.http.mailbox import Mailbox
from clickbandit.live.http.wire import _FRAME, FAILED, HELLO, RANK, Frames, Wire
from clickbandit.live.inbox import Bell
from clickbandit.live.requests import Told, rank_request
from clickbandit.live.values import Shown

LONG = [f"item {k} {'x' * 100}" for k in range(1000)]


def request(query="shoes", items=("A", "B"), **more):
    return rank_request(query, items, None, None, more.pop("pinned", None), (), "0" * 32)._replace(**more)


def framed(number, content, kind=RANK):
    return _FRAME.pack(len(content), number, kind) + content


def with_mailbox(test):
    """Run a test in an event loop, with a mailbox and what connects to it."""

    async def run(folder):
        box, wires = Mailbox(lambda shown: shown.items), []
        path = str(folder / "box")

        def connected(wire):
            wires.append(wire)
            box.connected(wire)

        server = await asyncio.get_running_loop().create_unix_server(
            lambda: Wire(lambda wire, read: None, box.lost, connected), path
        )
        try:
            async with asyncio.timeout(20):
                await test(box, lambda: asyncio.open_unix_connection(path))
        finally:
            server.close()
            for wire in wires:
                wire.transport.abort()
            await asyncio.sleep(0.01)
            box.close()

    return lambda tmp_path: uvloop.run(run(tmp_path))


async def met(box, connect):
    """A connection on which one may ask."""
    reader, writer = await connect()
    while not box._new:
        await asyncio.sleep(0.001)
    assert box.collect() == []
    assert await reader.readexactly(_FRAME.size) == framed(0, b"", HELLO)
    return reader, writer


async def collected(box, n):
    found = []
    for _ in range(1000):
        found += box.collect()
        if len(found) >= n:
            return found
        await asyncio.sleep(0.002)
    raise AssertionError(f"only {len(found)} came")


@with_mailbox
async def test_requests_come_as_they_were_sent_in_pieces_or_together(box, connect):
    _, writer = await met(box, connect)
    wanted = [request(f"query {k}", id=f"{k}") for k in range(50)] + [
        request(items=LONG),
        request(user="Ada"),
    ]
    written = b"".join(framed(k + 1, write_request(one)) for k, one in enumerate(wanted))
    for at in range(0, len(written), 997):
        writer.write(written[at : at + 997])
        await asyncio.sleep(0)
    found = await collected(box, len(wanted))
    assert [operation.request for operation in found] == wanted
    assert [number for _, number in (operation.future for operation in found)] == [*range(1, 53)]
    writer.close()


@with_mailbox
async def test_answers_go_to_whoever_asked(box, connect):
    both = [await met(box, connect) for _ in range(2)]
    for k, (_, writer) in enumerate(both):
        writer.write(framed(7, write_request(request(f"query {k}"))))
    found = await collected(box, 2)
    for operation in found:
        items = (operation.request.query,)
        operation.sink([(operation.future, Shown("x", "", items, (1.0,), "random", "policy", None, None))])
    for k, (reader, writer) in enumerate(both):
        answer = framed(7, f'["query {k}"]'.encode())
        assert await reader.readexactly(len(answer)) == answer
        writer.close()


@with_mailbox
async def test_what_cannot_be_read_or_made_is_answered_so(box, connect):
    reader, writer = await met(box, connect)
    writer.write(framed(1, b"nonsense") + framed(2, write_request(request())))
    (operation,) = await collected(box, 1)
    operation.sink([(operation.future, RuntimeError("no"))])
    failures = framed(1, b"", FAILED) + framed(2, b"", FAILED)
    assert await reader.readexactly(len(failures)) == failures
    writer.close()


@with_mailbox
async def test_what_somebody_asked_who_is_gone_is_not_made(box, connect):
    """Nobody would see the list; and the connection is forgotten."""
    for way in ("closed there", "closed here", "ended here"):
        reader, writer = await met(box, connect)
        writer.write(framed(1, write_request(request())))
        await writer.drain()
        if way == "closed there":
            writer.close()
            await writer.wait_closed()
        elif way == "closed here":
            next(iter(box._left)).transport.abort()
            await asyncio.sleep(0.01)
        else:
            box.turn_away()
        for _ in range(3):
            assert box.collect() == []
            await asyncio.sleep(0.01)
        assert (box._letters, box._left) == ([], {})
        with contextlib.suppress(ConnectionResetError):  # as what was asked was not read
            assert await reader.read() == b""
        writer.close()


@with_mailbox
async def test_an_end_wakes_whoever_waits(box, connect):
    _, writer = await met(box, connect)
    box.heard()
    writer.close()
    await asyncio.sleep(0.01)
    assert waited(box) < 5
    assert box.collect() == []
    assert box._letters == []


@with_mailbox
async def test_who_was_turned_away_is_greeted_when_something_is_collected_again(box, connect):
    first, one = await met(box, connect)
    box.turn_away()
    assert await first.read() == b""
    one.close()
    second, writer = await connect()
    while not box._new:
        await asyncio.sleep(0.001)
    box.turn_away()  # nothing was asked there
    box.heard()
    assert waited(box, 0.02) >= 0.015
    assert box.collect() == []
    assert await second.readexactly(_FRAME.size) == framed(0, b"", HELLO)
    writer.close()


@with_mailbox
async def test_without_a_descriptor_left_the_connection_ends(box, connect):
    def fail(descriptor):
        raise OSError(24, "Too many open files")

    with pytest.MonkeyPatch.context() as full:
        full.setattr(mailbox.os, "dup", fail)
        reader, writer = await connect()
        assert await reader.read() == b""
        writer.close()
    _, writer = await met(box, connect)
    writer.close()


@with_mailbox
async def test_whoever_waits_is_woken(box, connect):
    assert waited(box, 0.02) >= 0.015
    box.ring()
    assert waited(box) < 5
    assert waited(box) < 5  # the ring was not heard yet
    box.heard()
    assert waited(box, 0.02) >= 0.015
    ringing = threading.Timer(0.05, box.ring)
    ringing.start()
    assert 0.04 < waited(box) < 5
    ringing.join()
    box.heard()
    _, writer = await met(box, connect)
    box.heard()
    writer.write(framed(1, write_request(request())))
    await writer.drain()
    assert waited(box) < 5
    assert len(box.collect()) == 1
    assert waited(box, 0.02) >= 0.015
    writer.close()


def waited(box, seconds=10.0):
    started = time.monotonic()
    box.wait(seconds)
    return time.monotonic() - started


def test_no_ring_is_lost_between_looking_and_sleeping(tmp_path):
    """Rung at any moment, it wakes whoever is about to wait."""

    async def run():
        box, rounds = Mailbox(lambda shown: shown), 2000
        gone = threading.Semaphore(0)

        def ring():
            for _ in range(rounds):
                gone.acquire()
                box.ring()

        ringing = threading.Thread(target=ring)
        ringing.start()
        started = time.monotonic()
        for _ in range(rounds):
            gone.release()
            box.wait(10)
            while not box._rung:
                box.wait(10)
            box.heard()
        ringing.join()
        box.close()
        assert time.monotonic() - started < 9

    uvloop.run(run())


def test_what_comes_while_the_ranker_closes_is_left(tmp_path):
    """Whoever sent it sees the connection end."""

    class Late(Bell):
        def collect(self):
            return [Operation(request(), None, answered.append)] if engine._closing else []

        def wait(self, seconds):
            waits.set()
            super().wait(30)

    async def run():
        nonlocal engine
        async with AsyncRanker(f"sqlite:///{tmp_path}/clicks.db", policy="random") as ranker:
            engine = ranker._engine
            ranker.open(Late())
            assert waits.wait(10)

    engine, answered, waits = None, [], threading.Event()
    asyncio.run(run())
    assert (engine._thread.is_alive(), answered) == (False, [])


@pytest.mark.parametrize(
    "more", [{}, {"id": "visit é", "is_new": False}, {"user": "Ada"}, {"pinned": {"A": 1}}]
)
def test_a_request_is_read_as_it_was_written(more):
    for id in ("one", "other"):
        wanted = request(**{"id": id} | more)
        assert read_request(write_request(wanted)) == wanted


def test_what_is_said_besides_is_not_taken_from_an_earlier_request():
    plain = list_request(read_list(b'{"query": "shoes", "items": ["A", "B"]}'))
    for told in (Told(), Told(scores=[2.0, 1.0])):
        wanted = plain._replace(told=told, body=plain.body if told == Told() else b"another")
        assert read_request(write_request(wanted)) == wanted
    assert read_request(write_request(plain)) == plain


def test_frames_in_pieces_of_any_size():
    written = b"".join(framed(k, bytes([k]) * (k * 7 % 40)) for k in range(40))
    for size in (1, 2, 9, 10, 64, 5000):
        frames, found = Frames(), []
        for at in range(0, len(written), size):
            found += frames.read(written[at : at + size])
        assert found == [(k, RANK, bytes([k]) * (k * 7 % 40)) for k in range(40)]
