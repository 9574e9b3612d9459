"""Deletion of old actions and events."""

from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

from covey.model.clustering.actions import FINAL_STATUSES
from covey.storage.tables import cluster_actions, cluster_events

_BATCH = 1000  # rows of a statement, which then takes a part of a second


class _Trimming:
    """The statements for one table. The oldest rows go first; a row that may not go counts, and stays."""

    def __init__(
        self, table: sa.Table, time: str, removable: Callable[[sa.FromClause], sa.ColumnElement[bool]]
    ) -> None:
        some: sa.FromClause = table.alias()
        project: sa.BindParameter[str] = sa.bindparam("project")
        oldest = sa.select(some.c.id).where(removable(some)).order_by(some.c[time]).limit(_BATCH)
        newest = sa.select(table.c[time]).where(table.c.project_id == project).order_by(table.c[time].desc())
        last = newest.offset(sa.bindparam("most")).limit(1).scalar_subquery()
        beyond = sa.and_(some.c.project_id == project, some.c[time] <= last)
        remove, projects = sa.delete(table), sa.select(table.c.project_id).group_by(table.c.project_id)
        self._remove_old = remove.where(table.c.id.in_(oldest.where(some.c[time] < sa.bindparam("before"))))
        self._remove_beyond = remove.where(table.c.id.in_(oldest.where(beyond)))
        self._full_projects = projects.having(sa.func.count() > sa.bindparam("most"))

    def run(self, connection: sa.Connection, before: datetime, most: int) -> bool:
        """Remove a batch. Return whether it was full."""
        most_removed = connection.execute(self._remove_old, {"before": before}).rowcount
        for project in connection.execute(self._full_projects, {"most": most}).scalars().all():
            removed = connection.execute(self._remove_beyond, {"project": project, "most": most}).rowcount
            most_removed = max(most_removed, removed)
        return most_removed >= _BATCH


def _is_over(action: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether an action and those that it started have ended. Children are deleted with their parent."""
    child = cluster_actions.alias()
    runs = sa.exists().where(child.c.parent_id == action.c.id, child.c.status.not_in(FINAL_STATUSES))
    return sa.and_(action.c.parent_id.is_(None), action.c.status.in_(FINAL_STATUSES), ~runs)


_ACTIONS = _Trimming(cluster_actions, "created_at", _is_over)
_EVENTS = _Trimming(cluster_events, "timestamp", lambda _: sa.true())


class History:
    """What remains of the actions on clusters and nodes."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def trim(self, before: datetime, most_of_project: int) -> bool:
        """Delete actions that have ended and events: those before a time, and a project's oldest beyond the most.

        Return whether there may be more to delete.
        """
        more = [table.run(self._connection, before, most_of_project) for table in (_ACTIONS, _EVENTS)]
        return any(more)
