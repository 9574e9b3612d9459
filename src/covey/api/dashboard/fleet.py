"""/data/me, /data/fleet, /data/hosts and /data/health: who is asking, the map, one host, and what wants attention."""

from dataclasses import dataclass, field
from importlib.metadata import version

import falcon

from covey.api.dashboard.answers import Body, as_json, send
from covey.api.dashboard.claims import claims
from covey.api.metrics import Metrics
from covey.api.requests import Json, Request, query_lists
from covey.api.times import seconds
from covey.model.scopes import DomainProblems
from covey.services.dashboard.fleet_map import FleetMaps, HostDetails
from covey.services.dashboard.health import Health, HealthChecks

_KEPT = 8  # maps, one for each scope that somebody looks at


@dataclass(frozen=True, slots=True)
class Me:
    """Who the caller is here, and what they may use."""

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
    """The map; an operator's is kept, packed, for as long as nothing changes."""

    maps: FleetMaps
    _kept: dict[object, tuple[object, Body]] = field(default_factory=dict)

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        scope = query_lists(req).get("scope", [None])[-1]
        stamp = self.maps.version_key(req.actor, scope)
        known, body = self._kept.get(scope, (None, None))
        if body is None or stamp is None or known != stamp:
            body = as_json(self.maps.get(req.actor, scope))
            if stamp is not None:
                self._keep(scope, stamp, body)
        send(req, resp, body)

    def _keep(self, scope: object, stamp: object, body: Body) -> None:
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[scope] = stamp, body


@dataclass(frozen=True, slots=True)
class Hosts:
    """One host, for operators."""

    maps: FleetMaps

    def on_get(self, req: Request, resp: falcon.Response, name: str) -> None:
        send(req, resp, as_json(show_host(self.maps.host(req.actor, name))))


@dataclass(frozen=True, slots=True)
class HealthPage:
    """What wants an operator's attention; how claims fare is told by the requests that this service answered."""

    checks: HealthChecks
    metrics: Metrics

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        shown = show_health(self.checks.check(req.actor))
        send(req, resp, as_json(shown | {"claims": claims(self.metrics)}))


def show_host(details: HostDetails) -> Json:
    """A host with what it has, who holds it, and where it is."""
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
                "total": stock.total,
                "reserved": stock.reserved,
                "allocation_ratio": stock.allocation_ratio,
                "capacity": stock.capacity,
                "used": stock.used,
            }
            for kind, stock in host.inventories.items()
        },
        "allocations": [
            {
                "consumer": held.consumer.uuid,
                "kind": held.consumer.kind,
                "name": details.servers.get(held.consumer.uuid),
                "project_id": held.consumer.project_id,
                "resources": held.resources.get(host.uuid, {}),
            }
            for held in details.allocations
        ],
        "traits": sorted(host.traits),
        "aggregates": [
            {"id": each.id, "name": each.name, "metadata": each.metadata}
            for each in details.aggregates
            if not each.scope
        ],
        "domains": {each.scope_name: each.name for each in details.aggregates if each.scope_name},
    }


def show_health(health: Health) -> Json:
    """What is wrong, by kind."""
    backlog = health.backlog
    return {
        "hosts": health.hosts,
        "disabled": [{"name": host.name, "reason": host.disabled_reason} for host in health.disabled],
        "down": [{"name": host.name} for host in health.down],
        "misplaced": [_show_misplaced(each) for each in health.domain_problems],
        "strays": [
            {
                "server": stray.server,
                "name": stray.name,
                "project_id": stray.project_id,
                "host": stray.host,
                "aggregates": stray.aggregates,
            }
            for stray in health.misplaced_servers
        ],
        "workers": [
            {"id": engine.id, "host": engine.host, "heard_at": seconds(engine.updated_at), "up": up}
            for engine, up in health.engines
        ],
        "jobs": {
            "waiting": backlog.jobs,
            "overdue": backlog.overdue,
            "oldest_due_at": None if backlog.oldest_due_at is None else seconds(backlog.oldest_due_at),
        },
        "notes_waiting": backlog.notes,
    }


def _show_misplaced(wrong: DomainProblems) -> Json:
    return {
        "scope": wrong.scope,
        "in_none": wrong.no_domain,
        "in_several": [{"name": host, "domains": domains} for host, domains in wrong.ambiguous],
    }
