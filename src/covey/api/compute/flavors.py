"""/flavors: sizes of servers, and the projects with access to private ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import bounded, page_size, read_action
from covey.api.compute.microversions import (
    EXTRA_SPECS_IN_FLAVORS,
    FLAVOR_DESCRIPTION,
    STRICT_LISTS,
    STRICT_SHOWS,
)
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.validation import is_true
from covey.api.versions import only_from
from covey.model.errors import Invalid
from covey.model.flavors import Flavor
from covey.model.ids import FlavorId, ProjectId
from covey.ports import NewUuid
from covey.services.flavors import FlavorQuery
from covey.services.flavors import Flavors as Service

_TRUE, _FALSE = ("t", "true", "on", "y", "yes", "1"), ("f", "false", "off", "n", "no", "0")
BOOLEANS: dict[str, bool | None] = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False), "none": None}
# Nova's sort keys that differ from Covey's columns; keys without a column sort by id.
_SORT_COLUMNS = {"root_gb": "disk_gb", "swap": "swap_mb", "disabled": "id", "vcpu_weight": "id"}


@dataclass(frozen=True, slots=True)
class Flavors:
    """Flavors and their access lists."""

    service: Service
    new_uuid: NewUuid
    max_limit: int

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        self._list(req, resp, detailed=False)

    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        self._list(req, resp, detailed=True)

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, schemas.FLAVOR_CREATE.at(req.version))["flavor"]
        self._respond(req, resp, self.service.create(req.actor, self._parse(body)))

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        self._respond(req, resp, self.service.get(req.actor, key))

    @only_from(FLAVOR_DESCRIPTION)
    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        description = read_body(req, schemas.FLAVOR_UPDATE)["flavor"]["description"]
        self._respond(req, resp, self.service.set_description(req.actor, key, description))

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key)
        resp.status = falcon.HTTP_202

    def on_get_access(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = _access(key, self.service.projects(req.actor, key))

    def on_post_action(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, parameters = read_action(req, schemas.FLAVOR_ACTIONS)
        act = self.service.add_project if name == "addTenantAccess" else self.service.remove_project
        resp.media = _access(key, act(req.actor, key, ProjectId(parameters["tenant"])))

    def _list(self, req: Request, resp: falcon.Response, *, detailed: bool) -> None:
        query = read_query(req, schemas.FLAVOR_LIST)
        flavors, more = self.service.find(req.actor, _query(query, self.max_limit))
        with_specs = self._with_specs(req)
        shown = [_show(f, req, with_specs=with_specs) if detailed else _show_short(f, req) for f in flavors]
        resp.media = {"flavors": shown}
        if more and flavors:
            follow = urlencode({**query, "marker": flavors[-1].id})
            href = req.link(f"{req.path}?{follow}")
            resp.media["flavors_links"] = [{"rel": "next", "href": href}]

    def _respond(self, req: Request, resp: falcon.Response, flavor: Flavor) -> None:
        resp.media = {"flavor": _show(flavor, req, with_specs=self._with_specs(req))}

    def _with_specs(self, req: Request) -> bool:
        return req.version >= EXTRA_SPECS_IN_FLAVORS and self.service.can_see_specs(req.actor)

    def _parse(self, body: Json) -> Flavor:
        key = body.get("id")
        return Flavor(
            id=FlavorId(self.new_uuid() if key is None else str(key)),
            name=body["name"],
            vcpus=int(body["vcpus"]),
            memory_mb=int(body["ram"]),
            disk_gb=int(body["disk"]),
            ephemeral_gb=int(body.get("OS-FLV-EXT-DATA:ephemeral", 0)),
            swap_mb=int(body.get("swap", 0)),
            rxtx_factor=float(body.get("rxtx_factor", 1.0)),
            is_public=is_true(body.get("os-flavor-access:is_public", True)),
            description=body.get("description"),
        )


def _query(query: Mapping[str, str], max_limit: int) -> FlavorQuery:
    sort_key = query.get("sort_key", "flavorid")
    return FlavorQuery(
        is_public=_public_filter(query.get("is_public", "True")),
        min_memory_mb=_filter_number(query, "minRam"),
        min_disk_gb=_filter_number(query, "minDisk"),
        sort_key=_SORT_COLUMNS.get(sort_key, sort_key),
        descending=query.get("sort_dir") == "desc",
        marker=query.get("marker"),
        limit=page_size(query, max_limit),
    )


def _public_filter(text: str) -> bool | None:
    if text.lower() not in BOOLEANS:
        raise Invalid(f"Invalid is_public filter [{text}]")
    return BOOLEANS[text.lower()]


def _filter_number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdecimal()):
        raise Invalid(f"Invalid {name} filter [{text}]")
    return bounded(text)


def _access(flavor: str, projects: list[ProjectId]) -> Json:
    return {"flavor_access": [{"flavor_id": flavor, "tenant_id": project} for project in projects]}


def _show_short(flavor: Flavor, req: Request) -> Json:
    key = quote(flavor.id)  # an id may contain spaces
    doc: Json = {
        "id": flavor.id,
        "name": flavor.name,
        "links": req.links(f"/flavors/{key}"),
    }
    if req.version >= FLAVOR_DESCRIPTION:
        doc["description"] = flavor.description
    return doc


def _show(flavor: Flavor, req: Request, *, with_specs: bool) -> Json:
    doc = _show_short(flavor, req) | {
        "ram": flavor.memory_mb,
        "disk": flavor.disk_gb,
        "vcpus": flavor.vcpus,
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb,
        "os-flavor-access:is_public": flavor.is_public,
        "swap": flavor.swap_mb if flavor.swap_mb or req.version >= STRICT_LISTS else "",
    }
    if req.version < STRICT_SHOWS:
        doc |= {"OS-FLV-DISABLED:disabled": False, "rxtx_factor": flavor.rxtx_factor}
    if with_specs:
        doc["extra_specs"] = flavor.extra_specs
    return doc
