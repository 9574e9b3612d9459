"""`/resource_providers/{uuid}/inventories`: the resources of a provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import falcon

from covey.api.placement import schemas
from covey.api.placement.microversions import ALL_RESERVED, DELETE_INVENTORIES
from covey.api.placement.resource_providers import PATH
from covey.api.placement.responses import no_content, read, set_last_modified
from covey.api.requests import Json, Request
from covey.api.versions import Version
from covey.model.providers import MAX_INT, InventoryRecord, Provider
from covey.ports import Clock
from covey.services.placement.inventories import Inventories as Service


@dataclass(frozen=True, slots=True)
class Inventories:
    """The inventories of a provider."""

    inventories: Service
    clock: Clock

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        provider, found = self.inventories.all(req.actor, key)
        self._respond_all(req, resp, provider, found)

    def on_put(self, req: Request, resp: falcon.Response, key: str) -> None:
        """Replace the inventories."""
        self.inventories.require_change(req.actor)
        body = read(req, schemas.INVENTORIES)
        inventories = {kind: parse(entry) for kind, entry in body["inventories"].items()}
        provider = self.inventories.replace(
            req.actor, key, body["resource_provider_generation"], inventories, min_capacity=_min_capacity(req.version)
        )
        self._respond_all(req, resp, provider, inventories)

    def on_post(self, req: Request, resp: falcon.Response, key: str) -> None:
        """Add an inventory."""
        self.inventories.require_add(req.actor)
        body = read(req, schemas.NEW_INVENTORY)
        kind, new = body["resource_class"], parse(body)
        provider = self.inventories.add(req.actor, key, kind, new, min_capacity=_min_capacity(req.version))
        resp.status = falcon.HTTP_201
        resp.location = req.link(f"{PATH}/{key}/inventories/{kind}")
        self._respond(req, resp, provider, new)

    def on_delete(self, req: Request, resp: falcon.Response, key: str) -> None:
        if req.version < DELETE_INVENTORIES:
            raise falcon.HTTPMethodNotAllowed(["GET", "POST", "PUT"])
        self.inventories.clear(req.actor, key)
        no_content(resp)

    def on_get_one(self, req: Request, resp: falcon.Response, key: str, kind: str) -> None:
        self._respond(req, resp, *self.inventories.get(req.actor, key, kind))

    def on_put_one(self, req: Request, resp: falcon.Response, key: str, kind: str) -> None:
        self.inventories.require_change(req.actor)
        body = read(req, schemas.INVENTORY)
        new = parse(body)
        provider = self.inventories.change(
            req.actor, key, kind, body["resource_provider_generation"], new, min_capacity=_min_capacity(req.version)
        )
        self._respond(req, resp, provider, new)

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str, kind: str) -> None:
        self.inventories.remove(req.actor, key, kind)
        no_content(resp)

    def _respond_all(
        self, req: Request, resp: falcon.Response, provider: Provider, found: Mapping[str, InventoryRecord]
    ) -> None:
        resp.media = {
            "resource_provider_generation": provider.generation,
            "inventories": {kind: show(inventory) for kind, inventory in found.items()},
        }
        set_last_modified(req, resp, self.clock())

    def _respond(self, req: Request, resp: falcon.Response, provider: Provider, found: InventoryRecord) -> None:
        resp.media = {**show(found), "resource_provider_generation": provider.generation}
        set_last_modified(req, resp, self.clock())


def parse(entry: Mapping[str, Any]) -> InventoryRecord:
    """Return an inventory from a body, with Placement's defaults."""
    return InventoryRecord(
        entry["total"],
        entry.get("reserved", 0),
        entry.get("min_unit", 1),
        entry.get("max_unit", MAX_INT),
        entry.get("step_size", 1),
        float(entry.get("allocation_ratio", 1.0)),
    )


def show(inventory: InventoryRecord) -> Json:
    """Return an inventory as JSON."""
    return {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.max_unit,
        "step_size": inventory.step_size,
        "allocation_ratio": inventory.allocation_ratio,
    }


def _min_capacity(version: Version) -> int:
    """Return the minimum capacity of an inventory."""
    return 0 if version >= ALL_RESERVED else 1
