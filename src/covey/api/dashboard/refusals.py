"""/data/refusals and /data/servers/{id}/why: servers without a valid host, the reasons, and the remedies."""

from dataclasses import dataclass

import falcon

from covey.api.compute.server_views import ServerView
from covey.api.dashboard.responses import as_json, send
from covey.api.requests import Json, Request
from covey.api.times import seconds
from covey.model.servers import Server
from covey.services.dashboard.refusals import Refusals as Service


@dataclass(frozen=True, slots=True)
class Refusals:
    """Refused servers, and the explanation of one server's placement."""

    service: Service
    view: ServerView

    def on_get_refusals(self, req: Request, resp: falcon.Response) -> None:
        send(req, resp, as_json({"refusals": [_show(server) for server in self.service.refusals(req.actor)]}))

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        refusal = self.service.explain_refusal(req.actor, key)
        doc: Json = _show(refusal.server) | {
            "refused": refusal.refused,
            "placement": self.view.placement(refusal.server, req),
        }
        if refusal.refused:
            doc |= {
                "fits_now": refusal.fits_now,
                "hosts": refusal.hosts,
                "reasons": [{"reason": words, "hosts": count} for words, count in refusal.reasons],
                "smallest_changes": list(refusal.changes),
            }
        send(req, resp, as_json(doc))


def _show(server: Server) -> Json:
    return {
        "id": server.id,
        "name": server.name,
        "project_id": server.project_id,
        "status": server.status,
        "flavor": server.flavor.name,
        "group_id": server.group_id or server.request.hints.get("group"),
        "created_at": seconds(server.created_at),
        "fault": None if server.fault is None else server.fault.message,
    }
