"""/flavors/{id}/os-extra_specs: a flavor's requirements beyond its size."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.microversions import CHECKED_EXTRA_SPECS
from covey.api.requests import Request, read_body, read_query
from covey.model.errors import Invalid
from covey.model.resources import check_spec
from covey.services.flavors import Flavors as Service

_MAX_LENGTH = 255
TRAIT = re.compile(r"trait[0-9]*:[A-Z0-9_]+", re.ASCII)
TRAIT_VALUES = ("required", "forbidden")


@dataclass(frozen=True, slots=True)
class ExtraSpecs:
    """A flavor's extra specs."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"extra_specs": self.service.specs(req.actor, key)}

    def on_post(self, req: Request, resp: falcon.Response, key: str) -> None:
        specs = _texts(req, read_body(req, schemas.EXTRA_SPECS_CREATE)["extra_specs"])
        self.service.set_specs(req.actor, key, specs)
        resp.media = {"extra_specs": specs}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str, spec: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {spec: self.service.spec(req.actor, key, spec)}

    def on_put_one(self, req: Request, resp: falcon.Response, key: str, spec: str) -> None:
        specs = _texts(req, read_body(req, schemas.EXTRA_SPECS_UPDATE))
        if spec not in specs:
            raise Invalid("Request body and URI mismatch")
        self.service.set_specs(req.actor, key, specs, rule="update")
        resp.media = specs

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str, spec: str) -> None:
        self.service.delete_spec(req.actor, key, spec)
        resp.status = falcon.HTTP_200


def _texts(req: Request, specs: Mapping[str, object]) -> dict[str, str]:
    """Return the specs with numbers as text. Raises Invalid, from 2.86 on also for traits and resources."""
    texts = {key: str(value) for key, value in specs.items()}
    for value in texts.values():
        if len(value) > _MAX_LENGTH:  # a number, whose length the schema does not limit
            raise Invalid(f"extra_specs value has {len(value)} characters, more than {_MAX_LENGTH}.")
    if req.version >= CHECKED_EXTRA_SPECS:
        for key, value in texts.items():
            if TRAIT.fullmatch(key) and value not in TRAIT_VALUES:
                raise Invalid(
                    f"Validation failed; extra spec '{key}' has the value '{value}', "
                    f"which is not one of {[*TRAIT_VALUES]}."
                )
            check_spec(key, value)
    return texts
