"""/data/me, /data/fleet, /data/hosts and /data/health: the current user, the fleet map, one host, and health."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

import falcon

from covey.api.dashboard.responses import Body, as_json, send
from covey.api.metrics import Metrics
from covey.api.requests import Json, Request, query_lists
from covey.api.times import seconds
from covey.model.agents import Agent
from covey.model.nova import SyncState
from covey.model.resources import class_position
from covey.model.scopes import DomainProblems
from covey.services.dashboard.fleet_map import FleetMaps, HostDetails
from covey.services.dashboard.health import Health, HealthChecks

_MAX_CACHED_MAPS = 8  # one for each scope
_PERCENTILES = {"p50_ms": 0.5, "p99_ms": 0.99}


@dataclass(frozen=True, slots=True)
class Me:
    """The current user, and the features that the user has access to."""

    maps: FleetMaps
    auth: str

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        actor = req.actor
        rights = self.maps.permissions(actor)
        shown = {
            "user": actor.user_name or actor.user_id,
            "project": actor.project_name or actor.project_id,
            "project_id": actor.project_id,
            "is_admin": rights.operates,
            "auth": self.auth,
            "version": version("covey"),
            "scopes": list(rights.scopes),
        }
        send(req, resp, as_json(shown))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet map; an operator's map is cached, compressed, until the fleet changes."""

    maps: FleetMaps
    _cache: dict[object, tuple[object, Body]] = field(default_factory=dict)

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        scope = query_lists(req).get("scope", [None])[-1]
        stamp = self.maps.version_key(req.actor, scope)
        cached_stamp, body = self._cache.get(scope, (None, None))
        if body is None or stamp is None or cached_stamp != stamp:
            body = as_json(self.maps.get(req.actor, scope))
            if stamp is not None:
                self._store(scope, stamp, body)
        send(req, resp, body)

    def _store(self, scope: object, stamp: object, body: Body) -> None:
        if len(self._cache) >= _MAX_CACHED_MAPS:
            self._cache.clear()
        self._cache[scope] = stamp, body


@dataclass(frozen=True, slots=True)
class Hosts:
    """One host, for operators."""

    maps: FleetMaps

    def on_get(self, req: Request, resp: falcon.Response, name: str) -> None:
        send(req, resp, as_json(show_host(self.maps.host(req.actor, name))))


@dataclass(frozen=True, slots=True)
class HealthPage:
    """Problems that need an operator, and statistics of claims."""

    checks: HealthChecks
    metrics: Metrics

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        shown = show_health(self.checks.check(req.actor))
        send(req, resp, as_json(shown | {"claims": _claims(self.metrics)}))


def show_host(details: HostDetails) -> Json:
    """Return a host with the inventories of its tree, allocations, aggregates and domains."""
    host = details.host
    return {
        "id": str(host.id),
        "uuid": host.uuid,
        "name": host.name,
        "zone": host.zone,
        "disabled": host.disabled,
        "disabled_reason": host.disabled_reason,
        "up": host.up,
        "inventories": {
            kind: {
                "total": sum(each.total for each in found),
                "reserved": sum(each.reserved for each in found),
                "allocation_ratio": found[0].allocation_ratio,
                "capacity": sum(each.capacity for each in found),
                "used": sum(each.used for each in found),
            }
            for kind, found in sorted(details.inventories.items(), key=lambda item: class_position(item[0]))
        },
        "allocations": [
            {
                "consumer": holding.consumer.uuid,
                "kind": holding.consumer.kind,
                "name": details.servers.get(holding.consumer.uuid),
                "project_id": holding.consumer.project_id,
                "resources": _sum(holding.resources.values()),
            }
            for holding in details.allocations
        ],
        "traits": sorted(details.traits),
        "aggregates": [
            {"id": aggregate.id, "name": aggregate.name, "metadata": aggregate.metadata}
            for aggregate in details.aggregates
            if not aggregate.scope
        ],
        "domains": {aggregate.scope_name: aggregate.name for aggregate in details.aggregates if aggregate.scope_name},
    }


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the amounts of all providers together, by resource class."""
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return {kind: total[kind] for kind in sorted(total, key=class_position)}


def show_health(health: Health) -> Json:
    """Return the problems of the fleet by kind, and the state of workers and queues."""
    backlog = health.backlog
    return {
        "hosts": health.hosts,
        "disabled": [{"name": host.name, "reason": host.disabled_reason} for host in health.disabled],
        "down": [{"name": host.name, "forced": host.forced_down} for host in health.down],
        "nova": None if health.nova is None else _show_nova(health.nova, health),
        "agents": [_show_agent(agent) for agent in health.agents],
        "migrations": [
            {
                "server": move.server_id,
                "source": move.source,
                "destination": move.destination,
                "live": move.live,
                "percent": _percent(move.progress),
            }
            for move in health.migrations
        ],
        "misplaced_hosts": [_show_domain_problems(each) for each in health.domain_problems],
        "misplaced_servers": [
            {
                "server": server.server,
                "name": server.name,
                "project_id": server.project_id,
                "host": server.host,
                "aggregates": server.aggregates,
            }
            for server in health.misplaced_servers
        ],
        "workers": [
            {"id": engine.id, "host": engine.host, "last_heartbeat": seconds(engine.updated_at), "up": up}
            for engine, up in health.engines
        ],
        "jobs": {
            "waiting": backlog.jobs,
            "overdue": backlog.overdue,
            "parked": backlog.parked,
            "oldest_due_at": None if backlog.oldest_due_at is None else seconds(backlog.oldest_due_at),
        },
        "notifications_waiting": backlog.notifications,
    }


def _show_nova(state: SyncState, health: Health) -> Json:
    return {
        "url": state.url,
        "read_at": None if state.read_at is None else seconds(state.read_at),
        "error": state.error,
        "warnings": state.warnings,
        "down": [node.name for node in health.nodes_down],
    }


def _show_agent(agent: Agent) -> Json:
    return {
        "host": agent.host_name,
        "state": agent.state,
        "heartbeat_age_s": round(agent.heartbeat_age_s, 1),
        "hypervisor": agent.hypervisor,
        "version": agent.version,
        "fenced": agent.fenced_at is not None,
    }


def _percent(progress: Mapping[str, int]) -> int | None:
    """Return how much of a migration is done; None if its host has not reported that."""
    total, remaining = progress.get("total_bytes"), progress.get("remaining_bytes")
    return progress.get("percent") if not total or remaining is None else round(100 * (1 - remaining / total))


def _show_domain_problems(problems: DomainProblems) -> Json:
    return {
        "scope": problems.scope,
        "no_domain": problems.no_domain,
        "ambiguous": [{"name": host, "domains": domains} for host, domains in problems.ambiguous],
    }


def _claims(metrics: Metrics) -> Json:
    """Return requests for servers since the service started: their number, statuses, conflicts and latency."""
    creation = metrics.route("compute", "/v2.1/servers", "POST")
    latency = {name: creation.percentile_s(share) for name, share in _PERCENTILES.items()}
    return {
        "requests": sum(creation.statuses.values()),
        "statuses": creation.statuses,
        "claim_conflicts": metrics.claim_conflicts(),
        **{name: None if seconds is None else seconds * 1000 for name, seconds in latency.items()},
    }
