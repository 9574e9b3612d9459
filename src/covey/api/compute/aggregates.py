"""/os-aggregates: named sets of hosts."""

from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import integer, read_action
from covey.api.compute.microversions import AGGREGATE_UUID, COVEY, IMAGE_CACHE
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.times import microseconds
from covey.api.validation import is_true
from covey.api.versions import Version, only_from
from covey.model.aggregates import SCOPE_KEY, ZONE_KEY, Aggregate
from covey.model.errors import Invalid
from covey.services.aggregates import AggregateChange
from covey.services.aggregates import Aggregates as Service


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Aggregates and their actions."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"aggregates": [show(a, req.version) for a in self.service.all(req.actor)]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, schemas.AGGREGATE_CREATE)["aggregate"]
        created = self.service.create(req.actor, body["name"], body.get("availability_zone"))
        shown = show(created, req.version)
        resp.media = {"aggregate": {key: shown[key] for key in shown if key not in {"hosts", "metadata"}}}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        self._respond(req, resp, self.service.get(req.actor, integer(key)))

    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, schemas.AGGREGATE_UPDATE)["aggregate"]
        change = AggregateChange(
            name=body.get("name"), rezone="availability_zone" in body, zone=body.get("availability_zone")
        )
        self._respond(req, resp, self.service.update(req.actor, integer(key), change))

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        force = req.version >= COVEY and is_true(read_query(req, schemas.AGGREGATE_DELETE).get("force", False))
        self.service.delete(req.actor, integer(key), force=force)
        resp.status = falcon.HTTP_200

    def on_post_action(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, parameters = read_action(req, schemas.AGGREGATE_ACTIONS)
        self._respond(req, resp, self._execute(req, integer(key), name, parameters))

    @only_from(IMAGE_CACHE)
    def on_post_images(self, req: Request, resp: falcon.Response, key: str) -> None:
        images = [entry["id"] for entry in read_body(req, schemas.CACHE_IMAGES)["cache"]]
        if len(set(images)) < len(images):
            raise Invalid("Duplicate images in request")
        self.service.cache_images(req.actor, integer(key), tuple(images))
        resp.status = falcon.HTTP_202

    def _execute(self, req: Request, aggregate: int, name: str, parameters: Json) -> Aggregate:
        match name:
            case "add_host":
                return self.service.add_host(req.actor, aggregate, parameters["host"])
            case "remove_host":
                return self.service.remove_host(req.actor, aggregate, parameters["host"])
            case _:
                return self.service.set_metadata(req.actor, aggregate, parameters["metadata"])

    def _respond(self, req: Request, resp: falcon.Response, aggregate: Aggregate) -> None:
        resp.media = {"aggregate": show(aggregate, req.version)}


def show(aggregate: Aggregate, version: Version) -> Json:
    """Return an aggregate as Nova shows it; the metadata includes the zone and the scope."""
    derived = {ZONE_KEY: aggregate.zone, SCOPE_KEY: aggregate.scope_name}
    doc: Json = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.zone,
        "hosts": list(aggregate.hosts),
        "metadata": {**aggregate.metadata, **{key: value for key, value in derived.items() if value is not None}},
        "created_at": microseconds(aggregate.created_at),
        "updated_at": microseconds(aggregate.updated_at),
        "deleted_at": None,
        "deleted": False,
    }
    if version >= AGGREGATE_UUID:
        doc["uuid"] = aggregate.uuid
    return doc
