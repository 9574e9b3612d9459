"""Writes aggregates and flavors that belong to Nova, many rows in a statement."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from covey.model.errors import Conflict
from covey.model.flavors import Flavor
from covey.model.ids import AggregateId, ScopeId
from covey.storage.changes import FleetChanges, Topology
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.rows import execute, insert_rows
from covey.storage.tables import aggregate_metadata, aggregates, flavor_access, flavor_extra_specs, flavors

_AGGREGATE_COLUMNS = ("uuid", "name", "zone", "scope_id", "created_at", "updated_at")
_PUT_AGGREGATES = """
    ON CONFLICT (uuid) DO UPDATE
    SET name = excluded.name, zone = excluded.zone, scope_id = excluded.scope_id, updated_at = excluded.updated_at
    RETURNING id, uuid
"""
_FLAVOR_COLUMNS = (
    "flavorid", "name", "vcpus", "memory_mb", "disk_gb", "ephemeral_gb", "swap_mb", "rxtx_factor", "is_public",
    "description", "created_at", "updated_at",
)  # fmt: skip
_PUT_FLAVORS = f"""
    ON CONFLICT (flavorid) DO UPDATE
    SET {", ".join(f"{name} = excluded.{name}" for name in _FLAVOR_COLUMNS[1:] if name != "created_at")}
    RETURNING id, flavorid
"""  # noqa: S608
_ACCESS = """
    SELECT f.flavorid, a.project_id FROM flavor_access a JOIN flavors f ON f.id = a.flavor_id WHERE f.flavorid IN ?
"""
_FLAVOR_IDS = "SELECT flavorid, id FROM flavors WHERE flavorid IN ?"
# Nova may have exchanged the names of two objects, so names are released before they are set.
_RELEASE_AGGREGATE_NAMES = "UPDATE aggregates SET name = uuid WHERE uuid IN ?"
_RELEASE_FLAVOR_NAMES = "UPDATE flavors SET name = 'being renamed: ' || flavorid WHERE flavorid IN ?"


class MirroredAggregate(NamedTuple):
    """An aggregate of Nova, as Covey stores it."""

    uuid: str
    name: str
    zone: str | None
    scope: ScopeId | None
    metadata: dict[str, str]


class NovaCatalogue:
    """Bulk writes for `covey sync nova`."""

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def put_aggregates(self, new: Sequence[MirroredAggregate], now: datetime) -> None:
        """Add aggregates, or replace those of the same uuids. Raises Conflict if another request takes a name."""
        if not new:
            return
        execute(self._connection, _RELEASE_AGGREGATE_NAMES, [each.uuid for each in new])
        rows = [(each.uuid, each.name, each.zone, each.scope, str(now), str(now)) for each in new]
        with integrity_error_as(Conflict("An aggregate with the name of one of Nova's was added by another request.")):
            cursors = insert_rows(self._connection, aggregates, _AGGREGATE_COLUMNS, rows, _PUT_AGGREGATES)
        ids = {uuid: key for cursor in cursors for key, uuid in cursor.fetchall()}
        execute(self._connection, "DELETE FROM aggregate_metadata WHERE aggregate_id IN ?", sorted(ids.values()))
        pairs = [(ids[each.uuid], key, value) for each in new for key, value in each.metadata.items()]
        insert_rows(self._connection, aggregate_metadata, ("aggregate_id", "key", "value"), pairs)
        self._topology.changed(aggregates=sorted(ids.values()))

    def delete_aggregates(self, ids: Collection[AggregateId]) -> None:
        if ids:
            execute(self._connection, "DELETE FROM aggregates WHERE id IN ?", sorted(ids))
            self._topology.changed(aggregates=sorted(ids))

    def put_flavors(self, new: Sequence[Flavor], now: datetime) -> None:
        """Add flavors, or replace those of the same ids. Raises Conflict if another request takes a name."""
        if not new:
            return
        execute(self._connection, _RELEASE_FLAVOR_NAMES, [each.id for each in new])
        rows = [_flavor_row(each, str(now)) for each in new]
        with integrity_error_as(Conflict("A flavor with the name of one of Nova's was added by another request.")):
            cursors = insert_rows(self._connection, flavors, _FLAVOR_COLUMNS, rows, _PUT_FLAVORS)
        ids = {flavor: key for cursor in cursors for key, flavor in cursor.fetchall()}
        execute(self._connection, "DELETE FROM flavor_extra_specs WHERE flavor_id IN ?", sorted(ids.values()))
        pairs = [(ids[each.id], key, value) for each in new for key, value in each.extra_specs.items()]
        insert_rows(self._connection, flavor_extra_specs, ("flavor_id", "key", "value"), pairs)
        self._log_flavors(ids)

    def delete_flavors(self, ids: Collection[str]) -> None:
        if ids:
            execute(self._connection, "DELETE FROM flavors WHERE flavorid IN ?", sorted(ids))
            self._log_flavors(ids)

    def flavor_access(self, ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the projects with access to flavors, without flavors to which none has."""
        found: dict[str, set[str]] = defaultdict(set)
        for flavor, project in execute(self._connection, _ACCESS, sorted(ids)).fetchall():
            found[flavor].add(project)
        return {flavor: frozenset(projects) for flavor, projects in found.items()}

    def set_flavor_access(self, new: Mapping[str, frozenset[str]]) -> None:
        """Replace the projects with access to flavors."""
        if not new:
            return
        ids = dict(execute(self._connection, _FLAVOR_IDS, sorted(new)).fetchall())
        execute(self._connection, "DELETE FROM flavor_access WHERE flavor_id IN ?", sorted(ids.values()))
        pairs = [(ids[flavor], project) for flavor, projects in new.items() for project in sorted(projects)]
        insert_rows(self._connection, flavor_access, ("flavor_id", "project_id"), pairs)
        self._log_flavors(new)

    def _log_flavors(self, ids: Iterable[str]) -> None:
        FleetChanges(self._connection).add_catalogue(flavors=sorted(ids))


def _flavor_row(flavor: Flavor, now: str) -> tuple[object, ...]:
    return (
        flavor.id,
        flavor.name,
        flavor.vcpus,
        flavor.memory_mb,
        flavor.disk_gb,
        flavor.ephemeral_gb,
        flavor.swap_mb,
        flavor.rxtx_factor,
        flavor.is_public,
        flavor.description,
        now,
        now,
    )
