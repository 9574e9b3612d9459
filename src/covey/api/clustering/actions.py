"""/v1/actions."""

from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.clustering.action_requests import query_flag
from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import read_object
from covey.api.clustering.microversions import ACTION_CLUSTER, CANCEL_ACTION, since
from covey.api.clustering.queries import ListQuery, one_of, texts
from covey.api.requests import Json, Request
from covey.api.versions import Version
from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.services.clustering.actions import Actions as Service

LIST = ListQuery(
    {"name": texts, "target": texts, "action": one_of(Verb), "status": one_of(ActionStatus), "cluster_id": texts},
    ("name", "target", "action", "created_at", "status"),
)


@dataclass(frozen=True, slots=True)
class Actions:
    """The collection and its members."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        query = LIST.read(req, without=() if req.version >= ACTION_CLUSTER else ("cluster_id",))
        resp.media = {"actions": [show(action, req.version) for action in self.service.page(req.actor, query)]}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = {"action": show(self.service.get(req.actor, key), req.version)}

    @since(CANCEL_ACTION)
    def on_patch_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        status = read_object(req, "action", ("status",), updates=True)["status"]
        if status != ActionStatus.CANCELLED:
            raise Malformed(f"Unknown status {status} for action {key}.")
        self.service.cancel(req.actor, key, force=query_flag(req, "force"))
        req.context.version = None  # Senlin sends no version header here
        resp.status, resp.content_type, resp.text = (
            falcon.HTTP_202,
            falcon.MEDIA_TEXT,
            "The action will be cancelled.\n",
        )


def show(action: Action, version: Version) -> Json:
    """Return an action as JSON; `cluster_id` is present since 1.14."""
    doc: Json = {
        "id": action.id,
        "name": action.name,
        "action": action.verb,
        "target": action.target,
        "cause": action.cause,
        "owner": action.worker,
        "interval": -1,
        "start_time": views.epoch(action.started_at),
        "end_time": views.epoch(action.ended_at),
        "timeout": action.timeout,
        "status": action.status,
        "status_reason": action.status_reason,
        "inputs": action.inputs,
        "outputs": action.outputs,
        "depends_on": action.depends_on,
        "depended_by": action.depended_by,
        "created_at": views.time_of(action.created_at),
        "updated_at": views.time_of(action.updated_at),
        "data": action.data,
        "user": action.owner.user_id,
        "project": action.owner.project_id,
    }
    return doc | {"cluster_id": action.cluster_id or ""} if version >= ACTION_CLUSTER else doc
