"""/v1/nodes."""

from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.clustering.action_requests import (
    accepted,
    is_forced,
    query_flag,
    recovery_params,
    require_map,
    single_entry,
)
from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import boolean, name_of, read_object, small_mapping, text
from covey.api.clustering.microversions import OPERATIONS, TAINTED, since
from covey.api.clustering.queries import ListQuery, one_of, texts
from covey.api.compute.server_views import ServerView
from covey.api.requests import Json, Request
from covey.api.versions import Version
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.servers import Server
from covey.services.clustering.nodes import NewNode, NodeChange
from covey.services.clustering.nodes import Nodes as Service

LIST = ListQuery(
    {"cluster_id": texts, "name": texts, "status": one_of(NodeStatus)},
    ("index", "name", "status", "init_at", "created_at", "updated_at"),
    "init_at",
)
_NOT_A_MAP = "The params provided is not a map."


@dataclass(frozen=True, slots=True)
class NodeView:
    """Shows nodes with their servers as the Compute API shows these to the caller."""

    servers: ServerView

    def detailed(self, node: Node, server: Server | None, req: Request) -> Json:
        """Return a node as JSON with the details of its server."""
        return show(node, req.version) | {"details": {} if server is None else self._details(server, req)}

    def _details(self, server: Server, req: Request) -> Json:
        doc = self.servers.single(server, req)
        del doc["links"]
        groups = [group["name"] for group in doc["security_groups"]]
        return doc | {
            "image": server.request.image_id or "",
            "flavor": server.flavor.id,
            "attached_volumes": doc.pop("os-extended-volumes:volumes_attached"),
            "security_groups": groups[0] if len(groups) == 1 else groups,
        }


@dataclass(frozen=True, slots=True)
class Nodes:
    """The collection, its members, and actions on them."""

    service: Service
    view: NodeView

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        found = self.service.page(req.actor, LIST.read(req))
        resp.media = {"nodes": [show(node, req.version) for node in found]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        given = read_object(req, "node", ("name", "profile_id"), ("cluster_id", "role", "metadata"))
        name, profile = name_of(given), text(given, "profile_id")
        assert name is not None
        assert profile is not None
        cluster = text(given, "cluster_id") or None  # an empty id is shown for orphans
        new = NewNode(name, profile, cluster, text(given, "role"), small_mapping(given, "metadata") or {})
        node, action = self.service.create(req.actor, new)
        accepted(req, resp, action.id, {"node": show(node, req.version)})

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        details = query_flag(req, "show_details")
        node, server = self.service.get(req.actor, key)
        resp.media = {"node": self.view.detailed(node, server, req) if details else show(node, req.version)}

    def on_patch_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        optional = ("name", "profile_id", "role", "metadata", "tainted")
        dropped = () if req.version >= TAINTED else ("tainted",)
        given = read_object(req, "node", optional=optional, updates=True, dropped=dropped)
        change = NodeChange(
            name=name_of(given),
            profile=text(given, "profile_id"),
            role=text(given, "role"),
            metadata=small_mapping(given, "metadata"),
            tainted=boolean(given, "tainted"),
        )
        node, action = self.service.update(req.actor, key, change)
        accepted(req, resp, action.id, {"node": show(node, req.version)})

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        accepted(req, resp, self.service.delete(req.actor, key, force=is_forced(req, in_query=False)).id, None)

    def on_post_actions(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, data = single_entry(req, "action", _NOT_A_MAP, full_stop=".")
        if name not in {"check", "recover"}:
            raise Malformed(f"Unrecognized action '{name}' specified")
        given = require_map(data, _NOT_A_MAP)
        if name == "check":
            action = self.service.check(req.actor, key)
        else:
            action = self.service.recover(req.actor, key, recovery_params(req, given))
        accepted(req, resp, action.id, {"action": action.id})

    @since(OPERATIONS)
    def on_post_ops(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, data = single_entry(req, "operation", _NOT_A_MAP, full_stop=".")
        action = self.service.operate(req.actor, key, name, require_map({} if data is None else data, _NOT_A_MAP))
        accepted(req, resp, action.id, {"action": action.id})


def show(node: Node, version: Version) -> Json:
    """Return a node as JSON; `tainted` is present since 1.13."""
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
