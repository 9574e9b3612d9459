"""/os-placement-explain: for each host, why it can or cannot take a server."""

from collections.abc import Iterable
from dataclasses import dataclass

import falcon

from covey.api.compute import microversions as mv
from covey.api.compute import schemas
from covey.api.requests import Request, read_body
from covey.api.validation import Schema
from covey.api.versions import only_from
from covey.model.resources import Resources
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
    spec, requirements = query.spec, query.spec.requirements
    parts = _group("", spec.amounts, requirements.required_traits, requirements.forbidden_traits)
    parts["member_of"] = f"!in:{','.join(query.forbidden)}" if query.forbidden else ""
    for group in spec.granular:
        parts |= _group(group.suffix, group.resources, group.required, group.forbidden)
    if len(spec.granular) > 1:
        parts["group_policy"] = "isolate" if spec.isolate else "none"
    return "&".join(f"{name}={value}" for name, value in parts.items() if value)


def _group(suffix: str, resources: Resources, required: Iterable[str], forbidden: Iterable[str]) -> dict[str, str]:
    traits = [*sorted(required), *(f"!{trait}" for trait in sorted(forbidden))]
    amounts = ",".join(f"{name}:{amount}" for name, amount in resources.items())
    return {f"resources{suffix}": amounts, f"required{suffix}": ",".join(traits)}
