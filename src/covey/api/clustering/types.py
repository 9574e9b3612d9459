"""/profile-types and /policy-types: what profiles and policies can be of, and what they may say."""

from dataclasses import dataclass

import falcon

from covey.api.clustering.microversions import OPERATIONS, SUPPORT_STATUS, since
from covey.api.requests import Json, Request
from covey.model.access import Target
from covey.model.clustering.spec_schema import shown
from covey.model.clustering.spec_types import SpecType, SpecTypes
from covey.model.errors import Invalid, NotFound
from covey.ports import Access


@dataclass(frozen=True, slots=True)
class Types:
    """Types of one kind: profile_type, or policy_type."""

    kind: str
    types: SpecTypes
    access: Access

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        self._require(req, "index")
        view = _listed if req.version >= SUPPORT_STATUS else _named
        resp.media = {f"{self.kind}s": [view(known) for known in self.types]}

    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        self._require(req, "get")
        known = self.types.named(name)
        document: Json = {"name": known.full_name, "schema": shown(known.properties)}
        if req.version >= SUPPORT_STATUS:
            document |= _support(known)
        resp.media = {self.kind: document}

    @since(OPERATIONS)
    def on_get_operations(self, req: Request, resp: falcon.Response, name: str) -> None:
        self._require(req, "ops")
        try:
            known = self.types.named(name)
        except NotFound as error:  # the API has it so, here and nowhere else
            raise Invalid(error.message) from error
        resp.media = {
            "operations": {
                verb: {"description": operation.description, "parameters": shown(operation.parameters)}
                for verb, operation in known.operations.items()
            }
        }

    def _require(self, req: Request, verb: str) -> None:
        self.access.require(req.actor, f"{self.kind}s:{verb}", Target(project_id=req.actor.project_id))


def _named(known: SpecType) -> Json:
    return {"name": known.full_name}


def _listed(known: SpecType) -> Json:
    return {"name": known.name, "version": known.version} | _support(known)


def _support(known: SpecType) -> Json:
    return {"support_status": {known.version: [{"status": known.status, "since": known.since}]}}
