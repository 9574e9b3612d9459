"""/v1/profiles."""

from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.clustering.fields import as_map, name_of, read_object, small_mapping
from covey.api.clustering.microversions import VALIDATE, since
from covey.api.clustering.queries import ListQuery, texts
from covey.api.requests import Json, Request
from covey.model.clustering.specs import Profile
from covey.services.clustering.profiles import Profiles as Service

LIST = ListQuery({"name": texts, "type": texts}, ("type", "name", "created_at", "updated_at"))


@dataclass(frozen=True, slots=True)
class Profiles:
    """The collection, its members, and validation."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"profiles": [show(profile) for profile in self.service.find(req.actor, LIST.read(req))]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        given = read_object(req, "profile", ("name", "spec"), ("metadata",))
        name, spec = name_of(given), as_map("spec", given["spec"])
        assert name is not None
        created = self.service.create(req.actor, name, spec, small_mapping(given, "metadata") or {})
        resp.status, resp.media = falcon.HTTP_201, {"profile": show(created)}

    @since(VALIDATE)
    def on_post_validate(self, req: Request, resp: falcon.Response) -> None:
        given = read_object(req, "profile", ("spec",))
        resp.media = {"profile": show(self.service.validate(req.actor, as_map("spec", given["spec"])))}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = {"profile": show(self.service.get(req.actor, key))}

    def on_patch_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        given = read_object(req, "profile", optional=("name", "metadata"), updates=True)
        changed = self.service.update(req.actor, key, name_of(given), small_mapping(given, "metadata"))
        resp.media = {"profile": show(changed)}

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key)
        resp.status = falcon.HTTP_204


def show(profile: Profile) -> Json:
    """Return a profile as JSON; a validated one has neither id nor creation time."""
    return {
        "id": profile.id or None,
        "name": profile.name,
        "type": profile.type,
        "spec": profile.spec,
        "metadata": profile.metadata,
        "created_at": views.time_of(profile.created_at) if profile.id else None,
        "updated_at": views.time_of(profile.updated_at),
    } | views.owner(profile.owner)
