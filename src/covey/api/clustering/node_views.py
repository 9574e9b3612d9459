"""How a node looks, and the server that it is."""

from dataclasses import dataclass

from covey.api.clustering import views
from covey.api.clustering.microversions import TAINTED
from covey.api.compute.server_views import ServerView
from covey.api.requests import Json, Request
from covey.api.versions import Version
from covey.model.clustering.clusters import Node
from covey.model.servers import Server


@dataclass(frozen=True, slots=True)
class NodeView:
    """Shows nodes with as much of their servers as the Compute API would show to whoever asks."""

    servers: ServerView

    def detailed(self, node: Node, server: Server | None, req: Request) -> Json:
        """A node with its server, if it has one."""
        return show(node, req.version) | {"details": {} if server is None else self._details(server, req)}

    def _details(self, server: Server, req: Request) -> Json:
        doc = self.servers.full(server, req, single=True)
        del doc["links"]
        groups = [group["name"] for group in doc["security_groups"]]
        return doc | {
            "image": server.request.image_id or "",
            "flavor": server.flavor.id,
            "attached_volumes": doc.pop("os-extended-volumes:volumes_attached"),
            "security_groups": groups[0] if len(groups) == 1 else groups,
        }


def show(node: Node, version: Version) -> Json:
    """A node; the newest versions tell whether it shall go first."""
    doc = {
        "id": node.id,
        "name": node.name,
        "cluster_id": node.cluster_id or "",
        "physical_id": node.server_id,
        "profile_id": node.profile_id,
        "profile_name": node.profile_name,
        "index": node.index,
        "role": node.role,
        "init_at": views.time_of(node.init_at),
        "created_at": views.time_of(node.created_at),
        "updated_at": views.time_of(node.updated_at),
        "status": node.status,
        "status_reason": node.status_reason,
        "data": node.data,
        "metadata": node.metadata,
        "dependents": node.dependents,
    } | views.owner(node.owner)
    return doc | {"tainted": node.tainted} if version >= TAINTED else doc
