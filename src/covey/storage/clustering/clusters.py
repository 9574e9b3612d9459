"""Clusters."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import delete, insert, select, update

from covey.model.clustering.clusters import Cluster, ClusterStatus
from covey.storage.clustering.lookups import Collection, Lookup, Row, owner, owner_columns
from covey.storage.rows import dump, load
from covey.storage.tables import cluster_policies, clusters, nodes, profiles

Json = dict[str, object]
_ROWS = select(clusters, profiles.c.name.label("profile_name")).join(profiles, profiles.c.id == clusters.c.profile_id)
_CLUSTERS = Lookup(clusters, _ROWS)


class Clusters(Collection[Cluster]):
    """Clusters, each with the ids of its nodes and bindings."""

    lookup = _CLUSTERS

    def lock(self, cluster: str) -> Cluster | None:
        """Return the cluster with that id, locked until the transaction ends; so are the locks of its nodes."""
        lock = select(clusters.c.id).where(clusters.c.id == cluster).with_for_update()
        if self._connection.execute(lock).first() is None:
            return None
        return self._read(self._connection.execute(_ROWS.where(clusters.c.id == cluster)).all())[0]

    def add(self, new: Cluster) -> None:
        row: Json = {"id": new.id, "init_at": new.init_at, "dependents": dump(new.dependents)}
        self._connection.execute(insert(clusters), row | owner_columns(new.owner) | _mutable_columns(new))

    def update(self, changed: Cluster) -> None:
        self._connection.execute(update(clusters).where(clusters.c.id == changed.id).values(_mutable_columns(changed)))

    def delete(self, cluster: str) -> None:
        """Delete a cluster without nodes, with its bindings and receivers."""
        self._connection.execute(delete(clusters).where(clusters.c.id == cluster))

    def _read(self, rows: Sequence[Row]) -> list[Cluster]:
        ids = [row.id for row in rows]
        members = self._by_cluster(nodes, ids, nodes.c.position, nodes.c.id)
        bindings = self._by_cluster(cluster_policies, ids, cluster_policies.c.priority, cluster_policies.c.id)
        return [_cluster(row, members.get(row.id, ()), bindings.get(row.id, ())) for row in rows]

    def _by_cluster(
        self, table: sa.Table, ids: Sequence[str], *order: sa.Column[object]
    ) -> Mapping[str, tuple[str, ...]]:
        statement = select(table.c.cluster_id, table.c.id).where(table.c.cluster_id.in_(ids)).order_by(*order)
        found: dict[str, list[str]] = {}
        for row in self._connection.execute(statement):
            found.setdefault(row.cluster_id, []).append(row.id)
        return {cluster: tuple(members) for cluster, members in found.items()}


def _mutable_columns(value: Cluster) -> Json:
    return {
        "name": value.name,
        "profile_id": value.profile_id,
        "created_at": value.created_at,
        "updated_at": value.updated_at,
        "min_size": value.min_size,
        "max_size": value.max_size,
        "desired_capacity": value.desired_capacity,
        "next_index": value.next_index,
        "timeout": value.timeout,
        "status": value.status,
        "status_reason": value.status_reason,
        "metadata": dump(value.metadata),
        "data": dump(value.data),
        "config": dump(value.config),
    }


def _cluster(row: Row, members: tuple[str, ...], bindings: tuple[str, ...]) -> Cluster:
    return Cluster(
        id=row.id,
        name=row.name,
        profile_id=row.profile_id,
        owner=owner(row),
        init_at=row.init_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        min_size=row.min_size,
        max_size=row.max_size,
        desired_capacity=row.desired_capacity,
        next_index=row.next_index,
        timeout=row.timeout,
        status=ClusterStatus(row.status),
        status_reason=row.status_reason,
        metadata=load(row.metadata, Json),
        data=load(row.data, Json),
        dependents=load(row.dependents, Json),
        config=load(row.config, Json),
        profile_name=row.profile_name,
        nodes=members,
        bindings=bindings,
    )
