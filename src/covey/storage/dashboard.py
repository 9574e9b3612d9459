"""Queries of the dashboard across all tables: many rows, few columns."""

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func, select

from covey.model.event_feed import Backlog, ChangeMarker, Subject
from covey.model.ids import AggregateId, GroupId, HostId, ProjectId, ServerId
from covey.storage.rows import execute
from covey.storage.tables import (
    aggregates,
    cluster_actions,
    drains,
    fleet_changes,
    instance_actions,
    instance_groups,
    instance_refusals,
    nova_sync,
    outbox,
    quota_usages,
    rebalances,
    servers,
    work,
)

_NEWEST = 200  # rows of tables that only grow
_JOBS = 500
_DRAINS = 20


def _joined(*columns: Any) -> Any:  # noqa: ANN401 -- columns of any kind, as one text with dashes between
    texts: list[Any] = [sa.cast(column, sa.String) for column in columns]
    return reduce(lambda one, other: one + "-" + other, texts)


def _markers(subject: Subject, project: Any, resource_id: Any, mark: Any, *, lasting: bool = False) -> Any:  # noqa: ANN401
    return select(
        sa.literal(subject.value).label("subject"),
        sa.cast(project, sa.String).label("project_id"),
        sa.cast(resource_id, sa.String).label("resource_id"),
        sa.cast(mark, sa.String).label("mark"),
        sa.literal(int(lasting)).label("lasting"),
    )


def _newest(query: Any, by: sa.Column[Any], most: int = _NEWEST) -> Any:  # noqa: ANN401
    """Wrap in a subquery: SQLite allows ORDER BY and LIMIT inside a union only there."""
    return select(query.order_by(by.desc()).limit(most).subquery())


# An action on a server adds a row of instance_actions; a worker that finishes deletes a row of work.
_did, _use, _groups = instance_actions.c, quota_usages.c, instance_groups.c
_job, _repair, _action = work.c, rebalances.c, cluster_actions.c
_drain, _refused = drains.c, instance_refusals.c
_JOB_MARK = "job"
_PRIME = 2**31 - 1  # versions are random: their sum would not fit, and the sum of remainders changes as well
_MARKERS = sa.union_all(
    _newest(_markers(Subject.FLEET, sa.null(), fleet_changes.c.host_id, fleet_changes.c.seq), fleet_changes.c.seq),
    _markers(
        Subject.FLEET,
        sa.null(),
        sa.null(),
        func.coalesce(_joined(func.count(), func.max(aggregates.c.updated_at)), "none"),
        lasting=True,
    ).select_from(aggregates),  # their names, which the change log does not cover
    _markers(
        Subject.FLEET, sa.null(), sa.null(), func.coalesce(_joined(nova_sync.c.changed_at), "none"), lasting=True
    ).select_from(nova_sync),
    _newest(
        _markers(
            Subject.FLEET, sa.null(), sa.null(), _joined(_drain.id, _drain.status, _drain.updated_at), lasting=True
        ),
        _drain.created_at,
        _DRAINS,
    ),
    _newest(
        _markers(
            Subject.SERVERS,
            _groups.project_id,
            _refused.instance_uuid,
            _joined(sa.literal("refused"), _refused.instance_uuid, _refused.refused_at),
        ).join_from(instance_refusals, instance_groups, _refused.group_id == _groups.id),
        _refused.refused_at,
    ),
    _newest(_markers(Subject.SERVERS, _did.project_id, _did.server_id, _joined(sa.literal("did"), _did.id)), _did.id),
    _newest(
        _markers(
            Subject.SERVERS,
            servers.c.project_id,
            _job.server_id,
            _joined(sa.literal(_JOB_MARK), _job.id, _job.attempts),
            lasting=True,
        ).join_from(work, servers, _job.server_id == servers.c.id),
        _job.id,
        _JOBS,
    ),
    _markers(Subject.SERVERS, _use.project_id, sa.null(), _joined(_use.instances, _use.cores, _use.ram), lasting=True),
    _markers(
        Subject.GROUPS,
        _groups.project_id,
        sa.null(),
        _joined(func.count(), func.sum(_groups.version % _PRIME), func.max(_groups.id)),
        lasting=True,
    ).group_by(_groups.project_id),
    _markers(
        Subject.GROUPS,
        _repair.project_id,
        _repair.group_id,
        _joined(_job.id, _job.attempts, _repair.done),
        lasting=True,
    ).join_from(work, rebalances, _job.server_id == _repair.id),
    _newest(
        _markers(
            Subject.ACTIONS,
            _action.project_id,
            func.coalesce(_action.cluster_id, _action.target),
            _joined(_action.id, _action.status),
        ),
        _action.created_at,
    ),
    _markers(
        Subject.ACTIONS,
        sa.null(),
        sa.null(),
        _joined(
            func.coalesce(sa.cast(nova_sync.c.read_at, sa.String), ""),
            func.coalesce(nova_sync.c.error, ""),
            nova_sync.c.warnings,
        ),
        lasting=True,
    ).select_from(nova_sync),
)

_PLACED = "SELECT s.host_id, s.id FROM servers s WHERE s.host_id IS NOT NULL{where}"
_GROUPED = "SELECT m.server_id, m.group_id FROM instance_group_members m{where}"
_NAMES = "SELECT id, name FROM instance_groups{where}"
_AGGREGATES = "SELECT id, name FROM aggregates"
_BACKLOG = select(
    select(func.count()).select_from(work).scalar_subquery(),
    select(func.count()).select_from(work).where(work.c.due_at <= bindparam("now")).scalar_subquery(),
    select(func.count()).select_from(work).where(work.c.parked).scalar_subquery(),
    select(func.min(work.c.due_at)).where(~work.c.parked).scalar_subquery(),
    select(func.count()).select_from(outbox).scalar_subquery(),
)


class DashboardRows:
    """Read-only queries."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def markers(self) -> list[ChangeMarker]:
        """Return the markers of recent changes, in one statement."""
        rows = self._connection.execute(_MARKERS).all()
        jobs = {row.mark for row in rows if row.mark.startswith(_JOB_MARK)}
        expired = jobs if len(jobs) == _JOBS else set()  # in a full list, a missing job may just be older
        return [
            ChangeMarker(
                Subject(subject),
                None if project is None else ProjectId(project),
                resource_id,
                mark,
                bool(lasting) and mark not in expired,
            )
            for subject, project, resource_id, mark, lasting in rows
        ]

    def placed(self, project: ProjectId | None) -> Sequence[tuple[HostId, ServerId, GroupId | None]]:
        """Return the host and the group of every placed server."""
        groups = dict(self._of(project, _GROUPED, " JOIN servers s ON s.id = m.server_id WHERE s.project_id = ?"))
        rows = self._of(project, _PLACED, " AND s.project_id = ?")  # a join of both is slower
        return [(host, server, groups.get(server)) for host, server in rows]

    def group_names(self, project: ProjectId | None) -> Sequence[tuple[GroupId, str]]:
        """Return the id and name of every group."""
        found: list[tuple[GroupId, str]] = self._of(project, _NAMES, " WHERE project_id = ?")
        return found

    def aggregate_names(self) -> Sequence[tuple[AggregateId, str]]:
        """Return the id and name of every aggregate."""
        found: list[tuple[AggregateId, str]] = execute(self._connection, _AGGREGATES).fetchall()
        return found

    def backlog(self, now: datetime) -> Backlog:
        """Return the number of waiting jobs and notifications."""
        return Backlog(*self._connection.execute(_BACKLOG, {"now": now}).one())

    def _of(self, project: ProjectId | None, statement: str, where: str) -> Any:  # noqa: ANN401 -- the driver's rows
        query = statement.format(where="" if project is None else where)
        return execute(self._connection, query, *([] if project is None else [project])).fetchall()
