"""/os-aggregates: sets of hosts."""

from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import integer, no_such_action, single_action
from covey.api.compute.microversions import AGGREGATE_UUID, IMAGE_CACHE
from covey.api.requests import Json, Request, read_body, read_json, read_query
from covey.api.routes import only_from
from covey.api.times import microseconds
from covey.api.versions import Version
from covey.model.aggregates import SCOPE_KEY, ZONE_KEY, Aggregate
from covey.model.errors import Invalid
from covey.services.aggregates import AggregateChange
from covey.services.aggregates import Aggregates as Service


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The collection, one of it, and its actions."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"aggregates": [show(a, req.version) for a in self.service.all(req.actor)]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        wanted = read_body(req, schemas.AGGREGATE_CREATE)["aggregate"]
        created = self.service.create(req.actor, wanted["name"], wanted.get("availability_zone"))
        shown = show(created, req.version)
        resp.media = {"aggregate": {key: shown[key] for key in shown if key not in {"hosts", "metadata"}}}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        self._answer(req, resp, self.service.get(req.actor, integer(key)))

    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        wanted = read_body(req, schemas.AGGREGATE_UPDATE)["aggregate"]
        change = AggregateChange(
            name=wanted.get("name"), rezone="availability_zone" in wanted, zone=wanted.get("availability_zone")
        )
        self._answer(req, resp, self.service.update(req.actor, integer(key), change))

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, integer(key))
        resp.status = falcon.HTTP_200

    def on_post_action(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_json(req)
        name = single_action(body)
        if name not in schemas.AGGREGATE_ACTIONS:
            raise no_such_action(name)
        schemas.AGGREGATE_ACTIONS[name].check(body)
        self._answer(req, resp, self._act(req, integer(key), name, body[name]))

    @only_from(IMAGE_CACHE)
    def on_post_images(self, req: Request, resp: falcon.Response, key: str) -> None:
        images = [entry["id"] for entry in read_body(req, schemas.CACHE_IMAGES)["cache"]]
        if len(set(images)) < len(images):
            raise Invalid("Duplicate images in request")
        self.service.cache_images(req.actor, integer(key), tuple(images))
        resp.status = falcon.HTTP_202

    def _act(self, req: Request, aggregate: int, name: str, inner: Json) -> Aggregate:
        match name:
            case "add_host":
                return self.service.add_host(req.actor, aggregate, inner["host"])
            case "remove_host":
                return self.service.remove_host(req.actor, aggregate, inner["host"])
            case _:
                return self.service.set_metadata(req.actor, aggregate, inner["metadata"])

    def _answer(self, req: Request, resp: falcon.Response, aggregate: Aggregate) -> None:
        resp.media = {"aggregate": show(aggregate, req.version)}


def show(aggregate: Aggregate, version: Version) -> Json:
    """An aggregate as Nova shows it; the zone appears in the metadata too, and so does the scope."""
    also = {ZONE_KEY: aggregate.zone, SCOPE_KEY: aggregate.scope_name}
    doc: Json = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.zone,
        "hosts": list(aggregate.hosts),
        "metadata": {**aggregate.metadata, **{key: value for key, value in also.items() if value is not None}},
        "created_at": microseconds(aggregate.created_at),
        "updated_at": microseconds(aggregate.updated_at),
        "deleted_at": None,
        "deleted": False,
    }
    if version >= AGGREGATE_UUID:
        doc["uuid"] = aggregate.uuid
    return doc
