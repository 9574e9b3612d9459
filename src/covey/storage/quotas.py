"""Quotas that operators set for a project, or for all projects, and what projects hold of resource classes."""

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select

from covey.model.ids import ProjectId
from covey.model.quotas import CLASS, class_of_quota
from covey.storage.rows import execute
from covey.storage.tables import quota_classes, quotas

_OF_PROJECT = select(quotas.c.resource, quotas.c.hard_limit).where(quotas.c.project_id == bindparam("project"))
_OF_CLASS = select(quota_classes.c.resource, quota_classes.c.hard_limit).where(
    quota_classes.c.class_name == bindparam("class_")
)
_DROP = delete(quotas).where(quotas.c.project_id == bindparam("project"), quotas.c.resource == bindparam("gone"))
_DROP_ALL = delete(quotas).where(quotas.c.project_id == bindparam("project"))
_DROP_OF_CLASS = delete(quota_classes).where(
    quota_classes.c.class_name == bindparam("class_"), quota_classes.c.resource == bindparam("gone")
)
# A server that moves counts once, by the larger amount: its migration holds the allocations on the source.
_HELD = f"""
    SELECT project_id, '{CLASS}' || resource_class, CAST(SUM(used) AS BIGINT)
    FROM (SELECT project_id, resource_class, MAX(used) AS used FROM ({{}}) AS of_consumers
          GROUP BY project_id, resource_class, server_id) AS of_servers
    GROUP BY project_id, resource_class
"""  # noqa: S608 -- nothing of a caller's is in it, nor in what follows
_SERVER = """
    CASE c.consumer_type WHEN 'MIGRATION'
    THEN COALESCE((SELECT m.server_id FROM migrations m WHERE m.uuid = c.uuid), c.uuid) ELSE c.uuid END AS server_id
"""
# PostgreSQL expects more consumers than a project has; another join would make it scan the table of allocations.
_HELD_POSTGRESQL = _HELD.format(f"""
    SELECT c.project_id, a.resource_class, a.used, {_SERVER}
    FROM consumers c CROSS JOIN LATERAL (
        SELECT resource_class, SUM(used) AS used FROM allocations
        WHERE consumer_uuid = c.uuid AND resource_class IN ? GROUP BY resource_class) AS a
    WHERE c.project_id IN ?
""")  # noqa: S608
_HELD_SQLITE = _HELD.format(f"""
    SELECT c.project_id, a.resource_class, SUM(a.used) AS used, {_SERVER}
    FROM consumers c JOIN allocations a ON a.consumer_uuid = c.uuid AND a.resource_class IN ?
    WHERE c.project_id IN ? GROUP BY c.project_id, a.resource_class, c.uuid
""")  # noqa: S608


class Quotas:
    """Limits that differ from the defaults, and the use of those of resource classes."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def of_project(self, project: ProjectId) -> dict[str, int]:
        return {row.resource: row.hard_limit for row in self._connection.execute(_OF_PROJECT, {"project": project})}

    def of_class(self, name: str) -> dict[str, int]:
        return {row.resource: row.hard_limit for row in self._connection.execute(_OF_CLASS, {"class_": name})}

    def set_for_project(self, project: ProjectId, limits: Mapping[str, int]) -> None:
        if limits:
            self._connection.execute(_DROP, [{"project": project, "gone": r} for r in limits])
            rows = [{"project_id": project, "resource": r, "hard_limit": n} for r, n in limits.items()]
            self._connection.execute(insert(quotas), rows)

    def set_for_class(self, name: str, limits: Mapping[str, int]) -> None:
        if limits:
            self._connection.execute(_DROP_OF_CLASS, [{"class_": name, "gone": r} for r in limits])
            rows = [{"class_name": name, "resource": r, "hard_limit": n} for r, n in limits.items()]
            self._connection.execute(insert(quota_classes), rows)

    def reset_project(self, project: ProjectId) -> None:
        """Delete a project's limits, so that the defaults apply."""
        self._connection.execute(_DROP_ALL, {"project": project})

    def rename_class(self, name: str, new: str) -> None:
        """Let the limits of a renamed resource class follow it. Raises Invalid for a name too long for a quota."""
        for table in (quotas, quota_classes):
            dropped = delete(table).where(table.c.resource == CLASS + name).returning(*table.c)
            found = self._connection.execute(dropped).mappings().all()
            if found:
                class_of_quota(CLASS + new)
                self._connection.execute(insert(table), [{**row, "resource": CLASS + new} for row in found])

    def drop_class(self, name: str) -> None:
        """Delete the limits of a resource class that is gone."""
        for table in (quotas, quota_classes):
            self._connection.execute(delete(table).where(table.c.resource == CLASS + name))

    def held(self, names: Mapping[ProjectId, Collection[str]]) -> dict[ProjectId, dict[str, int]]:
        """Return what projects hold of the resource classes of these quotas."""
        return add_up(find_held(self._connection, names), names)


def find_held(connection: sa.Connection, names: Mapping[ProjectId, Collection[str]]) -> Any:  # noqa: ANN401
    """Return the driver's cursor for `add_up`; a pipeline may be open."""
    classes = sorted({name.removeprefix(CLASS) for each in names.values() for name in each})
    statement = _HELD_POSTGRESQL if connection.dialect.name == "postgresql" else _HELD_SQLITE
    return execute(connection, statement, classes, sorted(names))


def add_up(cursor: Any, names: Mapping[ProjectId, Collection[str]]) -> dict[ProjectId, dict[str, int]]:  # noqa: ANN401
    """Return what the cursor of `find_held` finds, with 0 for the rest."""
    found = {(project, name): used for project, name, used in cursor.fetchall()}
    return {project: {name: found.get((project, name), 0) for name in sorted(each)} for project, each in names.items()}
