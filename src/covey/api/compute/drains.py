"""/os-drains: empty a host or a domain of its servers; for administrators."""

from collections.abc import Iterable
from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import read_action
from covey.api.compute.microversions import COVEY
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.times import seconds
from covey.api.validation import Schema, is_true
from covey.api.versions import only_from
from covey.model.drains import Drain, LeftServer, StepStatus
from covey.model.scopes import HOST_SCOPE
from covey.services.drains import DrainPlan
from covey.services.drains import Drains as Service

CREATE = Schema(
    schemas.body(
        "drain",
        schemas.fields({"scope": schemas.SHORT, "domain": schemas.SHORT, "dry_run": schemas.BOOLEAN}, "domain"),
    )
)
ACTIONS = {name: schemas.action(name, schemas.fields({})) for name in ("cancel", "undo")}


@dataclass(frozen=True, slots=True)
class Drains:
    """Drains and their actions."""

    service: Service
    max_limit: int

    @only_from(COVEY)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"drains": [summary(drain) for drain in self.service.find(req.actor, self.max_limit)]}

    @only_from(COVEY)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, CREATE)["drain"]
        scope, domain = body.get("scope", HOST_SCOPE), body["domain"]
        if is_true(body.get("dry_run", False)):
            resp.media = {"drain": show_plan(self.service.plan(req.actor, scope, domain))}
            return
        resp.status = falcon.HTTP_202
        resp.media = {"drain": show(self.service.start(req.actor, scope, domain, req.context.request_id))}

    @only_from(COVEY)
    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"drain": show(self.service.show(req.actor, key))}

    @only_from(COVEY)
    def on_post_action(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, _ = read_action(req, ACTIONS)
        act = self.service.cancel if name == "cancel" else self.service.undo
        resp.status = falcon.HTTP_202
        resp.media = {"drain": show(act(req.actor, key))}


def summary(drain: Drain) -> Json:
    """Return a drain as lists show it."""
    return {
        "id": drain.id,
        "scope": drain.scope,
        "domain": drain.domain,
        "status": drain.status,
        "moves_planned": drain.planned,
        "moves_done": sum(step.status is StepStatus.DONE for step in drain.steps),
        "created_at": seconds(drain.created_at),
        "updated_at": seconds(drain.updated_at),
    }


def show(drain: Drain) -> Json:
    """Return a drain with its progress: moves that began, and servers that cannot be moved."""
    moves = [
        {
            "instance_id": step.server_id,
            "from": step.source,
            "to": step.destination,
            "status": step.status,
            "reason": step.reason,
        }
        for step in drain.steps
    ]
    return {
        **summary(drain),
        "hosts": list(drain.hosts),
        "disabled_hosts": list(drain.disabled),
        "moves": moves,
        "left": _left(drain.left),
        "reason": drain.reason,
        "project_id": drain.project_id,
        "user_id": drain.user_id,
    }


def show_plan(plan: DrainPlan) -> Json:
    """Return a plan: its moves, and the servers that cannot be moved."""
    return {
        "scope": plan.scope,
        "domain": plan.domain,
        "dry_run": True,
        "hosts": list(plan.hosts),
        "moves": [{"instance_id": step.server_id, "from": step.source, "to": step.destination} for step in plan.moves],
        "left": _left(plan.left),
    }


def _left(left: Iterable[LeftServer]) -> list[Json]:
    return [{"instance_id": each.server_id, "host": each.host, "reason": each.reason} for each in left]
