"""/data/refusals, /data/servers/{id}/why and /data/instances: refused servers, why, and the servers of Nova."""

from dataclasses import dataclass

import falcon

from covey.api.compute.server_views import ServerView
from covey.api.dashboard.responses import as_json, number, send
from covey.api.requests import Json, Request
from covey.api.times import seconds
from covey.model.errors import NotFound
from covey.model.servers import Server
from covey.services.dashboard.refusals import Refusals as Service
from covey.services.instances import Instance, Instances


@dataclass(frozen=True, slots=True)
class Refusals:
    """Refused servers, and the explanation of one server's placement, whether Covey runs it or Nova."""

    service: Service
    instances: Instances
    view: ServerView
    max_limit: int

    def on_get_refusals(self, req: Request, resp: falcon.Response) -> None:
        own = [_show(server) for server in self.service.refusals(req.actor)]
        others = [_show_instance(instance) for instance in self.instances.refused(req.actor)]
        newest_first = sorted((*own, *others), key=lambda each: str(each["created_at"]), reverse=True)
        send(req, resp, as_json({"refusals": newest_first}))

    def on_get_instances(self, req: Request, resp: falcon.Response) -> None:
        limit = number(req, "limit", self.max_limit, self.max_limit)
        found = self.instances.find(req.actor, limit + 1)
        shown = [
            {"id": each.id, "name": each.name, "status": each.status, "project_id": each.project_id, "group_id": group}
            for each, group in found[:limit]
        ]
        send(req, resp, as_json({"instances": shown, "more": len(found) > limit}))

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        try:
            refusal = self.service.explain_refusal(req.actor, key)
        except NotFound:  # Nova may run it
            send(req, resp, as_json(_explain_instance(self.instances.get(req.actor, key))))
            return
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


def _explain_instance(instance: Instance) -> Json:
    refusal = instance.refusal
    doc: Json = _show_instance(instance) | {"refused": refusal is not None, "placed": instance.is_placed}
    doc["compute_nodes"] = list(instance.hosts)
    if refusal is not None:
        reasons = [{"reason": words, "hosts": count} for words, count in refusal.reasons]
        doc |= {"hosts": refusal.hosts, "reasons": reasons}
    return doc


def _show_instance(instance: Instance) -> Json:
    refusal = instance.refusal
    return {
        "id": instance.id,
        "name": instance.name or instance.id,
        "project_id": instance.project_id,
        "status": instance.status or "UNKNOWN",
        "flavor": None,
        "group_id": instance.group,
        "created_at": None if refusal is None else seconds(refusal.at),
        "fault": None if refusal is None else refusal.message,
        "in_nova": True,
    }


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
