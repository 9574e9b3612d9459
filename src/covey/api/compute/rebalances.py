"""/os-server-groups/{id}/rebalance, and the actions that start and cancel it."""

from collections.abc import Iterable
from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.microversions import COVEY
from covey.api.compute.server_group_actions import Handler
from covey.api.compute.server_group_views import show_violation
from covey.api.requests import Json, Request, read_query
from covey.api.times import seconds
from covey.api.validation import JsonSchema, is_true
from covey.api.versions import only_from
from covey.model.groups import HOST
from covey.model.rebalances import FailedMove, Rebalance, Step
from covey.services.obfuscation import Obfuscation
from covey.services.rebalances import RebalancePlan
from covey.services.rebalances import Rebalances as Service

ACTIONS: dict[str, JsonSchema] = {
    "rebalance": schemas.fields({"dry_run": schemas.BOOLEAN}),
    "cancel_rebalance": schemas.fields({}),
}


@dataclass(frozen=True, slots=True)
class Rebalances:
    """The latest rebalance of a group; `start` and `cancel` are actions of the group."""

    service: Service

    @property
    def verbs(self) -> dict[str, tuple[JsonSchema, Handler]]:
        """Return the actions, each with the schema of its body."""
        handlers: dict[str, Handler] = {"rebalance": self.start, "cancel_rebalance": self.cancel}
        return {verb: (ACTIONS[verb], do) for verb, do in handlers.items()}

    @only_from(COVEY)
    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"rebalance": show(*self.service.show(req.actor, key))}

    def start(self, req: Request, resp: falcon.Response, key: str, body: Json) -> None:
        if is_true(body.get("dry_run", False)):
            resp.media = {"rebalance": show_plan(self.service.plan(req.actor, key))}
            return
        started = self.service.start(req.actor, key, req.context.request_id)
        resp.status = falcon.HTTP_202
        resp.media = {"rebalance": show(*started)}

    def cancel(self, req: Request, resp: falcon.Response, key: str, body: Json) -> None:
        self.service.cancel(req.actor, key)
        resp.status = falcon.HTTP_202


def show(rebalance: Rebalance, obfuscation: Obfuscation) -> Json:
    """Return a rebalance with its progress."""
    return {
        "id": rebalance.id,
        "server_group_id": rebalance.group_id,
        "status": rebalance.status,
        "moves": _moves(rebalance.steps, obfuscation),
        "moves_done": rebalance.done,
        "reason": rebalance.reason,
        "failed_moves": _failed(rebalance.failed) if obfuscation.sees_all else [],
        "created_at": seconds(rebalance.created_at),
        "updated_at": seconds(rebalance.updated_at),
    }


def show_plan(planned: RebalancePlan) -> Json:
    """Return a plan: its moves, and under `left` those that no order allows."""
    plan, obfuscation = planned.plan, planned.obfuscation
    return {
        "server_group_id": planned.group.id,
        "dry_run": True,
        "moves": _moves(planned.steps, obfuscation),
        "left": _moves(planned.blocked, obfuscation),
        "bound": plan.bound,
        "optimal": plan.optimal,
        "violations_before": [show_violation(violation, obfuscation) for violation in plan.before],
        "violations_after": [show_violation(violation, obfuscation) for violation in plan.after],
    }


def _failed(moves: Iterable[FailedMove]) -> list[Json]:
    """Return what failed, in the words of the service that runs the server. They may name hosts."""
    return [{"instance_id": each.server_id, "to": each.destination, "reason": each.reason} for each in moves]


def _moves(steps: Iterable[Step], obfuscation: Obfuscation) -> list[Json]:
    return [
        {
            "instance_id": step.server_id,
            "from": obfuscation.display_identifier(HOST, step.source),
            "to": obfuscation.display_identifier(HOST, step.destination),
        }
        for step in steps
    ]
