"""Answers, counted at once and logged a little later, many together."""

import asyncio
import time
from datetime import UTC, datetime

from msgspec import UNSET

from clickbandit.live.http import log
from clickbandit.live.http.metrics import Metrics
from clickbandit.live.http.reading import Request

PAUSE = 0.05
"""Seconds until answers are logged, and their counts are where other workers read them."""


class Notes:
    """Those that are to be logged."""

    def __init__(self, metrics: Metrics, log_requests: bool, log_queries: bool) -> None:
        self._metrics = metrics
        self._log_requests = log_requests
        self._log_queries = log_queries
        self._added: list[tuple[Request, int, float]] = []
        """A request, the status of its answer, and when that was (`time.perf_counter`)."""

    def add(self, request: Request, status: int) -> None:
        ended = time.perf_counter()
        if not self._added:
            asyncio.get_running_loop().call_later(PAUSE, self.write)
        self._added.append((request, status, ended))
        path = request.route.endpoint.path if request.route else "none"
        self._metrics.answered(path, status, ended - request.started)

    def write(self) -> None:
        """Those that there are."""
        added, self._added = self._added, []
        started = time.time() - time.perf_counter()
        lines = []
        for request, status, ended in added:
            if self._log_requests:
                lines.append(
                    log.Answered(
                        datetime.fromtimestamp(started + ended, UTC),
                        "info" if status < 500 else "error",
                        request.request_id.decode(),
                        request.method,
                        request.route.endpoint.path if request.route else "none",
                        status,
                        int((ended - request.started) * 1e6) / 1e6,
                        request.owner or UNSET,
                        request.names[0] if self._log_queries and request.names else UNSET,
                    )
                )
        self._metrics.gather()
        log.add_answers(lines)
        log.write_all()
