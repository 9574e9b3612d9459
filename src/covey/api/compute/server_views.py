"""Servers as documents of each microversion, with the fields that the actor may see."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from covey.api.compute import microversions as mv
from covey.api.requests import Json, Request
from covey.api.times import microseconds, seconds
from covey.api.versions import Version
from covey.model.access import Target
from covey.model.flavors import Flavor
from covey.model.ids import ProjectId
from covey.model.servers import POWER_STATES, Fault, Server, ServerName, Task
from covey.ports import Access


@dataclass(frozen=True, slots=True)
class ServerView:
    """Renders servers for the actor of a request."""

    access: Access
    default_zone: str
    counts: bool = True  # whether tenants see numbers of hosts

    def short(self, servers: Sequence[ServerName], req: Request) -> list[Json]:
        """Return the documents of a list without details."""
        return [{"id": server, "name": name, "links": req.links(f"/servers/{server}")} for server, name in servers]

    def single(self, server: Server, req: Request) -> Json:
        """Return all fields, with those that a list omits."""
        (doc,) = self.full([server], req)
        if req.version >= mv.SERVER_GROUPS_SHOWN:
            doc["server_groups"] = [server.group_id] if server.group_id else []
        return doc

    def full(self, servers: Sequence[Server], req: Request) -> list[Json]:
        """Return the documents of a list with details."""
        operates = {project: self._is_operator(project, req) for project in {server.project_id for server in servers}}
        later = _later(req.version)
        return [self._full(server, req, later, operator=operates[server.project_id]) for server in servers]

    def _full(self, server: Server, req: Request, later: "_Fields", *, operator: bool) -> Json:
        doc = self._always(server, req)
        if operator:
            doc |= self._hosts(server, req)
        if server.fault is not None and server.status == "ERROR":
            doc["fault"] = _fault(server.fault, operator=operator)
        for field, value in later:
            doc[field] = value(server)
        return doc

    def placement(self, server: Server, req: Request) -> Json:
        """Return how the server was placed: counts, and for operators the host and the seed."""
        record = server.placement
        doc: Json = {
            "server_id": server.id,
            "hostId": host_id(server),
            "decision": {"attempts": record.attempts},
            "group": server.group_id,
            "refused": None if server.fault is None else server.fault.message,
        }
        operator = self._is_operator(server.project_id, req)
        if operator or self.counts:
            doc["decision"] |= {"hosts": record.hosts, "candidates": record.candidates}
        if operator:
            doc |= {"host": server.host_name, "moving_to": server.migration_host_name}
            doc["decision"]["seed"] = record.seed
        return doc

    def _always(self, server: Server, req: Request) -> Json:
        details, status = server.details, server.status
        return {
            "id": server.id,
            "name": server.name,
            "links": req.links(f"/servers/{server.id}"),
            "status": status,
            "tenant_id": server.project_id,
            "user_id": server.user_id,
            "metadata": details.metadata,
            "hostId": host_id(server),
            "image": self._image(server, req),
            "flavor": _flavor(server.flavor, req),
            "created": seconds(server.created_at),
            "updated": seconds(server.updated_at),
            "addresses": {},
            "accessIPv4": details.access_ipv4,
            "accessIPv6": details.access_ipv6,
            "OS-DCF:diskConfig": "MANUAL",
            "OS-EXT-AZ:availability_zone": self._zone(server),
            "OS-EXT-STS:task_state": _task(server),
            "OS-EXT-STS:vm_state": server.vm_state,
            "OS-EXT-STS:power_state": POWER_STATES[server.power],
            "OS-SRV-USG:launched_at": microseconds(server.launched_at),
            "OS-SRV-USG:terminated_at": None,
            "os-extended-volumes:volumes_attached": [],
            "config_drive": details.config_drive,
            "key_name": details.key_name,
            "progress": 100 if status == "ACTIVE" else 0,
            "security_groups": [{"name": "default"}],
        }

    def _hosts(self, server: Server, req: Request) -> Json:
        doc: Json = {
            "OS-EXT-SRV-ATTR:host": server.host_name,
            "OS-EXT-SRV-ATTR:hypervisor_hostname": server.host_name,
            "OS-EXT-SRV-ATTR:instance_name": f"instance-{server.id[-12:]}",
        }
        if req.version >= mv.ADMIN_ATTRIBUTES:
            doc |= {
                "OS-EXT-SRV-ATTR:hostname": _hostname(server),
                "OS-EXT-SRV-ATTR:reservation_id": server.details.reservation_id,
                "OS-EXT-SRV-ATTR:launch_index": server.details.launch_index,
                "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
                "OS-EXT-SRV-ATTR:kernel_id": "",
                "OS-EXT-SRV-ATTR:ramdisk_id": "",
                "OS-EXT-SRV-ATTR:user_data": None,
            }
        if req.version >= mv.HOST_STATUS:
            doc["host_status"] = ("UP" if server.host_up else "DOWN") if server.host_name else ""
        return doc

    def _zone(self, server: Server) -> str:
        if server.host_id is None:
            return server.request.zone or ""
        return server.zone or self.default_zone

    def _image(self, server: Server, req: Request) -> Json | str:
        if server.request.image_id is None:
            return ""
        image = server.request.image_id
        doc: Json = {"id": image, "links": [{"rel": "bookmark", "href": req.link(f"/images/{image}")}]}
        if req.version >= mv.IMAGE_PROPERTIES_SHOWN:
            doc["properties"] = server.details.image_properties
        return doc

    def _is_operator(self, project: ProjectId, req: Request) -> bool:
        target = Target(project_id=project)
        return self.access.allows(req.actor, "os_compute_api:os-extended-server-attributes", target)


def host_id(server: Server) -> str:
    """Return Nova's hostId: equal for servers of a project on one host, and opaque."""
    if server.host_name is None:
        return ""
    return hashlib.sha224(f"{server.project_id}{server.host_name}".encode()).hexdigest()


def _fault(fault: Fault, *, operator: bool) -> Json:
    doc: Json = {"code": fault.code, "created": seconds(fault.created_at), "message": fault.message}
    if fault.details is not None and operator:
        doc["details"] = fault.details
    return doc


def _hostname(server: Server) -> str:
    return server.details.hostname or server.name


def _hints(server: Server) -> Json:
    return {key: _as_list(value) for key, value in server.request.hints.items()}


def _task(server: Server) -> str | None:
    return None if server.task is None else str(Task(server.task))


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _flavor(flavor: Flavor, req: Request) -> Json:
    if req.version >= mv.FLAVOR_EMBEDDED:
        return {
            "original_name": flavor.name,
            "vcpus": flavor.vcpus,
            "ram": flavor.memory_mb,
            "disk": flavor.disk_gb,
            "ephemeral": flavor.ephemeral_gb,
            "swap": flavor.swap_mb,
            "extra_specs": flavor.extra_specs,
        }
    return {"id": flavor.id, "links": [{"rel": "bookmark", "href": req.link(f"/flavors/{quote(flavor.id)}")}]}


_Fields = tuple[tuple[str, Callable[[Server], object]], ...]

# Fields that newer versions show to all actors.
_LATER: tuple[tuple[Version, str, Callable[[Server], object]], ...] = (
    (mv.LOCKED, "locked", lambda server: server.details.locked),
    (mv.DESCRIPTION, "description", lambda server: server.details.description),
    (mv.TAGS, "tags", lambda server: sorted(server.tags)),
    (mv.TRUSTED_CERTIFICATES, "trusted_image_certificates", lambda _: None),
    (mv.LOCKED_REASON, "locked_reason", lambda server: server.details.locked_reason),
    (mv.HOSTNAME, "OS-EXT-SRV-ATTR:hostname", _hostname),
    (mv.PINNED_ZONE, "pinned_availability_zone", lambda server: server.request.zone),
    (mv.HINTS_SHOWN, "scheduler_hints", _hints),
)


@lru_cache(maxsize=256)
def _later(version: Version) -> _Fields:
    return tuple((field, value) for since, field, value in _LATER if version >= since)
