"""Bindings: policies that are attached to clusters."""

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy import delete, insert, select, update

from covey.model.clustering.specs import Binding, Policy
from covey.model.errors import Conflict
from covey.storage.clustering.lookups import Row, owner
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.rows import dump, load
from covey.storage.tables import cluster_policies, clusters, policies

Json = dict[str, object]
_BINDINGS = (
    select(
        cluster_policies,
        clusters.c.name.label("cluster_name"),
        policies.c.name.label("policy_name"),
        policies.c.type.label("policy_type"),
        policies.c.spec.label("policy_spec"),
        policies.c.user_id,
        policies.c.project_id,
        policies.c.created_at,
        policies.c.updated_at,
    )
    .join(clusters, clusters.c.id == cluster_policies.c.cluster_id)
    .join(policies, policies.c.id == cluster_policies.c.policy_id)
)


class Bindings:
    """Bindings; a cluster has at most one of each policy."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def of(self, cluster: str) -> list[Binding]:
        """Return the bindings of a cluster in the order of their checks."""
        order = (cluster_policies.c.priority, policies.c.type.desc(), cluster_policies.c.id)
        rows = self._connection.execute(_BINDINGS.where(cluster_policies.c.cluster_id == cluster).order_by(*order))
        return [_binding(row) for row in rows]

    def using_groups(self, groups: Collection[str]) -> list[Binding]:
        """Return the bindings of all clusters that use server groups."""
        statement = _BINDINGS.where(cluster_policies.c.group_id.in_(groups)).order_by(cluster_policies.c.id)
        return [_binding(row) for row in self._connection.execute(statement)]

    def add(self, new: Binding) -> None:
        """Raises Conflict when the policy is already attached."""
        row: Json = {"id": new.id, "cluster_id": new.cluster_id, "policy_id": new.policy.id, "priority": new.priority}
        with integrity_error_as(Conflict("The policy is already attached to the cluster.")):
            self._connection.execute(insert(cluster_policies), row | _mutable_columns(new))

    def update(self, changed: Binding) -> None:
        """Store `enabled`, the data and `last_op`."""
        this = cluster_policies.c.id == changed.id
        self._connection.execute(update(cluster_policies).where(this).values(_mutable_columns(changed)))

    def delete(self, binding: str) -> None:
        self._connection.execute(delete(cluster_policies).where(cluster_policies.c.id == binding))


def _mutable_columns(value: Binding) -> Json:
    return {
        "enabled": value.enabled,
        "data": dump(value.data),
        "group_id": value.group_id,
        "last_op": value.last_op,
    }


def _binding(row: Row) -> Binding:
    policy = Policy(
        id=row.policy_id,
        name=row.policy_name,
        type=row.policy_type,
        spec=load(row.policy_spec, Json),
        owner=owner(row),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
    return Binding(
        id=row.id,
        cluster_id=row.cluster_id,
        policy=policy,
        priority=row.priority,
        enabled=row.enabled,
        data=load(row.data, Json),
        group_id=row.group_id,
        last_op=row.last_op,
        cluster_name=row.cluster_name,
    )
