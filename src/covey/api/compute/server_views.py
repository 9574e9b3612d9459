"""Servers as documents of each microversion, with the fields that the actor may see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from covey.api.compute import microversions as mv
from covey.api.requests import Json, Request, links
from covey.api.times import microseconds, seconds
from covey.api.versions import Version
from covey.model.access import Target
from covey.model.flavors import Flavor
from covey.model.ids import ProjectId
from covey.model.servers import POWER_STATES, Fault, Server, ServerName
from covey.ports import Access
from covey.services.instances import Instance


@dataclass(frozen=True, slots=True)
class ServerView:
    """Renders servers for the actor of a request."""

    access: Access
    host_id: Callable[[Server], str]
    default_zone: str
    counts: bool = True  # whether tenants see numbers of hosts

    def short(self, servers: Sequence[ServerName], req: Request) -> list[Json]:
        """Return the documents of a list without details."""
        url = req.context.base_url
        return [{"id": server, "name": name, "links": links(url, f"/servers/{server}")} for server, name in servers]

    def single(self, server: Server, req: Request) -> Json:
        """Return all fields, with those that a list omits."""
        (doc,) = self.full([server], req)
        if req.version >= mv.SERVER_GROUPS_SHOWN:
            doc["server_groups"] = [server.group_id] if server.group_id else []
        return doc

    def updated(self, server: Server, req: Request) -> Json:
        """Return the document of an update: before 2.75 without the fields of Nova's extensions."""
        doc = self.single(server, req)
        return doc if req.version >= mv.STRICT_LISTS else {k: v for k, v in doc.items() if not _is_extended(k)}

    def full(self, servers: Sequence[Server], req: Request) -> list[Json]:
        """Return the documents of a list with details."""
        operates = {project: self._is_operator(project, req) for project in {server.project_id for server in servers}}
        version, url, later = req.version, req.context.base_url, _later(req.version)
        return [self._full(server, version, url, later, operates[server.project_id]) for server in servers]

    def _full(self, server: Server, version: Version, url: str, later: "_Fields", operator: bool) -> Json:  # noqa: FBT001
        doc = self._always(server, version, url)
        if doc["status"] in _WITH_PROGRESS:
            doc["progress"] = 100 if doc["status"] == "ACTIVE" else 0
        if operator:
            doc |= _hosts(server, version)
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
            "hostId": self.host_id(server),
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

    def _always(self, server: Server, version: Version, url: str) -> Json:
        details, status = server.details, server.status
        return {
            "id": server.id,
            "name": server.name,
            "links": links(url, f"/servers/{server.id}"),
            "status": status,
            "tenant_id": server.project_id,
            "user_id": server.user_id,
            "metadata": details.metadata,
            "hostId": self.host_id(server),
            "image": _image(server, version, url),
            "flavor": _flavor(server.flavor, version, url),
            "created": seconds(server.created_at),
            "updated": seconds(server.updated_at),
            "addresses": {},
            "accessIPv4": details.access_ipv4,
            "accessIPv6": details.access_ipv6,
            "OS-DCF:diskConfig": details.disk_config,
            "OS-EXT-AZ:availability_zone": self.zone(server),
            "OS-EXT-STS:task_state": server.task,
            "OS-EXT-STS:vm_state": server.vm_state,
            "OS-EXT-STS:power_state": POWER_STATES[server.power],
            "OS-SRV-USG:launched_at": microseconds(server.launched_at),
            "OS-SRV-USG:terminated_at": None,
            "os-extended-volumes:volumes_attached": [],
            "config_drive": details.config_drive,
            "key_name": details.key_name,
            "security_groups": [{"name": "default"}],
        }

    def zone(self, server: Server) -> str:
        """Return the availability zone of the server's host; without a host, the zone that was requested."""
        if server.host_id is None:
            return server.request.zone or ""
        return server.zone or self.default_zone

    def _is_operator(self, project: ProjectId, req: Request) -> bool:
        target = Target(project_id=project)
        return self.access.allows(req.actor, "os_compute_api:os-extended-server-attributes", target)


def _hosts(server: Server, version: Version) -> Json:
    doc: Json = {
        "OS-EXT-SRV-ATTR:host": server.host_name,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": server.host_name,
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{server.id[-12:]}",
    }
    if version >= mv.ADMIN_ATTRIBUTES:
        doc |= {
            "OS-EXT-SRV-ATTR:hostname": _hostname(server),
            "OS-EXT-SRV-ATTR:reservation_id": server.details.reservation_id,
            "OS-EXT-SRV-ATTR:launch_index": server.details.launch_index,
            "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
            "OS-EXT-SRV-ATTR:kernel_id": "",
            "OS-EXT-SRV-ATTR:ramdisk_id": "",
            "OS-EXT-SRV-ATTR:user_data": None,
        }
    if version >= mv.HOST_STATUS:
        doc["host_status"] = ("UP" if server.host_up else "DOWN") if server.host_name else ""
    return doc


def _image(server: Server, version: Version, url: str) -> Json | str:
    image = server.request.image_id
    if image is None:
        return ""
    doc: Json = {"id": image, "links": [{"rel": "bookmark", "href": f"{url}/images/{image}"}]}
    if version >= mv.IMAGE_PROPERTIES_SHOWN:
        doc["properties"] = server.details.image_properties
    return doc


def _fault(fault: Fault, *, operator: bool) -> Json:
    doc: Json = {"code": fault.code, "created": seconds(fault.created_at), "message": fault.message}
    if fault.details is not None and operator:
        doc["details"] = fault.details
    return doc


def _is_extended(field: str) -> bool:
    return field.startswith(("OS-EXT-", "OS-SRV-USG:", "os-extended-volumes:")) or field in _EXTENDED


def _hostname(server: Server) -> str:
    return server.details.hostname or server.name


def _hints(server: Server) -> Json:
    return {key: _as_list(value) for key, value in server.request.hints.items()}


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _flavor(flavor: Flavor, version: Version, url: str) -> Json:
    if version >= mv.FLAVOR_EMBEDDED:
        return {
            "original_name": flavor.name,
            "vcpus": flavor.vcpus,
            "ram": flavor.memory_mb,
            "disk": flavor.disk_gb,
            "ephemeral": flavor.ephemeral_gb,
            "swap": flavor.swap_mb,
            "extra_specs": flavor.extra_specs,
        }
    return {"id": flavor.id, "links": [{"rel": "bookmark", "href": f"{url}/flavors/{quote(flavor.id)}"}]}


_WITH_PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})
_EXTENDED = frozenset({"config_drive", "key_name", "security_groups", "host_status"})

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


def show_instance(instance: Instance) -> Json:
    """Return the placement of an instance; operators see its compute nodes, two of them while it moves."""
    refusal = instance.refusal
    return {
        "server_id": instance.id,
        "group": instance.group,
        "placed": instance.is_placed,
        "refused": None if refusal is None else refusal.message,
        "refused_at": None if refusal is None else seconds(refusal.at),
        "reasons": [] if refusal is None else [{"reason": words, "hosts": hosts} for words, hosts in refusal.reasons],
        **({"hosts": list(instance.hosts)} if instance.hosts else {}),
    }
