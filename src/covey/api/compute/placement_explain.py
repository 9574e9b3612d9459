"""/os-placement-explain: for each host, why it can or cannot take a server."""

from dataclasses import dataclass

import falcon

from covey.api.compute import microversions as mv
from covey.api.compute import schemas
from covey.api.requests import Request, read_body
from covey.api.validation import Schema
from covey.api.versions import only_from
from covey.services.explanations import ExplainRequest, Explanations, PlacementQuery

EXPLAIN = Schema(
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
    """The decision for a new server, without a claim."""

    service: Explanations

    @only_from(mv.COVEY)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, EXPLAIN)["explain"]
        request = ExplainRequest(
            str(body["flavorRef"]),
            body.get("imageRef"),
            body.get("group"),
            body.get("availability_zone"),
            body.get("project_id"),
        )
        explanation = self.service.explain(req.actor, request)
        reasons = explanation.hosts
        hosts = [{"host": name, "allowed": reason is None, "reason": reason} for name, reason in reasons.items()]
        resp.media = {
            "explanation": {
                "sentence": explanation.sentence,
                "candidates": sum(reason is None for reason in reasons.values()),
                "query": show_query(explanation.query),
                "hosts": hosts,
            }
        }


def show_query(query: PlacementQuery) -> str:
    """Return the equivalent query of GET /allocation_candidates."""
    requirements = query.spec.requirements
    traits = [*sorted(requirements.required_traits), *(f"!{trait}" for trait in sorted(requirements.forbidden_traits))]
    parts = {
        "resources": ",".join(f"{kind}:{amount}" for kind, amount in query.spec.amounts.items()),
        "required": ",".join(traits),
        "member_of": f"!in:{','.join(query.forbidden)}" if query.forbidden else "",
    }
    return "&".join(f"{name}={value}" for name, value in parts.items() if value)
