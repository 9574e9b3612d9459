"""Claim statistics for the dashboard's health page, from the metrics of `POST /servers`."""

from covey.api.metrics import Metrics
from covey.api.requests import Json

_PERCENTILES = {"p50_ms": 0.5, "p99_ms": 0.99}


def claims(metrics: Metrics) -> Json:
    """Return requests for servers since the service started: their number, statuses, conflicts and latency."""
    creation = metrics.route("compute", "/v2.1/servers", "POST")
    latency = {name: creation.percentile_s(share) for name, share in _PERCENTILES.items()}
    return {
        "requests": sum(creation.statuses.values()),
        "statuses": creation.statuses,
        "claim_conflicts": metrics.claim_conflicts(),
        **{name: None if seconds is None else seconds * 1000 for name, seconds in latency.items()},
    }
