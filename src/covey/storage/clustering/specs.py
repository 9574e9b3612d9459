"""Profiles and policies."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import delete, exists, insert, select, update

from covey.model.clustering.specs import Policy, Profile
from covey.storage.clustering.lookups import Collection, Lookup, Row, owner, owner_columns
from covey.storage.rows import dump, load
from covey.storage.tables import cluster_policies, clusters, nodes, policies, profiles

Json = dict[str, object]
_PROFILES = Lookup(profiles, select(profiles))
_POLICIES = Lookup(policies, select(policies))


class Profiles(Collection[Profile]):
    """Profiles."""

    lookup = _PROFILES

    def add(self, new: Profile) -> None:
        row = {"id": new.id, "type": new.type, "spec": dump(new.spec), "created_at": new.created_at}
        self._connection.execute(insert(profiles), row | owner_columns(new.owner) | _mutable_columns(new))

    def update(self, changed: Profile) -> None:
        """Store name and metadata; the rest never changes."""
        self._connection.execute(update(profiles).where(profiles.c.id == changed.id).values(_mutable_columns(changed)))

    def is_used(self, profile: str) -> bool:
        """Return whether a cluster or node uses the profile."""
        used = sa.or_(exists().where(clusters.c.profile_id == profile), exists().where(nodes.c.profile_id == profile))
        return bool(self._connection.execute(select(used)).scalar())

    def delete(self, profile: str) -> None:
        self._connection.execute(delete(profiles).where(profiles.c.id == profile))

    def _read(self, rows: Sequence[Row]) -> list[Profile]:
        return [_profile(row) for row in rows]


class Policies(Collection[Policy]):
    """Policies."""

    lookup = _POLICIES

    def add(self, new: Policy) -> None:
        row = {"id": new.id, "name": new.name, "type": new.type, "spec": dump(new.spec), "created_at": new.created_at}
        self._connection.execute(insert(policies), row | owner_columns(new.owner))

    def rename(self, changed: Policy) -> None:
        """Store the name; the rest never changes."""
        values = {"name": changed.name, "updated_at": changed.updated_at}
        self._connection.execute(update(policies).where(policies.c.id == changed.id).values(values))

    def is_used(self, policy: str) -> bool:
        """Return whether the policy is attached to a cluster."""
        return bool(self._connection.execute(select(exists().where(cluster_policies.c.policy_id == policy))).scalar())

    def delete(self, policy: str) -> None:
        self._connection.execute(delete(policies).where(policies.c.id == policy))

    def _read(self, rows: Sequence[Row]) -> list[Policy]:
        return [_policy(row) for row in rows]


def _mutable_columns(value: Profile) -> Json:
    return {"name": value.name, "metadata": dump(value.metadata), "updated_at": value.updated_at}


def _profile(row: Row) -> Profile:
    return Profile(
        id=row.id,
        name=row.name,
        type=row.type,
        spec=load(row.spec, Json),
        owner=owner(row),
        created_at=row.created_at,
        updated_at=row.updated_at,
        metadata=load(row.metadata, Json),
    )


def _policy(row: Row) -> Policy:
    return Policy(
        id=row.id,
        name=row.name,
        type=row.type,
        spec=load(row.spec, Json),
        owner=owner(row),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
