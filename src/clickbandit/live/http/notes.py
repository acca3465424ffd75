"""Answers, counted and logged at the end of a turn of the event loop, in which there may have been many."""

import asyncio
import time
from datetime import UTC, datetime

from msgspec import UNSET

from clickbandit.live.http import log
from clickbandit.live.http.metrics import Metrics
from clickbandit.live.http.reading import Request


class Notes:
    """Those of this turn."""

    def __init__(self, metrics: Metrics, log_requests: bool, log_queries: bool) -> None:
        self._metrics = metrics
        self._log_requests = log_requests
        self._log_queries = log_queries
        self._added: list[tuple[Request, int, float]] = []
        """A request, the status of its answer, and the seconds it took."""

    def add(self, request: Request, status: int) -> None:
        if not self._added:
            asyncio.get_running_loop().call_soon(self._write)
        self._added.append((request, status, time.perf_counter() - request.started))

    def _write(self) -> None:
        added, self._added = self._added, []
        now = datetime.now(UTC)
        lines = []
        for request, status, seconds in added:
            path = request.route.endpoint.path if request.route else "none"
            self._metrics.answered(path, status, seconds)
            if self._log_requests:
                lines.append(
                    log.Answered(
                        now,
                        "info" if status < 500 else "error",
                        request.request_id.decode(),
                        request.method,
                        path,
                        status,
                        int(seconds * 1e6) / 1e6,
                        request.owner or UNSET,
                        request.names[0] if self._log_queries and request.names else UNSET,
                    )
                )
        self._metrics.gather()
        log.add_answers(lines)
        log.write_all()
