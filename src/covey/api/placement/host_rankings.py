"""`POST /host_rankings`: which hosts the policies of a server group admit, for another scheduler. Covey's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import falcon

from covey.api.placement import schemas
from covey.api.placement.responses import read
from covey.api.requests import Request
from covey.model.group_consumers import ReportedGroup
from covey.model.ids import GroupId
from covey.services.placement.host_rankings import HostRankings as Service


@dataclass(frozen=True, slots=True)
class HostRankings:
    """Rankings of hosts. The group and its members in the request are stored, the ranking is not."""

    rankings: Service

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        self.rankings.require_rank(req.actor)
        body = read(req, schemas.HOST_RANKING)
        instance = body.get("instance_uuid")
        ranked = self.rankings.rank(
            req.actor, _group(body["group"]), None if instance is None else _canonical(instance), body["hosts"]
        )
        resp.media = {
            "hosts": [{"host": host, "weight": weight} for host, weight in ranked.hosts],
            "refused": [str(reason) for reason in ranked.refusals],
        }


def _group(body: Mapping[str, Any]) -> ReportedGroup:
    return ReportedGroup(
        GroupId(_canonical(body["uuid"])),
        body["policy"],
        body.get("rules", {}),
        tuple(map(_canonical, body["members"])),
        body["project_id"],
        body["user_id"],
        body.get("name", ""),
    )


def _canonical(uuid: str) -> str:
    return str(UUID(uuid))
