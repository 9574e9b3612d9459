"""/os-hypervisors, /os-services, /os-availability-zone: three views of the hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import host_key, integer, page_size
from covey.api.compute.microversions import (
    CPU_INFO_AS_OBJECT,
    FORCED_DOWN,
    HYPERVISOR_PAGING,
    HYPERVISOR_USAGE_GONE,
    STRICT_LISTS,
    UUIDS_FOR_HOSTS,
)
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.times import microseconds
from covey.api.validation import is_true
from covey.api.versions import Version, only_before
from covey.model.errors import Invalid, NotFound
from covey.model.hosts import COMPUTE_BINARY, Host, HostSummary, HostUsage
from covey.ports import Clock
from covey.services.hosts import HostChange, HostQuery
from covey.services.hosts import Hosts as Service

ServerNames = Sequence[tuple[str, str]]
"""The name and id of each server."""

HYPERVISOR_TYPE, HYPERVISOR_VERSION = "covey", 1


@dataclass(frozen=True, slots=True)
class Hypervisors:
    """Hosts with their capacity and usage."""

    service: Service
    max_limit: int
    clock: Clock

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        self._list(req, resp, "list")

    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        self._list(req, resp, "list-detail")

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        query = read_query(req, schemas.HYPERVISOR_SHOW.at(req.version))
        found = self.service.hypervisor(req.actor, host_key(req, key))
        resp.media = {
            "hypervisor": self._with_servers([_full(found, req.version, self.clock())], [found], query, req.version)[0]
        }

    @only_before(HYPERVISOR_USAGE_GONE)
    def on_get_uptime(self, req: Request, resp: falcon.Response, key: str) -> None:
        found = self.service.hypervisor(req.actor, host_key(req, key), "uptime")
        uptime = _uptime(found, self.clock())
        if uptime is None:
            raise Invalid(f"Compute service of {found.name} is unavailable at this time.")
        resp.media = {"hypervisor": _short(found, req.version) | {"uptime": uptime}}

    @only_before(UUIDS_FOR_HOSTS)
    def on_get_search(self, req: Request, resp: falcon.Response, key: str) -> None:
        found = self.service.hypervisors(req.actor, HostQuery(name_has=key), "search")
        resp.media = {"hypervisors": [_short(host, req.version) for host in found.hosts]}

    @only_before(UUIDS_FOR_HOSTS)
    def on_get_servers(self, req: Request, resp: falcon.Response, key: str) -> None:
        found = self.service.hypervisors(req.actor, HostQuery(name_has=key), "servers")
        servers = self.service.servers_on(found.hosts)
        resp.media = {
            "hypervisors": [
                _short(host, req.version) | ({"servers": _named(servers[host.id])} if servers[host.id] else {})
                for host in found.hosts
            ]
        }

    @only_before(HYPERVISOR_USAGE_GONE)
    def on_get_statistics(self, req: Request, resp: falcon.Response) -> None:
        page = self.service.hypervisors(req.actor, HostQuery(), "statistics", usage=True)
        usages = [_usage(host.usage) for host in page.hosts if not host.disabled]
        sums = {key: sum(usage[key] for usage in usages) for key in _USAGE_KEYS}
        resp.media = {"hypervisor_statistics": {"count": len(usages), **sums}}

    def _list(self, req: Request, resp: falcon.Response, rule: str) -> None:
        query = read_query(req, schemas.HYPERVISOR_LIST.at(req.version))
        pattern = query.get("hypervisor_hostname_pattern")
        if pattern is not None and query.keys() & {"limit", "marker"}:
            raise Invalid(
                "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported."
            )
        paged = req.version >= HYPERVISOR_PAGING and pattern is None
        limit = page_size(query, self.max_limit) if paged else None
        marker = host_key(req, query["marker"]) if "marker" in query else None
        detailed = rule == "list-detail"
        usage = detailed and req.version < HYPERVISOR_USAGE_GONE
        page = self.service.hypervisors(req.actor, HostQuery(pattern, marker, limit), rule, usage=usage)
        now = self.clock()
        shown = [_full(host, req.version, now) if detailed else _short(host, req.version) for host in page.hosts]
        resp.media = {"hypervisors": self._with_servers(shown, page.hosts, query, req.version)}
        if page.more:
            follow = urlencode({**query, "marker": _id(page.hosts[-1], req.version)})
            resp.media["hypervisors_links"] = [{"rel": "next", "href": req.link(f"{req.path}?{follow}")}]

    def _with_servers(
        self, shown: list[Json], hosts: Sequence[HostSummary], query: Mapping[str, str], version: Version
    ) -> list[Json]:
        """Add the servers of each host, if they are requested."""
        if not is_true(query.get("with_servers")):
            return shown
        servers = self.service.servers_on(hosts)
        for doc, host in zip(shown, hosts, strict=True):
            if servers[host.id] or version >= STRICT_LISTS:
                doc["servers"] = _named(servers[host.id])
        return shown


@dataclass(frozen=True, slots=True)
class Services:
    """Hosts as compute services, which can be disabled and forced down."""

    service: Service
    default_zone: str

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        query = read_query(req, schemas.SERVICE_LIST)
        hosts = self.service.services(req.actor)
        if query.get("host"):
            hosts = [host for host in hosts if host.name == query["host"]]
        if query.get("binary", COMPUTE_BINARY) not in {"", COMPUTE_BINARY}:
            hosts = []
        resp.media = {"services": [self._show(host, req.version) for host in hosts]}

    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, schemas.SERVICE_UPDATE.at(req.version))
        if req.version < UUIDS_FOR_HOSTS:
            resp.media = {"service": self._change_named(req, key, body)}
            return
        change = _change(body)
        changed = self.service.change(req.actor, host_key(req, key), change)
        resp.media = {"service": self._show(changed, req.version)}

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        if req.version < UUIDS_FOR_HOSTS:
            integer(key)
        self.service.delete(req.actor, host_key(req, key))
        resp.status = falcon.HTTP_204

    def _change_named(self, req: Request, verb: str, body: Json) -> Json:
        change, changed = _named_change(verb, body, req.version)
        self.service.change_by_name(req.actor, body["host"], body["binary"], change)
        return {"host": body["host"], "binary": body["binary"], **changed}

    def _show(self, host: Host | HostSummary, version: Version) -> Json:
        doc: Json = {
            "id": _id(host, version),
            "binary": COMPUTE_BINARY,
            "host": host.name,
            "zone": host.zone or self.default_zone,
            "status": _status(host),
            "state": _state(host),
            "updated_at": microseconds(host.updated_at),
            "disabled_reason": host.disabled_reason,
        }
        if version >= FORCED_DOWN:
            doc["forced_down"] = host.forced_down
        return doc


@dataclass(frozen=True, slots=True)
class AvailabilityZones:
    """Availability zones and their hosts."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        zones = self.service.zones(req.actor)
        resp.media = {"availabilityZoneInfo": [_zone(zone.name, None, available=zone.available) for zone in zones]}

    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        zones = self.service.zones_with_hosts(req.actor)
        resp.media = {
            "availabilityZoneInfo": [
                _zone(zone.name, {h.name: _service_state(h) for h in zone.hosts}, available=zone.available)
                for zone in zones
            ]
        }


def _zone(name: str, hosts: Json | None, *, available: bool) -> Json:
    return {"zoneName": name, "zoneState": {"available": available}, "hosts": hosts}


def _service_state(host: HostSummary) -> Json:
    state = {"available": host.up, "active": not host.disabled, "updated_at": microseconds(host.updated_at)}
    return {COMPUTE_BINARY: state}


def _id(host: Host | HostSummary, version: Version) -> int | str:
    return host.uuid if version >= UUIDS_FOR_HOSTS else host.id


def _state(host: Host | HostSummary) -> str:
    return "up" if host.up else "down"


def _status(host: Host | HostSummary) -> str:
    return "disabled" if host.disabled else "enabled"


def _short(host: HostSummary, version: Version) -> Json:
    return {
        "id": _id(host, version),
        "hypervisor_hostname": host.name,
        "state": _state(host),
        "status": _status(host),
    }


def _uptime(host: HostSummary, now: datetime) -> str | None:
    """Return for how long a host has been up, as `uptime` prints it; None for a host that is down.

    It counts from the last change of the host's state.
    """
    if not host.up:
        return None
    hours, minutes = divmod(max(0, int((now - host.updated_at).total_seconds())) // 60, 60)
    days, hours = divmod(hours, 24)
    before = f"{days} day{'s' * (days != 1)}, " if days else ""
    return f"{now:%H:%M:%S} up {before}{hours}:{minutes:02}"


def _full(host: HostSummary, version: Version, now: datetime) -> Json:
    doc: Json = {
        **_short(host, version),
        "hypervisor_type": HYPERVISOR_TYPE,
        "hypervisor_version": HYPERVISOR_VERSION,
        "host_ip": None,
        "service": {"id": _id(host, version), "host": host.name, "disabled_reason": host.disabled_reason},
    }
    if version >= HYPERVISOR_USAGE_GONE:
        doc["uptime"] = _uptime(host, now)
        return doc
    doc |= _usage(host.usage)
    doc["cpu_info"] = {} if version >= CPU_INFO_AS_OBJECT else "{}"
    return doc


def _usage(usage: HostUsage) -> dict[str, int]:
    free_disk_gb = usage.free_disk_gb
    return {
        "vcpus": usage.vcpus,
        "memory_mb": usage.memory_mb,
        "local_gb": usage.disk_gb,
        "vcpus_used": usage.vcpus_used,
        "memory_mb_used": usage.memory_mb_used,
        "local_gb_used": usage.disk_gb_used,
        "free_ram_mb": usage.free_memory_mb,
        "free_disk_gb": free_disk_gb,
        "current_workload": 0,
        "running_vms": usage.servers,
        "disk_available_least": free_disk_gb,
    }


_USAGE_KEYS = (
    *("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb"),
    *("free_disk_gb", "current_workload", "running_vms", "disk_available_least"),
)


def _named(servers: ServerNames) -> list[Json]:
    return [{"name": name, "uuid": server} for name, server in servers]


def _change(body: Json) -> HostChange:
    status, forced = body.get("status"), body.get("forced_down")
    if status is None and forced is None:
        raise Invalid("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    if status == "enabled" and "disabled_reason" in body:
        raise Invalid("Specifying 'disabled_reason' with status 'enabled' is invalid.")
    return HostChange(
        disabled=None if status is None else status == "disabled",
        reason=body.get("disabled_reason"),
        forced_down=None if forced is None else is_true(forced),
    )


def _named_change(verb: str, body: Json, version: Version) -> tuple[HostChange, Json]:
    """Return the change of a verb before 2.53, and the fields that its response repeats."""
    match verb:
        case "enable":
            return HostChange(disabled=False), {"status": "enabled"}
        case "disable":
            return HostChange(disabled=True), {"status": "disabled"}
        case "disable-log-reason":
            reason = _required(body, "disabled_reason", "Missing disabled reason field")
            return HostChange(disabled=True, reason=reason), {"status": "disabled", "disabled_reason": reason}
        case "force-down" if version >= FORCED_DOWN:
            forced = is_true(_required(body, "forced_down", "Missing forced_down field"))
            return HostChange(forced_down=forced), {"forced_down": forced}
    raise NotFound("Unknown action")


def _required(body: Json, key: str, message: str) -> str:
    if key not in body:
        raise Invalid(message)
    value: str = body[key]
    return value
