"""/os-placement-explain: why each host may take a server, or may not."""

from dataclasses import dataclass

import falcon

from covey.api.compute import microversions as mv
from covey.api.compute import schemas
from covey.api.requests import Request, read_body
from covey.api.routes import only_from
from covey.api.validation import Schema
from covey.services.explaining import Explaining, Question

_ASK = Schema(
    schemas.body(
        "explain",
        schemas.fields(
            {
                "flavorRef": {"type": ["string", "integer"], "minLength": 1},
                "imageRef": {"type": ["string", "null"]},
                "group": {"type": ["string", "null"]},
                "availability_zone": {"type": ["string", "null"]},
                "project_id": {"type": ["string", "null"]},
            },
            "flavorRef",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class PlacementExplain:
    """The same decision as a boot's, without the claim."""

    service: Explaining

    @only_from(mv.COVEY)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        asked = read_body(req, _ASK)["explain"]
        question = Question(
            str(asked["flavorRef"]),
            asked.get("imageRef"),
            asked.get("group"),
            asked.get("availability_zone"),
            asked.get("project_id"),
        )
        told = self.service.ask(req.actor, question)
        hosts = [{"host": name, "allowed": why is None, "reason": why} for name, why in told.hosts.items()]
        allowed = sum(why is None for why in told.hosts.values())
        resp.media = {"explanation": {"sentence": told.sentence, "candidates": allowed, "hosts": hosts}}
