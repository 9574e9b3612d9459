"""/v1/events."""

from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.clustering.queries import ListQuery, one_of, texts
from covey.api.requests import Json, Request
from covey.model.clustering.actions import Verb
from covey.model.clustering.events import Event, Level
from covey.services.clustering.events import Events as Service

_LEVELS = {name: level for level in Level for name in (level.name, str(level.value))}


def _levels(name: str, values: list[str]) -> tuple[object, ...]:
    return tuple(int(_LEVELS[str(value)]) for value in one_of(_LEVELS)(name, values))


LIST = ListQuery(
    {"oid": texts, "oname": texts, "otype": texts, "cluster_id": texts, "action": one_of(Verb), "level": _levels},
    ("timestamp", "level", "otype", "oname", "action", "status", "oid", "cluster_id"),
    "timestamp",
)


@dataclass(frozen=True, slots=True)
class Events:
    """The collection and its members."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"events": [show(event) for event in self.service.page(req.actor, LIST.read(req))]}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = {"event": show(self.service.get(req.actor, key))}


def show(event: Event) -> Json:
    """Return an event as JSON."""
    return {
        "id": event.id,
        "timestamp": views.time_of(event.timestamp),
        "oid": event.object_id,
        "oname": event.object_name,
        "otype": event.object_type,
        "cluster_id": event.cluster_id or "",
        "level": event.level.name,
        "action": event.action,
        "status": event.phase,
        "status_reason": event.reason,
        "user": event.owner.user_id,
        "project": event.owner.project_id,
        "meta_data": {},
    }
