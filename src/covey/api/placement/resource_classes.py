"""`/resource_classes`: the standard and custom resource classes."""

from dataclasses import dataclass

import falcon

from covey.api.placement import schemas
from covey.api.placement.microversions import CLASS_BY_NAME, CLASSES
from covey.api.placement.responses import created, href, no_content, read, set_last_modified
from covey.api.requests import Json, Request
from covey.api.versions import only_from
from covey.ports import Clock
from covey.services.placement.resource_classes import ResourceClasses as Service

PATH = "/resource_classes"


@dataclass(frozen=True, slots=True)
class ResourceClasses:
    """Resource classes."""

    classes: Service
    clock: Clock

    @only_from(CLASSES)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"resource_classes": [show(req, name) for name in self.classes.all(req.actor)]}
        set_last_modified(req, resp, self.clock())

    @only_from(CLASSES)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        self.classes.require_create(req.actor)
        name = read(req, schemas.RESOURCE_CLASS)["name"]
        self.classes.create(req.actor, name)
        created(resp, req.link(f"{PATH}/{name}"))

    @only_from(CLASSES)
    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        made_at = self.classes.show(req.actor, name)
        resp.media = show(req, name)
        set_last_modified(req, resp, made_at or self.clock())

    @only_from(CLASSES)
    def on_put_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        """Rename the class before 1.7; from 1.7 on, create it unless it exists."""
        if req.version < CLASS_BY_NAME:
            self.classes.require_rename(req.actor)
            new = read(req, schemas.RESOURCE_CLASS)["name"]
            self.classes.rename(req.actor, name, new)
            resp.media = show(req, new)
            return
        schemas.RESOURCE_CLASS.check({"name": name})
        resp.status = falcon.HTTP_201 if self.classes.ensure(req.actor, name) else falcon.HTTP_204
        resp.location = req.link(f"{PATH}/{name}")

    @only_from(CLASSES)
    def on_delete_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        self.classes.delete(req.actor, name)
        no_content(resp)


def show(req: Request, name: str) -> Json:
    """Return a resource class as JSON."""
    return {"name": name, "links": [{"rel": "self", "href": href(req, f"{PATH}/{name}")}]}
