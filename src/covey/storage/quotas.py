"""Quotas that operators set for a project, or for all projects."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select

from covey.model.ids import ProjectId
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


class Quotas:
    """Limits that differ from the defaults."""

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
