"""Refusals of instances that another service schedules: the latest one of each instance."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from covey.model.ids import GroupId, ProjectId
from covey.model.instance_refusals import CountedReason, InstanceRefusal, RefusedStep
from covey.storage.rows import dump, execute, load
from covey.storage.tables import allocations, instance_groups
from covey.storage.tables import instance_refusals as refusals

_ROWS = select(
    refusals.c.instance_uuid, refusals.c.group_id, refusals.c.step, refusals.c.refused_at, refusals.c.reasons
)
_BY_ID = _ROWS.where(refusals.c.instance_uuid == bindparam("of"))
_UNPLACED = (
    _ROWS.join_from(refusals, instance_groups, refusals.c.group_id == instance_groups.c.id)
    .where(~sa.exists().where(allocations.c.consumer_uuid == refusals.c.instance_uuid))
    .order_by(refusals.c.refused_at.desc(), refusals.c.instance_uuid)
    .limit(bindparam("most"))
)
# The group may be gone: then there is no member to explain.
_PUT = """
    INSERT INTO instance_refusals (instance_uuid, group_id, step, refused_at, reasons)
    SELECT ?, id, ?, ?, ? FROM instance_groups WHERE id = ?
    ON CONFLICT (instance_uuid) DO UPDATE SET
        group_id = excluded.group_id, step = excluded.step, refused_at = excluded.refused_at, reasons = excluded.reasons
"""
_TRIM = """
    DELETE FROM instance_refusals WHERE refused_at < ? OR instance_uuid IN (
        SELECT instance_uuid FROM instance_refusals ORDER BY refused_at DESC LIMIT 1000000000 OFFSET ?)
"""
_DELETE_ABSENT = """
    DELETE FROM instance_refusals WHERE refused_at < ?
        AND NOT EXISTS (SELECT 1 FROM nova_servers s WHERE s.id = instance_refusals.instance_uuid)
"""


class InstanceRefusals:
    """At most one row for each instance. They end with their group."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def by_id(self, instance: str) -> InstanceRefusal | None:
        row = self._connection.execute(_BY_ID, {"of": instance}).first()
        return None if row is None else _refusal(row)

    def unplaced(self, project: ProjectId | None, most: int) -> list[InstanceRefusal]:
        """Return the refusals of instances that hold no allocations, of a project's groups or of all, newest first."""
        query = _UNPLACED if project is None else _UNPLACED.where(instance_groups.c.project_id == project)
        return [_refusal(row) for row in self._connection.execute(query, {"most": most})]

    def put(self, new: InstanceRefusal) -> None:
        """Store the latest refusal of an instance, unless its group is gone."""
        values = (new.instance, new.step.value, str(new.at), dump(new.reasons), new.group)
        execute(self._connection, _PUT, *values)

    def trim(self, before: datetime, most: int) -> None:
        """Delete refusals of before a moment, and the oldest ones beyond a number."""
        execute(self._connection, _TRIM, str(before), most)

    def delete_absent(self, before: datetime) -> None:
        """Delete refusals of before a moment whose instances the mirror of Nova does not have."""
        execute(self._connection, _DELETE_ABSENT, str(before))


def _refusal(row: Any) -> InstanceRefusal:  # noqa: ANN401 -- a row of the query
    return InstanceRefusal(
        row.instance_uuid,
        GroupId(row.group_id),
        RefusedStep(row.step),
        row.refused_at,
        load(row.reasons, tuple[CountedReason, ...]),
    )
