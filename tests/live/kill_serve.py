"""The process that `kill` kills: a ranker that answers over a Unix socket."""

import asyncio
import contextlib
import json
import logging
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from clickbandit.live import AsyncRanker, StoreError, shared, transaction

EXPIRING = "query 4"
"""Its impressions are left to the window."""
WINDOW = 2.0
POSITIONS = 3


def serve(store: str, path: str, ready: Connection) -> None:
    """Answer requests, a JSON list [method, arguments] a line, until killed."""
    # queries teach each other soon, and what one process learned is asked for by the others all the time
    shared.MIN_LESSONS, shared.REFRESH, transaction._SNAPSHOT_RECORDS = 1, 100, 24
    logging.getLogger("clickbandit.live").setLevel(logging.CRITICAL)  # it is meant to fail
    policy = f"{Path(__file__).with_name('counting.py')}:Counting"

    async def main() -> None:
        ranker = AsyncRanker(
            store, policy=policy, prior="given-order", positions=POSITIONS, window="1d", learners=3
        )
        known = False
        while not known:
            with contextlib.suppress(StoreError):  # others may keep it busy for longer than anyone waits
                if not (await ranker.queries(search=EXPIRING)).total:
                    await ranker.reset(EXPIRING, window=WINDOW)
                known = True

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):  # of whoever did not wait for the reply
                while line := await reader.readline():
                    method, arguments = json.loads(line)
                    try:
                        reply = await getattr(ranker, method)(**arguments)
                    except Exception as error:
                        reply = {"error": type(error).__name__}
                    writer.write(msgspec.json.encode(reply) + b"\n")
            writer.close()

        await asyncio.start_unix_server(answer, path)
        ready.send("ready")
        await asyncio.Event().wait()

    asyncio.run(main())
