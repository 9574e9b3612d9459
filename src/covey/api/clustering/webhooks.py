"""/v1/webhooks/{receiver}/trigger: starts the receiver's action, for anybody who knows the address."""

from dataclasses import dataclass

import falcon

from covey.api.clustering.errors import Plain
from covey.api.clustering.fields import as_map
from covey.api.clustering.microversions import WEBHOOK_BODY
from covey.api.requests import Json, Request, query_lists, read_json
from covey.services.clustering.receivers import Receivers


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The callers' side of receivers."""

    receivers: Receivers

    def on_post(self, req: Request, resp: falcon.Response, key: str) -> None:
        if "V" not in query_lists(req):
            raise Plain("The query parameter V is missing: it tells the webhook's version, as in V=2.")
        action = self.receivers.trigger(key, _inputs(req))
        resp.status, resp.location = falcon.HTTP_202, req.link(f"/v1/actions/{action.id}")
        resp.media = {"action": action.id}


def _inputs(req: Request) -> Json:
    """What the action is told besides the receiver's own parameters.

    Before 1.10 that stood below `params`. Few who call a webhook choose a version, so it may stand alone then too.
    """
    body = read_json(req)
    given = {} if body is None else as_map("the body", body)
    if req.version >= WEBHOOK_BODY or "params" not in given:
        return given
    params = given["params"]
    return {} if params is None else as_map("params", params)
