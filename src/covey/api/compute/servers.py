"""/servers: create, list, show, update and delete servers, their metadata and their tags."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import quote, urlencode

import falcon
import msgspec

from covey.api.compute import microversions as mv
from covey.api.compute import schemas, server_schemas
from covey.api.compute.identifiers import page_size
from covey.api.compute.placement_explain import show_query
from covey.api.compute.server_views import ServerView, show_instance
from covey.api.requests import Json, Request, limited, read_body, read_query
from covey.api.times import moment
from covey.api.validation import is_true
from covey.api.versions import only_from
from covey.clock_and_ids import new_password, new_reservation_id, new_seed, new_uuid
from covey.model import regular_expressions
from covey.model.access import Actor
from covey.model.claims import ServerRequest
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.ids import GroupId, ProjectId, ServerId
from covey.model.images import boot_image
from covey.model.servers import POWER_STATES, BootData, Details, Server, ServerFilter, ServerName
from covey.model.zones import parse_availability_zone
from covey.ports import Clock
from covey.services.explanations import Explanations
from covey.services.instances import Instances
from covey.services.servers import Servers as Service

Listed = TypeVar("Listed", Server, ServerName)

_MAX_KEY_LENGTH = 255
_POWER = {str(number): power for power, number in POWER_STATES.items()}


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers, their metadata, tags and placement."""

    service: Service
    view: ServerView
    max_limit: int
    explanations: Explanations
    instances: Instances
    clock: Clock

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        self._list(req, resp, self.service.find_names, self.view.short)

    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        self._list(req, resp, self.service.find, self.view.full)

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, server_schemas.CREATE.at(req.version))
        request = parse(body, req, self.clock())
        servers = self.service.create(req.actor, request)
        resp.status = falcon.HTTP_202
        if is_true(body["server"].get("return_reservation_id", False)):
            resp.media = {"reservation_id": request.details.reservation_id}
            return
        if not servers:
            raise NotFound("The server created with this idempotency key was deleted.")
        first = servers[0]
        links = req.links(f"/servers/{first.id}")
        resp.location = links[0]["href"]
        resp.media = {
            "server": {
                "id": first.id,
                "links": links,
                "OS-DCF:diskConfig": first.details.disk_config,
                "security_groups": [{"name": "default"}],
                "adminPass": body["server"].get("adminPass") or new_password(),
            }
        }

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"server": self.view.single(self.service.get(req.actor, key), req)}

    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        changes = read_body(req, server_schemas.UPDATE.at(req.version))["server"]

        def change(server: Server) -> Server:
            old = server.details
            details = replace(
                old,
                description=changes.get("description", old.description),
                hostname=changes.get("hostname", old.hostname),
                disk_config=changes.get("OS-DCF:diskConfig", old.disk_config),
                access_ipv4=_address(changes["accessIPv4"]) if "accessIPv4" in changes else old.access_ipv4,
                access_ipv6=_address(changes["accessIPv6"]) if "accessIPv6" in changes else old.access_ipv6,
            )
            changed = replace(server, name=changes.get("name", server.name), details=details)
            if "pinned_availability_zone" not in changes:
                return changed
            return self._pin(changed, changes["pinned_availability_zone"])

        changed = self.service.change(req.actor, key, "os_compute_api:servers:update", change)
        resp.media = {"server": self.view.updated(changed, req)}

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key, req.context.request_id)
        resp.status = falcon.HTTP_204

    def on_get_metadata(self, req: Request, resp: falcon.Response, key: str) -> None:
        found = self.service.get(req.actor, key, "os_compute_api:server-metadata:index")
        resp.media = {"metadata": found.details.metadata}

    def on_post_metadata(self, req: Request, resp: falcon.Response, key: str) -> None:
        added = read_body(req, server_schemas.METADATA)["metadata"]
        changed = self._set_metadata(req, key, "create", lambda old: {**old, **added})
        resp.media = {"metadata": changed.details.metadata}

    def on_put_metadata(self, req: Request, resp: falcon.Response, key: str) -> None:
        metadata = read_body(req, server_schemas.METADATA)["metadata"]
        resp.media = {"metadata": self._set_metadata(req, key, "update_all", lambda _: metadata).details.metadata}

    def on_get_meta(self, req: Request, resp: falcon.Response, key: str, item: str) -> None:
        found = self.service.get(req.actor, key, "os_compute_api:server-metadata:show").details.metadata
        resp.media = {"meta": {item: _item(found, item)}}

    def on_put_meta(self, req: Request, resp: falcon.Response, key: str, item: str) -> None:
        meta = read_body(req, server_schemas.META_ITEM)["meta"]
        if item not in meta:
            raise Invalid("Request body and URI mismatch")
        self._set_metadata(req, key, "update", lambda old: {**old, **meta})
        resp.media = {"meta": meta}

    def on_delete_meta(self, req: Request, resp: falcon.Response, key: str, item: str) -> None:
        def without(old: Mapping[str, str]) -> dict[str, str]:
            _item(old, item)
            return {name: value for name, value in old.items() if name != item}

        self._set_metadata(req, key, "delete", without)
        resp.status = falcon.HTTP_204

    @only_from(mv.TAGS)
    def on_get_tags(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = {"tags": sorted(self.service.get(req.actor, key, "os_compute_api:os-server-tags:index").tags)}

    @only_from(mv.TAGS)
    def on_put_tags(self, req: Request, resp: falcon.Response, key: str) -> None:
        tags = frozenset(read_body(req, server_schemas.TAGS_BODY)["tags"])
        resp.media = {"tags": sorted(self._set_tags(req, key, "update_all", lambda _: tags).tags)}

    @only_from(mv.TAGS)
    def on_delete_tags(self, req: Request, resp: falcon.Response, key: str) -> None:
        self._set_tags(req, key, "delete_all", lambda _: frozenset())
        resp.status = falcon.HTTP_204

    @only_from(mv.TAGS)
    def on_get_tag(self, req: Request, resp: falcon.Response, key: str, tag: str) -> None:
        if tag not in self.service.get(req.actor, key, "os_compute_api:os-server-tags:show").tags:
            raise _no_tag(key, tag)
        resp.status = falcon.HTTP_204

    @only_from(mv.TAGS)
    def on_put_tag(self, req: Request, resp: falcon.Response, key: str, tag: str) -> None:
        server_schemas.TAGS_BODY.check({"tags": [tag]})
        resp.status = falcon.HTTP_204

        def with_tag(before: frozenset[str]) -> frozenset[str]:
            if tag not in before:
                resp.status = falcon.HTTP_201
            return before | {tag}

        self._set_tags(req, key, "update", with_tag)
        resp.location = req.links(f"/servers/{key}/tags/{quote(tag)}")[0]["href"]

    @only_from(mv.TAGS)
    def on_delete_tag(self, req: Request, resp: falcon.Response, key: str, tag: str) -> None:
        def without_tag(before: frozenset[str]) -> frozenset[str]:
            if tag not in before:
                raise _no_tag(key, tag)
            return before - {tag}

        self._set_tags(req, key, "delete", without_tag)
        resp.status = falcon.HTTP_204

    @only_from(mv.COVEY)
    def on_get_placement(self, req: Request, resp: falcon.Response, key: str) -> None:
        try:
            found = self.service.get(req.actor, key, "covey:placement:show")
        except NotFound:  # Nova may run it
            resp.media = {"placement": show_instance(self.instances.get(req.actor, key))}
            return
        shown = self.view.placement(found, req)
        query = self.explanations.query_for(req.actor, found)
        resp.media = {"placement": shown if query is None else shown | {"query": show_query(query)}}

    def _list(
        self,
        req: Request,
        resp: falcon.Response,
        find: Callable[[Actor, ServerFilter, bool], list[Listed]],
        show: Callable[[Sequence[Listed], Request], list[Json]],
    ) -> None:
        query = read_query(req, server_schemas.LIST)
        limit = page_size(query, self.max_limit)
        all_projects = is_true(query.get("all_tenants", "0") or "1")
        filters = _filter(query, limit + 1)
        found = find(req.actor, filters, all_projects) if filters else []
        page = found[:limit]
        resp.media = {"servers": show(page, req)}
        if page and len(found) > limit:
            href = req.link(f"{req.path}?{urlencode({**query, 'marker': page[-1].id})}")
            resp.media["servers_links"] = [{"rel": "next", "href": href}]

    def _pin(self, server: Server, zone: str | None) -> Server:
        """Return the server pinned to the zone that it is in, or to none. Raises Conflict for any other zone."""
        pinned, current = server.request.zone, self.view.zone(server)
        if zone is not None and pinned is not None and zone != pinned:
            raise Conflict(
                "Cannot change pinned availability zone directly. "
                "Unpin first by setting pinned_availability_zone to null."
            )
        if zone is not None and pinned is None and zone != current:
            raise Conflict(
                f"Server can only be pinned to its current availability zone '{current}', but '{zone}' was requested."
            )
        return replace(server, request=replace(server.request, zone=zone))

    def _set_metadata(
        self, req: Request, key: str, rule: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Server:
        def changed(server: Server) -> Server:
            return replace(server, details=replace(server.details, metadata=change(server.details.metadata)))

        return self.service.change(req.actor, key, f"os_compute_api:server-metadata:{rule}", changed, check_lock=True)

    def _set_tags(
        self, req: Request, key: str, rule: str, change: Callable[[frozenset[str]], frozenset[str]]
    ) -> Server:
        def changed(server: Server) -> Server:
            tags = change(server.tags)
            server_schemas.TAGS_BODY.check({"tags": sorted(tags)})
            return replace(server, tags=tags)

        return self.service.change(req.actor, key, f"os_compute_api:os-server-tags:{rule}", changed)


def parse(body: Json, req: Request, now: datetime) -> ServerRequest:
    """Return the request that a validated body describes. Raises Invalid for contradictions in it."""
    server = body["server"]
    hints = body.get("os:scheduler_hints") or body.get("OS-SCH-HNT:scheduler_hints") or {}
    requested_zone = server.get("availability_zone")
    zone, forced = (None, None) if requested_zone is None else parse_availability_zone(requested_zone)
    host = server.get("host") or server.get("hypervisor_hostname")
    if forced is not None and host is not None:
        raise Invalid(
            "One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node "
            "are mutually exclusive."
        )
    minimum = int(server.get("min_count", 1))
    count = int(server.get("max_count", minimum))
    if minimum > count:
        raise Invalid("min_count must be <= max_count")
    key, group = _key(req), next(iter(_as_tuple(hints.get("group"))), None)
    image, volume_backed = _image(server)
    return ServerRequest(
        project_id=req.project_id,
        user_id=req.actor.user_id,
        name=server["name"],
        flavor_ref=str(server["flavorRef"]),
        image_ref=image,
        volume_backed=volume_backed,
        details=_details(server),
        request_id=req.context.request_id,
        now=now,
        seed=new_seed(),
        first_id=ServerId(new_uuid()),
        group_id=None if group is None else GroupId(group),
        same_host=_as_tuple(hints.get("same_host")),
        different_host=_as_tuple(hints.get("different_host")),
        hints=hints,
        zone=zone,
        forced_host=forced,
        requested_host=host,
        count=count,
        minimum=minimum,
        tags=frozenset(server.get("tags", ())),
        boot=BootData(server["user_data"]) if server.get("user_data") else None,
        key=None if key is None else (req.project_id, key),
        fingerprint="" if key is None else hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest(),
    )


def _key(req: Request) -> str | None:
    """Return the idempotency key, if the client sent one. Raises Invalid for a length out of range."""
    key = req.get_header("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= _MAX_KEY_LENGTH:
        raise Invalid(f"Idempotency-Key must have 1 to {_MAX_KEY_LENGTH} characters.")
    return key


def _details(server: Json) -> Details:
    return Details(
        metadata=server.get("metadata", {}),
        description=server.get("description"),
        hostname=server.get("hostname"),
        key_name=server.get("key_name"),
        disk_config=server.get("OS-DCF:diskConfig", "MANUAL"),
        config_drive="True" if is_true(server.get("config_drive", False)) else "",
        access_ipv4=_address(server.get("accessIPv4", "")),
        access_ipv6=_address(server.get("accessIPv6", "")),
        reservation_id=new_reservation_id(),
        networks=server.get("networks"),
    )


def _address(text: str) -> str:
    """Return a validated IP address in its canonical form; the empty text stands for none."""
    return str(ip_address(text)) if text else ""


def _image(server: Json) -> tuple[str | None, bool]:
    """Return the image that the server boots, and whether it boots from a volume. Raises Invalid."""
    image: str | None = server.get("imageRef") or None
    devices = server.get("block_device_mapping_v2") or ()
    if devices:
        return boot_image(image, devices)
    if image is None and server.get("block_device_mapping"):  # of volumes and snapshots only
        return boot_image(None, [{"boot_index": 0, "source_type": "volume"}])
    if image is None:
        raise Invalid("Missing imageRef attribute")
    return image, False


def _as_tuple(value: object) -> tuple[str, ...]:
    if not value:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _filter(query: Mapping[str, str], limit: int) -> ServerFilter | None:
    """Return the filters of a list; None if no server can match. Raises Invalid."""
    for name in sorted(query.keys() & {"name", "ip", "ip6"}):
        try:
            regular_expressions.check(query[name])
        except Invalid as error:
            raise Invalid(
                f"Invalid input for query parameters {name}. Value: {query[name]}. {error.message}"
            ) from error
    has_address = query.keys() & {"ip", "ip6"}  # servers have none
    is_deleted = query.get("deleted", "").lower() in {"true", "1"}
    if has_address or is_deleted or query.get("power_state", "0") not in _POWER:
        return None
    project = query.get("tenant_id") or query.get("project_id")
    return ServerFilter(
        project_id=None if project is None else ProjectId(project),
        user_id=query.get("user_id"),
        ids=(query["uuid"],) if "uuid" in query else None,
        name_matches=query.get("name") or None,
        status=query["status"].upper() if "status" in query else None,
        vm_state=query["vm_state"].lower() if "vm_state" in query else None,
        host=query.get("host"),
        flavor=query.get("flavor"),
        image=query.get("image"),
        reservation_id=query.get("reservation_id"),
        locked=is_true(query["locked"]) if "locked" in query else None,
        power=_POWER.get(query["power_state"]) if "power_state" in query else None,
        zone=query.get("availability_zone"),
        changed_since=moment(query, "changes-since"),
        changed_before=moment(query, "changes-before"),
        tags=_tags(query, "tags"),
        tags_any=_tags(query, "tags-any"),
        not_tags=_tags(query, "not-tags"),
        not_tags_any=_tags(query, "not-tags-any"),
        after=ServerId(query["marker"]) if "marker" in query else None,
        limit=limit,
        sort_key=query.get("sort_key", "created_at"),
        descending=query.get("sort_dir", "desc") == "desc",
    )


def _tags(query: Mapping[str, str], name: str) -> tuple[str, ...]:
    return limited(name, [tag for tag in query.get(name, "").split(",") if tag])


def _item(metadata: Mapping[str, str], item: str) -> str:
    if item not in metadata:
        raise NotFound("Metadata item was not found")
    return metadata[item]


def _no_tag(server: str, tag: str) -> NotFound:
    return NotFound(f"Server {server} has no tag '{tag}'")
