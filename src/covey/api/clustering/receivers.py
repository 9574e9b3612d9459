"""/v1/receivers and /v1/webhooks."""

from dataclasses import dataclass
from urllib.parse import urlencode

import falcon

from covey.api.clustering import views
from covey.api.clustering.errors import Malformed, Plain
from covey.api.clustering.fields import as_map, choice, mapping, name_of, read_object, small, small_mapping, text
from covey.api.clustering.microversions import RECEIVER_USER, WEBHOOK_BODY
from covey.api.clustering.queries import ListQuery, one_of, texts
from covey.api.requests import Json, Request, query_lists, read_json
from covey.model.clustering.actions import Verb
from covey.model.clustering.receivers import RECEIVER_ACTIONS, RECEIVER_TYPES, WEBHOOK, Receiver
from covey.services.clustering.receivers import NewReceiver, ReceiverChange
from covey.services.clustering.receivers import Receivers as Service

_LIST = ListQuery(
    filters={
        "name": texts,
        "type": one_of(RECEIVER_TYPES),
        "action": one_of(RECEIVER_ACTIONS),
        "cluster_id": texts,
        "user": texts,
    },
    sort_keys=("name", "type", "action", "cluster_id", "created_at", "user"),
    order="name",
)


@dataclass(frozen=True, slots=True)
class Receivers:
    """Receivers, for their owners."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        query = _LIST.read(req, without=() if req.version >= RECEIVER_USER else ("user",))
        resp.media = {"receivers": [show(req, receiver) for receiver in self.service.page(req.actor, query)]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        created = self.service.create(req.actor, _new(req))
        resp.status = falcon.HTTP_201
        resp.media = {"receiver": show(req, created)}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = {"receiver": show(req, self.service.get(req.actor, key))}

    def on_patch_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        given = read_object(req, "receiver", optional=("name", "action", "params"), updates=True)
        change = ReceiverChange(name_of(given), _action(given), small_mapping(given, "params"))
        resp.media = {"receiver": show(req, self.service.update(req.actor, key, change))}

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key)
        resp.status = falcon.HTTP_204


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Webhooks: the URLs that start the actions of receivers."""

    service: Service

    def on_post(self, req: Request, resp: falcon.Response, key: str) -> None:
        if "V" not in query_lists(req):
            raise Plain("The query parameter V is missing: it is the webhook's version, as in V=2.")
        self.service.require(key)  # a body for an unknown receiver is not read
        action = self.service.trigger(key, _inputs(req))
        resp.status, resp.location = falcon.HTTP_202, req.link(f"/v1/actions/{action.id}")
        resp.media = {"action": action.id}


def show(req: Request, receiver: Receiver) -> Json:
    """Return a receiver as JSON, with the URL of its webhook."""
    query = urlencode([("V", "2"), *sorted((name, str(value)) for name, value in receiver.params.items())])
    return {
        "id": receiver.id,
        "name": receiver.name,
        "type": receiver.type,
        "cluster_id": receiver.cluster_id,
        "action": receiver.action,
        "params": receiver.params,
        "actor": {},
        "channel": {"alarm_url": req.link(f"/v1/webhooks/{receiver.id}/trigger?{query}")},
        "created_at": views.time_of(receiver.created_at),
        "updated_at": views.time_of(receiver.updated_at),
    } | views.owner(receiver.owner)


def _new(req: Request) -> NewReceiver:
    optional = ("cluster_id", "action", "params", "actor")
    given = read_object(req, "receiver", required=("name", "type"), optional=optional)
    if choice(given, "type", RECEIVER_TYPES) != WEBHOOK:
        raise Malformed("Receivers of the type 'message' are not offered by this cloud: the type must be 'webhook'.")
    name, cluster, action = name_of(given), text(given, "cluster_id"), _action(given)
    if not cluster:
        raise Malformed("Cluster identity is required for creating webhook receiver.")
    if action is None:
        raise Malformed(f"Action name is required for creating webhook receiver: one of {', '.join(RECEIVER_ACTIONS)}.")
    mapping(given, "actor")  # validated only: the action runs on behalf of the creator
    assert name is not None
    return NewReceiver(name, cluster, action, small_mapping(given, "params") or {})


def _action(given: Json) -> Verb | None:
    chosen = choice(given, "action", RECEIVER_ACTIONS)
    return None if chosen is None else Verb(chosen)


def _inputs(req: Request) -> Json:
    """Return the action's inputs in addition to the receiver's parameters.

    Before 1.10 they are under `params`. Many callers of a webhook send no version, so a bare body is accepted, too.
    """
    body = read_json(req)
    given = {} if body is None else as_map("the body", body)
    if req.version >= WEBHOOK_BODY or "params" not in given:
        return small("the body", given)
    params = given["params"]
    return {} if params is None else small("params", as_map("params", params))
