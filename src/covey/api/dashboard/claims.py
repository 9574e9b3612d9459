"""How claims fare, by what /metrics knows of the requests that make them."""

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from covey.api.requests import Json

_BOOTS = {"api": "compute", "route": "/v2.1/servers", "method": "POST"}
_SHARES = {"p50_ms": 0.5, "p99_ms": 0.99}


def claims(text: str) -> Json:
    """Requests for servers since the service started: how many, how they ended, and how soon most were answered."""
    statuses: Counter[str] = Counter()
    buckets: list[tuple[float, float]] = []  # (seconds, how many took no longer)
    lost = 0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "covey_claim_conflicts_total":
                lost += int(sample.value)
            elif sample.labels.items() >= _BOOTS.items():
                if sample.name == "covey_http_requests_total":
                    statuses[sample.labels["status"]] += int(sample.value)
                elif sample.name == "covey_http_request_seconds_bucket":
                    buckets.append((float(sample.labels["le"]), sample.value))
    within = {name: _within(sorted(buckets), share) for name, share in _SHARES.items()}
    return {"requests": sum(statuses.values()), "statuses": statuses, "lost_races": lost, **within}


def _within(buckets: list[tuple[float, float]], share: float) -> float | None:
    """So many milliseconds were enough for that share of requests; None for none, and for longer than was measured."""
    if not buckets or not buckets[-1][1]:
        return None
    enough = next(limit for limit, count in buckets if count >= share * buckets[-1][1])
    return None if enough == float("inf") else enough * 1000
