"""What Prometheus reads: counters of this process, and gauges of the store at the moment of reading."""

import collections
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from clickbandit.live.values import EventVerdict, Shown, Source, Stats, Verdict

disable_created_metrics()  # type: ignore[no-untyped-call]  # a time for each series, which nobody reads

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Where several workers of one service keep their counters, if there are several."""
RECENT = 1000
"""Requests to each endpoint whose times are kept for the page."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

_GAUGES = {
    "queries": "Queries in the store",
    "past_horizon": "Queries that learned from more impressions than their horizon",
    "frozen": "Frozen queries",
    "sure": "Queries that are not frozen, and whose policy is sure of its list",
    "learned": "Impressions learned from since their queries last started afresh",
    "store_bytes": "Size of the store",
    "clock_skew": "Seconds by which the machine's clock is ahead of the service's, which does not jump",
    "learners": "Learners in memory",
    "learner_bytes": "About how many bytes these take",
    "waiting": "Operations that wait for their batch",
}
_LIMITS = {
    "workers": "Workers that answer",
    "expected_workers": "Workers that there are to be",
    "overdue_seconds": "For how long the impression has been due that is to settle first",
    "max_queries": "How many queries there may be",
    "max_learner_bytes": "Bytes that learners may take",
}
_TOTALS = {
    "impressions": "Lists shown that the store knows of, whatever became of them",
    "settled": "Impressions settled",
    "voided": "Impressions voided",
    "clicks": "Clicks of settled impressions, at most one for an item in each",
    "late": "Clicks that came after settlement",
    "reward": "What settled impressions earned: their clicks, unless --rewards says more",
    "failures": "Batches of operations that the store refused",
    "batches": "Transactions committed",
    "operations": "Operations in these",
    "loaded": "Learners read from the store",
    "checked": "Queries whose log was replayed in the background",
    "damaged": "Snapshots and logs that were found not to be what was written",
}


class Metrics:
    """Counts what the service does. Names begin with clickbandit_."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "clickbandit_requests_total",
            "Requests answered",
            ["endpoint", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "clickbandit_request_seconds",
            "Time to answer",
            ["endpoint"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._lists = Counter(
            "clickbandit_lists_total",
            "Lists served, by how they were made; fallback: the store failed",
            ["source"],
            registry=self._registry,
        )
        self._events = Counter(
            "clickbandit_events_total", "Events, by verdict", ["verdict"], registry=self._registry
        )
        for source in get_args(Source):
            self._lists.labels(source)
        for verdict in get_args(EventVerdict):
            self._events.labels(verdict)
        self._answered: dict[tuple[str, int], list[float]] = collections.defaultdict(list)
        """What `gather` has not taken yet: by endpoint and status how long each request took, and so on."""
        self._listed: collections.Counter[Source] = collections.Counter()
        self._judged: collections.Counter[EventVerdict] = collections.Counter()
        self._recent: dict[str, collections.deque[float]] = {}
        self._statuses: collections.Counter[int] = collections.Counter()
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        if SHARED not in os.environ:
            ProcessCollector(registry=self._registry)

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        times = self._answered[endpoint, status]
        times.append(seconds)
        if len(times) >= RECENT:
            self.gather()

    def gather(self) -> None:
        """Put what was counted where it is read, by other workers too."""
        for (endpoint, status), times in self._answered.items():
            children = self._children.get((endpoint, status))
            if children is None:
                children = self._requests.labels(endpoint, str(status)), self._seconds.labels(endpoint)
                self._children[endpoint, status] = children
            children[0].inc(len(times))
            observed = children[1]  # which has no way to observe many at once
            for bucket, n in collections.Counter(bisect_left(_SECONDS, seconds) for seconds in times).items():
                observed._buckets[bucket].inc(n)
            observed._sum.inc(sum(times))
            self._statuses[status // 100] += len(times)
            self._recent.setdefault(endpoint, collections.deque(maxlen=RECENT)).extend(times)
        for source, n in self._listed.items():
            self._lists.labels(source).inc(n)
        for verdict, n in self._judged.items():
            self._events.labels(verdict).inc(n)
        for counted in (self._answered, self._listed, self._judged):
            counted.clear()

    def opened(self, endpoint: str) -> None:
        """A stream: what it takes to begin says nothing about the others."""
        self._requests.labels(endpoint, "200").inc()

    def answers(self) -> tuple[int, int, int]:
        """Requests answered by this process, of these refused, and failed."""
        self.gather()
        return self._statuses.total(), self._statuses[4], self._statuses[5]

    def times(self) -> dict[str, list[float]]:
        """By endpoint, how long the last requests took."""
        self.gather()
        return {endpoint: list(recent) for endpoint, recent in self._recent.items()}

    def listed(self, shown: Shown) -> None:
        self._listed[shown.source] += 1

    def judged(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            self._judged[verdict.verdict] += 1

    def text(self, stats: Stats | None, limits: Mapping[str, float]) -> bytes:
        """Everything, with what the store says unless it says nothing, and what there may be of it."""
        self.gather()
        registry = self._registry
        if SHARED in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry) + generate_latest(_Store(stats, limits))


def latency(times: Mapping[str, Sequence[float]]) -> list[tuple[str, int, float, float]]:
    """For each endpoint how many of the last requests these are, their median and their 99th percentile.

    >>> latency({"/v1/rank": [0.3, 0.1, 0.2]})
    [('/v1/rank', 3, 0.2, 0.3)]
    """
    found = []
    for endpoint, recent in sorted(times.items()):
        ordered = sorted(recent)
        n = len(ordered)
        found.append((endpoint, n, ordered[n // 2], ordered[int(n * 0.99)]))
    return found


class _Store:
    """The store's counts as metrics, and what all workers did."""

    def __init__(self, stats: Stats | None, limits: Mapping[str, float]) -> None:
        self._stats = stats
        self._limits = limits

    def collect(self) -> Iterator[Metric]:
        stats = self._stats
        for name, value in self._limits.items():
            yield GaugeMetricFamily(f"clickbandit_{name}", _LIMITS[name], value=value)
        yield GaugeMetricFamily("clickbandit_store_up", "Whether the store answers", value=stats is not None)
        if stats is None:
            return
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(f"clickbandit_{name}", text, value=getattr(stats, name))
        for name, text in _TOTALS.items():
            yield CounterMetricFamily(f"clickbandit_{name}", text, value=getattr(stats, name))
        if stats.holdout is not None:
            means = GaugeMetricFamily(
                "clickbandit_clicks_per_impression",
                "Clicks, or with --rewards reward, per settled impression while a share was held out",
                labels=["arm"],
            )
            means.add_metric(["treated"], stats.holdout.treated.per_impression.mean)
            means.add_metric(["held_out"], stats.holdout.held_out.per_impression.mean)
            yield means
        lift = GaugeMetricFamily(
            "clickbandit_holdout_difference",
            "Clicks (or reward) per impression, treated minus held out, with the ends of its 95% confidence sequence",
            labels=["value", "period"],
        )
        for period, found in (
            ("all", stats.holdout),
            ("week", stats.holdout_week),
            ("day", stats.holdout_today),
        ):
            for name in ("mean", "low", "high") if found is not None else ():
                lift.add_metric([name, period], getattr(found.difference, name))  # type: ignore[union-attr]
        yield lift
