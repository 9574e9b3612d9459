"""What /metrics shows: requests by route and status, how long they took, and races that were lost."""

import os

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"  # where several processes leave their numbers for each other
CONTENT_TYPE = CONTENT_TYPE_LATEST

_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The numbers of this service, over all its processes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._known: dict[tuple[str, str, str, int], tuple[Counter, Histogram]] = {}  # to look labels up is slow
        self._requests = Counter(
            "covey_http_requests_total",
            "Requests answered, by API, route, method and status.",
            ("api", "route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "covey_http_request_seconds",
            "Time from a request's arrival to its answer.",
            ("api", "route", "method"),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._claim_conflicts = Counter(
            "covey_claim_conflicts_total",
            "Claims that were decided again, because others were faster.",
            registry=self._registry,
        )

    def count_claim_conflict(self) -> None:
        """Notes a claim that has to be decided again."""
        self._claim_conflicts.inc()

    def count(self, api: str, route: str, method: str, status: int, seconds: float) -> None:
        """Notes one answered request."""
        known = self._known.get((api, route, method, status))
        if known is None:
            known = self._requests.labels(api, route, method, status), self._seconds.labels(api, route, method)
            self._known[api, route, method, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def text(self) -> bytes:
        """All of it, in Prometheus' own form."""
        if SHARED_DIRECTORY not in os.environ:
            return generate_latest(self._registry)
        everywhere = CollectorRegistry()
        MultiProcessCollector(everywhere)  # type: ignore[no-untyped-call]
        return generate_latest(everywhere)
