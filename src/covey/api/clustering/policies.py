"""/v1/policies."""

from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.clustering.fields import as_map, name_of, read_object
from covey.api.clustering.microversions import VALIDATE, since
from covey.api.clustering.queries import ListQuery, texts
from covey.api.requests import Json, Request
from covey.model.clustering.specs import Policy
from covey.services.clustering.policies import Policies as Service

LIST = ListQuery({"name": texts, "type": texts}, ("type", "name", "created_at", "updated_at"))


@dataclass(frozen=True, slots=True)
class Policies:
    """The collection, its members, and validation."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"policies": [show(policy) for policy in self.service.find(req.actor, LIST.read(req))]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        given = read_object(req, "policy", ("name", "spec"))
        name, spec = name_of(given), as_map("spec", given["spec"])
        assert name is not None
        created = self.service.create(req.actor, name, spec)
        resp.status, resp.media = falcon.HTTP_201, {"policy": show(created)}

    @since(VALIDATE)
    def on_post_validate(self, req: Request, resp: falcon.Response) -> None:
        given = read_object(req, "policy", ("spec",))
        resp.media = {"policy": show(self.service.validate(req.actor, as_map("spec", given["spec"])))}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = {"policy": show(self.service.get(req.actor, key))}

    def on_patch_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        name = name_of(read_object(req, "policy", required=("name",), updates=True))
        assert name is not None
        resp.media = {"policy": show(self.service.rename(req.actor, key, name))}

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key)
        resp.status = falcon.HTTP_204


def show(policy: Policy) -> Json:
    """Return a policy as JSON; a validated one has neither id nor creation time."""
    return {
        "id": policy.id or None,
        "name": policy.name,
        "type": policy.type,
        "spec": policy.spec,
        "data": {},
        "created_at": views.time_of(policy.created_at) if policy.id else None,
        "updated_at": views.time_of(policy.updated_at),
    } | views.owner(policy.owner)
