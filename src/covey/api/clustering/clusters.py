"""/v1/clusters."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.clustering.action_requests import accepted, is_forced
from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import boolean, integer, mapping, name_of, read_object, small_mapping, text
from covey.api.clustering.microversions import CLUSTER_CONFIG, COLLECT, PROFILE_ONLY, since
from covey.api.clustering.nodes import NodeView
from covey.api.clustering.queries import ListQuery, one_of, texts
from covey.api.requests import Json, Request
from covey.model.clustering.clusters import NO_MAXIMUM, Cluster, ClusterStatus
from covey.services.clustering.clusters import ClusterChange, NewCluster
from covey.services.clustering.clusters import Clusters as Service

LIST = ListQuery(
    {"name": texts, "status": one_of(ClusterStatus)},
    ("name", "status", "init_at", "created_at", "updated_at"),
    "init_at",
    quotes=True,
)
_SIZES = ("desired_capacity", "min_size", "max_size")
_SINCE = {"profile_only": PROFILE_ONLY, "config": CLUSTER_CONFIG}


_STEP = re.compile(
    r"""\.?(?P<name>[^\W\d][\w:-]*)   # a key; keys of servers contain colons and dashes
    |\[(?P<index>-?\d{1,9})\]
    |\.?\[?(?P<quote>['"])(?P<quoted>[^'"]+)(?P=quote)\]?""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class AttributePath:
    """Keys and indexes, as in details.addresses.private[0].addr: JSONPath for at most one value."""

    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> "AttributePath":
        """Raises Malformed."""
        remainder, steps = text.removeprefix("$"), list[str | int]()
        while remainder:
            found = _STEP.match(remainder)
            if found is None:
                raise Malformed(
                    f"Invalid attribute path: '{text}'. A path consists of keys and indexes, as in details.tags[0]."
                )
            index = found["index"]
            steps.append(found["name"] or found["quoted"] if index is None else int(index))
            remainder = remainder[found.end() :]
        return cls(tuple(steps))

    def values(self, document: object) -> Iterator[object]:
        """Yield the value at the path, if the document has it."""
        for step in self.steps:
            inside = (
                isinstance(document, list) and -len(document) <= step < len(document)
                if isinstance(step, int)
                else isinstance(document, dict) and step in document
            )
            if not inside:
                return
            document = document[step]  # type: ignore[index]
        yield document


@dataclass(frozen=True, slots=True)
class Clusters:
    """The collection, its members, and attributes of their nodes."""

    service: Service
    nodes: NodeView

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"clusters": [show(cluster) for cluster in self.service.page(req.actor, LIST.read(req))]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        optional = (*_SIZES, "timeout", "metadata", "config")
        given = read_object(req, "cluster", ("name", "profile_id"), optional)
        cluster, action = self.service.create(req.actor, self._new(given))
        accepted(req, resp, action.id, {"cluster": show(cluster)})

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = {"cluster": show(self.service.get(req.actor, key))}

    def on_patch_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        optional = ("name", "profile_id", "metadata", "timeout", "config", "profile_only")
        dropped = [name for name, version in _SINCE.items() if req.version < version]
        given = read_object(req, "cluster", optional=optional, updates=True, dropped=dropped)
        change = ClusterChange(
            name=name_of(given),
            profile=text(given, "profile_id"),
            metadata=small_mapping(given, "metadata"),
            timeout=integer(given, "timeout", 1),
            config=mapping(given, "config"),
            profile_only=boolean(given, "profile_only") or False,
        )
        cluster, action = self.service.update(req.actor, key, change)
        accepted(req, resp, action.id, {"cluster": show(cluster)})

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        accepted(req, resp, self.service.delete(req.actor, key, force=is_forced(req, in_query=True)).id, None)

    @since(COLLECT)
    def on_get_attrs(self, req: Request, resp: falcon.Response, key: str, path: str) -> None:
        if path.strip() in {"", "None"}:
            raise Malformed("Required path attribute is missing.")
        attribute = AttributePath.parse(path)
        nodes, servers = self.service.members(req.actor, key)
        servers_by_id = {server.id: server for server in servers}
        attributes = [
            {"id": node.id, "value": value}
            for node in nodes
            for value in attribute.values(
                self.nodes.detailed(node, servers_by_id.get(node.server_id) if node.server_id else None, req)
            )
        ]
        resp.media = {"cluster_attributes": attributes}

    def _new(self, given: Json) -> NewCluster:
        name, profile, max_nodes = name_of(given), text(given, "profile_id"), self.service.limits.max_nodes_per_cluster
        assert name is not None
        assert profile is not None
        return NewCluster(
            name=name,
            profile=profile,
            desired_capacity=integer(given, "desired_capacity", 0, max_nodes),
            min_size=integer(given, "min_size", 0, max_nodes),
            max_size=integer(given, "max_size", NO_MAXIMUM, max_nodes),
            timeout=integer(given, "timeout", 1),
            metadata=small_mapping(given, "metadata") or {},
            config=mapping(given, "config") or {},
        )


def show(cluster: Cluster) -> Json:
    """Return a cluster as JSON. `policies` has the ids of bindings, as in Senlin."""
    return {
        "id": cluster.id,
        "name": cluster.name,
        "profile_id": cluster.profile_id,
        "profile_name": cluster.profile_name,
        "init_at": views.time_of(cluster.init_at),
        "created_at": views.time_of(cluster.created_at),
        "updated_at": views.time_of(cluster.updated_at),
        "min_size": cluster.min_size,
        "max_size": cluster.max_size,
        "desired_capacity": cluster.desired_capacity,
        "timeout": cluster.timeout,
        "status": cluster.status,
        "status_reason": cluster.status_reason,
        "metadata": cluster.metadata,
        "data": cluster.data,
        "dependents": cluster.dependents,
        "config": cluster.config,
        "nodes": cluster.nodes,
        "policies": cluster.bindings,
    } | views.owner(cluster.owner)
