"""/os-placement-explain: why each host may take a server, or may not."""

from dataclasses import dataclass

import falcon

from covey.api.compute import microversions as mv
from covey.api.compute import schemas
from covey.api.requests import Request, read_body
from covey.api.routes import only_from
from covey.api.validation import Schema
from covey.scheduler.fleet import RESOURCES
from covey.services.explaining import Explaining, Query, Question

ASK = Schema(
    schemas.body(
        "explain",
        schemas.fields(
            {
                "flavorRef": {"type": ["string", "integer"], "minLength": 1},
                "imageRef": {"type": ["string", "null"], "minLength": 1},
                "group": {"type": ["string", "null"], "minLength": 1},
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
        asked = read_body(req, ASK)["explain"]
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
        resp.media = {
            "explanation": {
                "sentence": told.sentence,
                "candidates": allowed,
                "query": show_query(told.query),
                "hosts": hosts,
            }
        }


def show_query(query: Query) -> str:
    """What the request would ask of GET /allocation_candidates."""
    amounts = ((kind, amount) for kind, amount in zip(RESOURCES, query.spec.amounts, strict=True) if amount)
    requirements = query.spec.requirements
    traits = [*sorted(requirements.required_traits), *(f"!{trait}" for trait in sorted(requirements.forbidden_traits))]
    parts = {
        "resources": ",".join(f"{kind}:{amount}" for kind, amount in amounts),
        "required": ",".join(traits),
        "member_of": f"!in:{','.join(query.forbidden)}" if query.forbidden else "",
    }
    return "&".join(f"{name}={value}" for name, value in parts.items() if value)
