"""/v1/profile-types and /v1/policy-types."""

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
    """The types of one kind: profile_type or policy_type."""

    kind: str
    types: SpecTypes
    access: Access

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        self._require(req, "index")
        view = _listed if req.version >= SUPPORT_STATUS else _named
        resp.media = {f"{self.kind}s": [view(spec_type) for spec_type in self.types]}

    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        self._require(req, "get")
        spec_type = self.types.named(name)
        document: Json = {"name": spec_type.full_name, "schema": shown(spec_type.properties)}
        if req.version >= SUPPORT_STATUS:
            document |= _support(spec_type)
        resp.media = {self.kind: document}

    @since(OPERATIONS)
    def on_get_operations(self, req: Request, resp: falcon.Response, name: str) -> None:
        self._require(req, "ops")
        try:
            spec_type = self.types.named(name)
        except NotFound as error:  # Senlin answers 400 here
            raise Invalid(error.message) from error
        resp.media = {
            "operations": {
                verb: {"description": operation.description, "parameters": shown(operation.parameters)}
                for verb, operation in spec_type.operations.items()
            }
        }

    def _require(self, req: Request, verb: str) -> None:
        self.access.require(req.actor, f"{self.kind}s:{verb}", Target(project_id=req.actor.project_id))


def _named(spec_type: SpecType) -> Json:
    return {"name": spec_type.full_name}


def _listed(spec_type: SpecType) -> Json:
    return {"name": spec_type.name, "version": spec_type.version} | _support(spec_type)


def _support(spec_type: SpecType) -> Json:
    return {"support_status": {spec_type.version: [{"status": spec_type.status, "since": spec_type.since}]}}
