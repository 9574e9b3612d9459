"""Reads a cloud over Nova's API, as an administrator."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any
from urllib.parse import quote

from covey.model.errors import Forbidden, Invalid, NotFound, ServiceFault, Unavailable
from covey.model.flavors import Flavor
from covey.model.group_consumers import ReportedGroup
from covey.model.ids import FlavorId, GroupId
from covey.model.nova import NovaAggregate, NovaCloud, NovaHost, NovaServer
from covey.model.quotas import QuotaUse
from covey.remote_api import RemoteApi

# From 2.64 on, groups have one policy with rules. From 2.88 on, Nova asks each compute for its uptime.
_OLDEST, _NEWEST = (2, 64), (2, 87)
_SERVERS = (2, 96)  # shows the requested zone
_PAGE = "1000"
_DELETED = "DELETED"
_MOVING = {"MIGRATING", "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE"}  # of servers
_IN_PROGRESS = (  # of migrations, which hold the allocations of their servers on the source
    "accepted", "queued", "preparing", "running", "running (post-copy)",
    "pre-migrating", "migrating", "post-migrating", "finished", "confirming", "reverting",
)  # fmt: skip
_TRAIT = re.compile(r"trait[a-zA-Z0-9_-]{0,64}:(.+)")
_QUOTAS = {
    "instances": ("maxTotalInstances", "totalInstancesUsed"),
    "cores": ("maxTotalCores", "totalCoresUsed"),
    "ram": ("maxTotalRAMSize", "totalRAMUsed"),
}
_Document = Mapping[str, Any]
Microversion = tuple[int, ...]


class Nova:
    """The Compute API of a cloud."""

    def __init__(self, api: RemoteApi) -> None:
        self._api = api
        self._access: dict[str, frozenset[str]] = {}  # projects, by private flavor

    @property
    def url(self) -> str:
        """The address of the service. Raises Unavailable while none is known."""
        return self._api.url

    def read(self, since: datetime | None = None) -> NovaCloud:
        """Return all that Covey mirrors; with `since`, only those servers that changed after it, by Nova's clock.

        Raises Invalid for a Nova that is too old, and what the API raises.
        """
        with expected_answers(self._api):
            return self._read(since)

    def _read(self, since: datetime | None) -> NovaCloud:
        newest = negotiate(self._api)
        services = {each["host"]: each for each in self._api.get("/os-services", binary="nova-compute")["services"]}
        hosts = [_host(each, services) for each in self._pages("/os-hypervisors/detail", "hypervisors")]
        aggregates = [_aggregate(each) for each in self._api.get("/os-aggregates")["aggregates"]]
        flavors = [_flavor(each) for each in self._pages("/flavors/detail", "flavors", is_public="None")]
        servers = list(self._servers(newest, since))
        deleted = frozenset(each["id"] for each in servers if each["status"] == _DELETED)
        groups = [_group(each) for each in self._groups()]
        return NovaCloud(
            {each.uuid: each for each in hosts},
            {each.uuid: each for each in aggregates},
            {each.id: each for each in flavors},
            {each["id"]: mirrored_server(each) for each in servers if each["id"] not in deleted},
            {each.id: each for each in groups},
            flavor_access=self._flavor_access(flavors, is_partial=since is not None),
            is_partial=since is not None,
            deleted_servers=deleted,
            migrations=self._migrations(servers),
            changed_at=max((_time(each["updated"]) for each in servers if "updated" in each), default=None),
        )

    def with_unlisted_groups(self, cloud: NovaCloud, known: Collection[str]) -> NovaCloud:
        """Return what was read, with those of the known groups that the listing lacks and Nova still has.

        The pages of the listing are offsets into an unordered list, so a deletion between two of them hides another
        group. A user that is no administrator gets the groups of its own project. Nova returns 404 for a group only if
        the group does not exist; any other error makes it unread. Raises what the API raises.
        """
        missing = sorted(set(known) - cloud.groups.keys())
        groups, unread = dict(cloud.groups), dict[str, str]()
        for number, group in enumerate(missing):
            try:
                found = self.group(GroupId(group))
            except ServiceFault as error:
                unread[group] = error.message
            except Forbidden as error:  # of all other groups, too
                unread |= dict.fromkeys(missing[number:], error.message)
                break
            else:
                groups |= {} if found is None else {found.id: found}
        return replace(cloud, groups=groups, unread_groups=unread)

    def group(self, group: GroupId) -> ReportedGroup | None:
        """Return one group, or None if Nova does not show it to the owner of the token. Raises what the API raises."""
        try:
            found = self._api.get(f"/os-server-groups/{group}", version=_dotted(_OLDEST))
        except NotFound:
            return None
        with expected_answers(self._api):
            return _group(found["server_group"])

    def quota(self) -> QuotaUse:
        """Return the quota of the token's project. Raises what the API raises."""
        found = self._api.get("/limits", version=_dotted(_OLDEST))
        with expected_answers(self._api):
            absolute = found["limits"]["absolute"]
            limits = {name: absolute[limit] for name, (limit, _) in _QUOTAS.items()}
            return QuotaUse(limits, {name: absolute[used] for name, (_, used) in _QUOTAS.items()})

    def _servers(self, newest: Microversion, since: datetime | None) -> Iterator[_Document]:
        """Yield servers; with `since`, also those that were deleted."""
        changed = {} if since is None else {"changes-since": f"{since.isoformat()}Z"}
        return self._pages("/servers/detail", "servers", version_of_servers(newest), all_tenants="1", **changed)

    def _flavor_access(self, flavors: Sequence[Flavor], *, is_partial: bool) -> Mapping[str, frozenset[str]]:
        """Return the projects of each private flavor, by a request each; partial readings request new ones only."""
        private = [each.id for each in flavors if not each.is_public]
        known = self._access if is_partial else {}
        self._access = {each: known[each] if each in known else self._projects_of(each) for each in private}
        return self._access

    def _projects_of(self, flavor: FlavorId) -> frozenset[str]:
        try:
            found = self._api.get(f"/flavors/{quote(flavor, safe='')}/os-flavor-access")
        except NotFound:  # deleted since it was listed
            return frozenset()
        return frozenset(each["tenant_id"] for each in found["flavor_access"])

    def _migrations(self, servers: Sequence[_Document]) -> dict[str, str]:
        """Return the servers of migrations in progress, by the migrations' uuids, if one of the servers moves."""
        if not any(each["status"] in _MOVING for each in servers):
            return {}
        pages = (self._pages("/os-migrations", "migrations", by="uuid", status=each) for each in _IN_PROGRESS)
        return {each["uuid"]: each["instance_uuid"] for each in chain.from_iterable(pages)}

    def _pages(
        self, path: str, key: str, version: str | None = None, by: str = "id", **query: str
    ) -> Iterator[_Document]:
        """Yield the entries of a listing, page by page."""
        document = self._api.get(path, version=version, limit=_PAGE, **query)
        while True:
            yield from document[key]
            if f"{key}_links" not in document or not document[key]:
                return
            document = self._api.get(path, version=version, limit=_PAGE, marker=document[key][-1][by], **query)

    def _groups(self) -> Iterator[_Document]:
        """Yield the groups of all projects. The listing has offsets in place of markers, and no links."""
        offset = 0
        while True:
            found = self._api.get("/os-server-groups", all_projects="True", limit=_PAGE, offset=str(offset))
            if not found["server_groups"]:
                return
            yield from found["server_groups"]
            offset += len(found["server_groups"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


@contextmanager
def expected_answers(api: RemoteApi) -> Iterator[None]:
    """Raise Unavailable for an answer without Nova's fields, as from a proxy or another service."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Unavailable(f"{api.url} does not answer as a Compute API does: is it Nova's address?") from error


def negotiate(api: RemoteApi) -> Microversion:
    """Choose the microversion of an API, and return the newest one.

    Raises Invalid for a Nova that is too old, and for an address without a version. Each reading does it, because Nova
    may have been upgraded in between.
    """
    api.version = None
    with expected_answers(api):
        document = api.get("/")
        if "versions" in document:
            raise Invalid(f"{api.url} has no version. Give the address of one: {api.url.rstrip('/')}/v2.1")
        found = document["version"]["version"]
        newest = tuple(map(int, found.split(".")))
    if newest < _OLDEST:
        raise Invalid(f"{api.url} offers microversions up to {found}; {_dotted(_OLDEST)} is needed.")
    api.version = _dotted(min(newest, _NEWEST))
    return newest


def version_of_servers(newest: Microversion) -> str:
    """Return the microversion at which servers are read."""
    return _dotted(min(newest, _SERVERS))


def _dotted(version: Microversion) -> str:
    return ".".join(map(str, version))


def _host(document: _Document, services: Mapping[str, _Document]) -> NovaHost:
    service = services.get(document["service"]["host"], {})
    return NovaHost(
        document["id"],
        document["hypervisor_hostname"],
        document["service"]["host"],
        service.get("zone"),
        document["status"] == "disabled",
        document["service"]["disabled_reason"],
        document["state"] == "up" and not service.get("forced_down", False),
    )


def _aggregate(document: _Document) -> NovaAggregate:
    return NovaAggregate(document["uuid"], document["name"], document["metadata"])


def _flavor(document: _Document) -> Flavor:
    return Flavor(
        id=FlavorId(document["id"]),
        name=document["name"],
        vcpus=document["vcpus"],
        memory_mb=document["ram"],
        disk_gb=document["disk"],
        ephemeral_gb=document["OS-FLV-EXT-DATA:ephemeral"],
        swap_mb=document["swap"] or 0,
        rxtx_factor=document["rxtx_factor"] or 1.0,  # Nova shows none as ""
        is_public=document["os-flavor-access:is_public"],
        description=document["description"],
        extra_specs=document["extra_specs"],
    )


def mirrored_server(document: _Document) -> NovaServer:
    """Return a server. If its cell is down, Nova shows only its id, its project and the status UNKNOWN."""
    return NovaServer(
        document["id"],
        document.get("name", ""),
        document["tenant_id"],
        document.get("user_id", ""),
        document["status"],
        document.get("OS-EXT-SRV-ATTR:host"),
        document.get("OS-EXT-STS:task_state"),
        document.get("locked", False),
        document.get("pinned_availability_zone") or None,  # "" where default_schedule_zone is empty
        _traits(document.get("flavor", {}).get("extra_specs", {})),
    )


def _traits(extra_specs: Mapping[str, str]) -> str | None:
    """Return the traits that a flavor requires and forbids, as the Placement API writes them: A,!B. None if none."""
    named = ((_TRAIT.fullmatch(key), value) for key, value in extra_specs.items())
    found = {match[1]: value for match, value in named if match}
    signs = {"required": "", "forbidden": "!"}
    return ",".join(f"{signs[value]}{name}" for name, value in sorted(found.items()) if value in signs) or None


def _group(document: _Document) -> ReportedGroup:
    return ReportedGroup(
        GroupId(document["id"]),
        document["policy"],
        document["rules"],
        tuple(document["members"]),
        document["project_id"],
        document["user_id"],
        document["name"],
    )
