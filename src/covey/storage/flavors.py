"""Flavors, their extra specs, and access to private ones."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.errors import Conflict, NotFound
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.ids import FlavorId, ProjectId
from covey.storage.changes import FleetChanges
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.tables import flavor_access, flavor_extra_specs, flavors

_ROWS = select(
    flavors.c.id.label("row_id"),
    flavors.c.flavorid,
    flavors.c.name,
    flavors.c.vcpus,
    flavors.c.memory_mb,
    flavors.c.disk_gb,
    flavors.c.ephemeral_gb,
    flavors.c.swap_mb,
    flavors.c.rxtx_factor,
    flavors.c.is_public,
    flavors.c.description,
)
_SPECS = select(flavor_extra_specs).order_by(flavor_extra_specs.c.key)
_ACCESS = (
    select(flavor_access.c.project_id)
    .join_from(flavor_access, flavors)
    .where(flavors.c.flavorid == bindparam("flavor"))
    .order_by(flavor_access.c.project_id)
)
_ADD = insert(flavors).returning(flavors.c.id, sort_by_parameter_order=True)
_ROW_ID = select(flavors.c.id).where(flavors.c.flavorid == bindparam("flavor"))
_ADD_SPEC = insert(flavor_extra_specs)
_DROP_SPEC = delete(flavor_extra_specs).where(
    flavor_extra_specs.c.flavor_id == bindparam("of"), flavor_extra_specs.c.key == bindparam("gone")
)
_DROP_ACCESS = delete(flavor_access).where(
    flavor_access.c.flavor_id == bindparam("of"), flavor_access.c.project_id == bindparam("project")
)
_DELETE = delete(flavors).where(flavors.c.flavorid == bindparam("flavor"))


class Flavors:
    """Every flavor."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def find(self, filters: FlavorFilter, sort_key: str = "flavorid", *, descending: bool = False) -> list[Flavor]:
        """Return the filtered flavors, sorted by a column."""
        column = flavors.c[sort_key]
        # The databases sort NULL differently; here it sorts first.
        up, down = (column.nulls_first(), flavors.c.id), (column.desc().nulls_last(), flavors.c.id.desc())
        order = down if descending else up
        return self._load(_condition(filters), *order)

    def by_id(self, flavor: str) -> Flavor | None:
        found = self._load(flavors.c.flavorid == flavor)
        return found[0] if found else None

    def add(self, new: Sequence[Flavor], now: datetime) -> None:
        """Add flavors, all or none. Raises Conflict when an id or a name is taken."""
        if not new:
            return
        self._reject_taken(new)
        with integrity_error_as(Conflict(f"Flavor with name {new[0].name} already exists.")):
            rows = self._connection.execute(_ADD, [_row(flavor) | {"created_at": now} for flavor in new]).all()
        for row, flavor in zip(rows, new, strict=True):
            self._add_specs(row.id, flavor.extra_specs)

    def update(self, flavor: Flavor, now: datetime) -> None:
        """Store a flavor without its extra specs."""
        with integrity_error_as(Conflict(f"Flavor with name {flavor.name} already exists.")):
            self._connection.execute(
                update(flavors).where(flavors.c.flavorid == flavor.id).values(**_row(flavor), updated_at=now)
            )
        self._log_change(flavor.id)

    def delete(self, flavor: FlavorId) -> None:
        self._connection.execute(_DELETE, {"flavor": flavor})
        self._log_change(flavor)

    def set_specs(self, flavor: FlavorId, changes: Mapping[str, str | None]) -> None:
        """Merge changes into the extra specs; None removes a key."""
        row = self._row_id(flavor)
        if changes:
            self._connection.execute(_DROP_SPEC, [{"of": row, "gone": key} for key in changes])
        self._add_specs(row, {k: v for k, v in changes.items() if v is not None})
        self._log_change(flavor)

    def access(self, flavor: FlavorId) -> list[ProjectId]:
        """Return the projects with access to a private flavor."""
        return [ProjectId(p) for p in self._connection.execute(_ACCESS, {"flavor": flavor}).scalars()]

    def add_access(self, flavor: FlavorId, project: ProjectId) -> None:
        """Give a project access. Raises Conflict when it has access already."""
        taken = Conflict(f"Flavor access already exists for flavor {flavor} and project {project} combination.")
        with integrity_error_as(taken):
            values = {"flavor_id": self._row_id(flavor), "project_id": project}
            self._connection.execute(insert(flavor_access), values)
        self._log_change(flavor)

    def remove_access(self, flavor: FlavorId, project: ProjectId) -> None:
        """Remove a project's access. Raises NotFound when it has none."""
        gone = self._connection.execute(_DROP_ACCESS, {"of": self._row_id(flavor), "project": project})
        if gone.rowcount == 0:
            raise NotFound(f"Flavor access not found for {flavor} / {project} combination.")
        self._log_change(flavor)

    def _log_change(self, flavor: FlavorId) -> None:
        FleetChanges(self._connection).add_catalogue(flavors=[flavor])

    def _reject_taken(self, new: Sequence[Flavor]) -> None:
        """Raises Conflict that names the taken id or name, which the database's error does not."""
        for column, what, values in (
            (flavors.c.flavorid, "ID", [flavor.id for flavor in new]),
            (flavors.c.name, "name", [flavor.name for flavor in new]),
        ):
            taken = self._connection.execute(select(column).where(column.in_(values)).limit(1)).scalar()
            if taken is not None:
                raise Conflict(f"Flavor with {what} {taken} already exists.")

    def _row_id(self, flavor: FlavorId) -> int:
        found: int | None = self._connection.execute(_ROW_ID, {"flavor": flavor}).scalar()
        if found is None:
            raise NotFound(f"Flavor {flavor} could not be found.")
        return found

    def _add_specs(self, row_id: int, specs: Mapping[str, str]) -> None:
        if specs:
            rows = [{"flavor_id": row_id, "key": k, "value": v} for k, v in specs.items()]
            self._connection.execute(_ADD_SPEC, rows)

    def _load(self, condition: sa.ColumnElement[bool], *order: sa.ColumnElement[object]) -> list[Flavor]:
        ids = select(flavors.c.id).where(condition)
        specs: dict[int, dict[str, str]] = defaultdict(dict)
        for row in self._connection.execute(_SPECS.where(flavor_extra_specs.c.flavor_id.in_(ids))):
            specs[row.flavor_id][row.key] = row.value
        rows = self._connection.execute(_ROWS.where(condition).order_by(*order))
        return [Flavor(*row[1:], extra_specs=specs[row.row_id]) for row in rows]


def _condition(filters: FlavorFilter) -> sa.ColumnElement[bool]:
    tests = [flavors.c.memory_mb >= filters.min_memory_mb, flavors.c.disk_gb >= filters.min_disk_gb]
    if filters.is_public is not None:
        tests.append(flavors.c.is_public == filters.is_public)
    if filters.visible_to is not None:
        granted = select(flavor_access.c.flavor_id).where(flavor_access.c.project_id == filters.visible_to)
        tests.append(flavors.c.is_public | flavors.c.id.in_(granted))
    return sa.and_(*tests)


def _row(flavor: Flavor) -> dict[str, object]:
    return {
        "flavorid": flavor.id,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "disk_gb": flavor.disk_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "swap_mb": flavor.swap_mb,
        "rxtx_factor": flavor.rxtx_factor,
        "is_public": flavor.is_public,
        "description": flavor.description,
    }
