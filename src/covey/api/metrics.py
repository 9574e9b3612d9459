"""Metrics of this service: requests, their latency, claim conflicts, parked jobs, agents, the last reading of Nova."""

import os
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.samples import Sample

from covey.model.agents import AgentState

SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"  # where the serving processes share their numbers
CONTENT_TYPE = CONTENT_TYPE_LATEST

_REQUESTS = "covey_http_requests_total"
_SECONDS = "covey_http_request_seconds"
_CONFLICTS = "covey_claim_conflicts_total"
_PARKED = "covey_jobs_parked"
_NOVA_READ = "covey_nova_read_time_seconds"
_AGENTS = "covey_agents"
_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class RouteMetrics:
    """The requests of one route and method, since the service started."""

    statuses: Mapping[str, int]
    buckets: tuple[tuple[float, float], ...]  # (seconds, requests that took no longer), ascending

    def percentile_s(self, share: float) -> float | None:
        """Return the smallest bucket that holds this share of the requests; None without any, or beyond the largest."""
        if not self.buckets or not self.buckets[-1][1]:
            return None
        limit_s = next(limit for limit, count in self.buckets if count >= share * self.buckets[-1][1])
        return None if limit_s == float("inf") else limit_s


class Metrics:
    """Counts in this process, and reads the sums over all serving processes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._labelled: dict[tuple[str, str, str, int], tuple[Counter, Histogram]] = {}  # labels() is slow
        self._requests = Counter(
            _REQUESTS,
            "Requests answered, by API, route, method and status.",
            ("api", "route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            _SECONDS,
            "Time from a request's arrival to its answer.",
            ("api", "route", "method"),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._conflicts = Counter(
            _CONFLICTS,
            "Claims decided again: a host filled up, a quota or the topology changed, or the database rolled back.",
            registry=self._registry,
        )
        self._parked = Gauge(
            _PARKED,
            "Jobs that failed too often, so that no worker takes them.",
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )
        self._nova_read = Gauge(
            _NOVA_READ,
            "When the last complete reading of Nova by covey sync nova began, as a Unix time; 0 without any.",
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )
        self._agents = Gauge(
            _AGENTS,
            "Agents of hosts, by state: starting, up or down.",
            ("state",),
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )

    def set_nova_read(self, at: datetime) -> None:
        """Set the time, in UTC, of the last complete reading of Nova."""
        self._nova_read.set(at.replace(tzinfo=UTC).timestamp())

    def set_parked_jobs(self, number: int) -> None:
        """Set the number of jobs that failed too often."""
        self._parked.set(number)

    def set_agents(self, numbers: Mapping[AgentState, int]) -> None:
        """Set the number of agents in each state."""
        for state, number in numbers.items():
            self._agents.labels(state.value).set(number)

    def count_claim_conflict(self) -> None:
        """Count a claim that is decided again."""
        self._conflicts.inc()

    def count(self, api: str, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request. A method that HTTP does not define is `other`: callers choose no label."""
        if method not in _METHODS:
            method = "other"
        labelled = self._labelled.get((api, route, method, status))
        if labelled is None:
            labelled = self._requests.labels(api, route, method, status), self._seconds.labels(api, route, method)
            self._labelled[api, route, method, status] = labelled
        labelled[0].inc()
        labelled[1].observe(seconds)

    def claim_conflicts(self) -> int:
        """Return the number of claim conflicts since the service started."""
        return sum(int(sample.value) for sample in self._samples() if sample.name == _CONFLICTS)

    def route(self, api: str, route: str, method: str) -> RouteMetrics:
        """Return the metrics of one route and method."""
        labels = {"api": api, "route": route, "method": method}
        statuses: Tally[str] = Tally()
        buckets: list[tuple[float, float]] = []
        for sample in self._samples():
            if sample.labels.items() >= labels.items():
                if sample.name == _REQUESTS:
                    statuses[sample.labels["status"]] += int(sample.value)
                elif sample.name == f"{_SECONDS}_bucket":
                    buckets.append((float(sample.labels["le"]), sample.value))
        return RouteMetrics(statuses, tuple(sorted(buckets)))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._all_processes())

    def _samples(self) -> Iterator[Sample]:
        for family in self._all_processes().collect():
            yield from family.samples

    def _all_processes(self) -> CollectorRegistry:
        return _shared() if SHARED_DIRECTORY in os.environ else self._registry


def serve(host: str, port: int) -> None:
    """Serve the sums over all serving processes at an address of their own, by a thread of this process."""
    start_http_server(port, host, _shared())


def _shared() -> CollectorRegistry:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry
