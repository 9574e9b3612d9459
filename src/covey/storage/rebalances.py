"""Rebalances of server groups: plan and progress."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import bindparam, insert, select, update

from covey.model.errors import Conflict
from covey.model.ids import GroupId, ProjectId, UserId
from covey.model.rebalances import FailedMove, Rebalance, RebalanceStatus, Step
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.rows import dump, load
from covey.storage.tables import rebalances

_BY_ID = select(rebalances).where(rebalances.c.id == bindparam("of"))
_LATEST = (
    select(rebalances)
    .where(rebalances.c.group_id == bindparam("of"))
    .order_by(rebalances.c.created_at.desc(), rebalances.c.id.desc())
    .limit(1)
)
_LATEST_WITH_MOVES = _LATEST.where(rebalances.c.plan != dump(()))


class Rebalances:
    """Past and present rebalances. At most one of a group runs."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def by_id(self, rebalance: str, *, lock: bool = False) -> Rebalance | None:
        return self._one(_BY_ID.with_for_update() if lock else _BY_ID, rebalance)

    def latest(self, group: GroupId, *, lock: bool = False) -> Rebalance | None:
        """Return a group's newest rebalance, or None."""
        return self._one(_LATEST.with_for_update() if lock else _LATEST, group)

    def latest_with_moves(self, group: GroupId) -> Rebalance | None:
        """Return a group's newest rebalance that had something to move, or None."""
        return self._one(_LATEST_WITH_MOVES, group)

    def add(self, new: Rebalance) -> None:
        """Add a rebalance. Raises Conflict while another one of the group runs."""
        message = f"A rebalance of the server group {new.group_id} is running. Wait for its end, or cancel it."
        with integrity_error_as(Conflict(message)):
            self._connection.execute(insert(rebalances), _row(new))

    def update(self, changed: Rebalance) -> None:
        self._connection.execute(update(rebalances).where(rebalances.c.id == changed.id).values(_row(changed)))

    def _one(self, query: sa.Select[tuple[object, ...]], of: str) -> Rebalance | None:
        row = self._connection.execute(query, {"of": of}).first()
        return None if row is None else _rebalance(row)


def _row(value: Rebalance) -> Mapping[str, object]:
    return {
        "id": value.id,
        "group_id": value.group_id,
        "project_id": value.project_id,
        "user_id": value.user_id,
        "request_id": value.request_id,
        "status": value.status,
        "plan": dump(value.steps),
        "done": value.done,
        "under_way": value.under_way,
        "plans": value.plans,
        "reason": value.reason,
        "failed_moves": dump(value.failed),
        "max_moves": value.max_moves,
        "created_at": value.created_at,
        "updated_at": value.updated_at,
    }


def _rebalance(row: sa.Row[tuple[object, ...]]) -> Rebalance:
    return Rebalance(
        id=row.id,
        group_id=GroupId(row.group_id),
        project_id=ProjectId(row.project_id),
        user_id=UserId(row.user_id),
        request_id=row.request_id,
        status=RebalanceStatus(row.status),
        steps=tuple(load(row.plan, list[Step])),
        created_at=row.created_at,
        updated_at=row.updated_at,
        done=row.done,
        under_way=row.under_way,
        plans=row.plans,
        reason=row.reason,
        failed=load(row.failed_moves, tuple[FailedMove, ...]),
        max_moves=row.max_moves,
    )
