"""Nodes."""

from collections.abc import Sequence

from sqlalchemy import delete, func, select

from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.ids import ProjectId, ServerId
from covey.storage.clustering.lookups import Collection, Lookup, Row, owner, owner_columns
from covey.storage.rows import change_rows, dump, insert_rows, load
from covey.storage.tables import nodes, profiles

Json = dict[str, object]
_ROWS = select(nodes, profiles.c.name.label("profile_name")).join(profiles, profiles.c.id == nodes.c.profile_id)
_NODES = Lookup(nodes, _ROWS, {"index": "position"})


class Nodes(Collection[Node]):
    """Nodes: members of clusters, and orphans."""

    lookup = _NODES

    def of(self, cluster: str) -> list[Node]:
        """Return the members of a cluster in the order of their indexes."""
        statement = _ROWS.where(nodes.c.cluster_id == cluster).order_by(nodes.c.position, nodes.c.id)
        return [_node(row) for row in self._connection.execute(statement)]

    def count_orphans(self, project: ProjectId) -> int:
        """Return how many nodes of a project are in no cluster."""
        orphans = select(func.count()).where(nodes.c.project_id == project, nodes.c.cluster_id.is_(None))
        return self._connection.execute(orphans).scalar_one()

    def by_ids(self, ids: Sequence[str], *, lock: bool = False) -> list[Node]:
        """Return the nodes that exist, in the order of their ids."""
        statement = _ROWS.where(nodes.c.id.in_(ids)).order_by(nodes.c.id)
        rows = self._connection.execute(statement.with_for_update(of=nodes) if lock else statement)
        return [_node(row) for row in rows]

    def add(self, new: Sequence[Node]) -> None:
        rows = [_columns(node) for node in new]
        insert_rows(self._connection, nodes, tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])

    def update(self, changed: Sequence[Node]) -> None:
        change_rows(self._connection, nodes, [{"id": node.id, **_mutable_columns(node)} for node in changed])

    def delete(self, ids: Sequence[str]) -> None:
        self._connection.execute(delete(nodes).where(nodes.c.id.in_(ids)))

    def _read(self, rows: Sequence[Row]) -> list[Node]:
        return [_node(row) for row in rows]


def _columns(value: Node) -> Json:
    row: Json = {"id": value.id, "init_at": value.init_at, "dependents": dump(value.dependents)}
    return row | owner_columns(value.owner) | _mutable_columns(value)


def _mutable_columns(value: Node) -> Json:
    return {
        "name": value.name,
        "profile_id": value.profile_id,
        "cluster_id": value.cluster_id,
        "server_id": value.server_id,
        "position": value.index,
        "role": value.role,
        "created_at": value.created_at,
        "updated_at": value.updated_at,
        "status": value.status,
        "status_reason": value.status_reason,
        "metadata": dump(value.metadata),
        "data": dump(value.data),
        "tainted": value.tainted,
    }


def _node(row: Row) -> Node:
    return Node(
        id=row.id,
        name=row.name,
        profile_id=row.profile_id,
        owner=owner(row),
        init_at=row.init_at,
        cluster_id=row.cluster_id,
        server_id=None if row.server_id is None else ServerId(row.server_id),
        index=row.position,
        role=row.role,
        created_at=row.created_at,
        updated_at=row.updated_at,
        status=NodeStatus(row.status),
        status_reason=row.status_reason,
        metadata=load(row.metadata, Json),
        data=load(row.data, Json),
        dependents=load(row.dependents, Json),
        tainted=row.tainted,
        profile_name=row.profile_name,
    )
