"""/nodes: members of clusters, and nodes on their own."""

from dataclasses import dataclass

import falcon

from covey.api.clustering.action_requests import accepted, asked, data_of, forced, in_query_true, recovery_of
from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import boolean, mapping, name_of, read_object, text
from covey.api.clustering.microversions import OPERATIONS, TAINTED, since
from covey.api.clustering.node_views import NodeView, show
from covey.api.clustering.queries import ListQuery, one_of, texts
from covey.api.requests import Request
from covey.model.clustering.clusters import NodeStatus
from covey.services.clustering.nodes import NewNode, NodeChange
from covey.services.clustering.nodes import Nodes as Service

LIST = ListQuery(
    {"cluster_id": texts, "name": texts, "status": one_of(NodeStatus)},
    ("index", "name", "status", "init_at", "created_at", "updated_at"),
    "init_at",
)
_NO_MAP = "The params provided is not a map."


@dataclass(frozen=True, slots=True)
class Nodes:
    """The collection, one of it, and what can be done to one."""

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
        cluster = text(given, "cluster_id") or None  # orphans are shown with an empty one
        new = NewNode(name, profile, cluster, text(given, "role"), mapping(given, "metadata") or {})
        node, action = self.service.create(req.actor, new)
        accepted(req, resp, action.id, {"node": show(node, req.version)})

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        details = in_query_true(req, "show_details")
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
            metadata=mapping(given, "metadata"),
            tainted=boolean(given, "tainted"),
        )
        node, action = self.service.update(req.actor, key, change)
        accepted(req, resp, action.id, {"node": show(node, req.version)})

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        accepted(req, resp, self.service.delete(req.actor, key, force=forced(req, in_query=False)).id, None)

    def on_post_actions(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, data = asked(req, "action", _NO_MAP, stop=".")
        if name not in {"check", "recover"}:
            raise Malformed(f"Unrecognized action '{name}' specified")
        given = data_of(data, _NO_MAP)
        if name == "check":
            action = self.service.check(req.actor, key)
        else:
            action = self.service.recover(req.actor, key, recovery_of(req, given))
        accepted(req, resp, action.id, {"action": action.id})

    @since(OPERATIONS)
    def on_post_ops(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, data = asked(req, "operation", _NO_MAP, stop=".")
        action = self.service.operate(req.actor, key, name, data_of({} if data is None else data, _NO_MAP))
        accepted(req, resp, action.id, {"action": action.id})
