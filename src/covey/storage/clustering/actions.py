"""Actions and the locks of clusters and nodes."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import delete, insert, select

from covey.model.clustering.actions import FINAL_STATUSES, Action, ActionStatus, Cause, Verb
from covey.storage.clustering.lookups import Collection, Lookup, Row, owner, owner_columns
from covey.storage.rows import change_rows, dump, insert_rows, load
from covey.storage.tables import cluster_actions as actions
from covey.storage.tables import cluster_locks as locks

Json = dict[str, object]
_ROWS = select(actions)
_ACTIONS = Lookup(actions, _ROWS, {"action": "verb"})


class Actions(Collection[Action]):
    """Actions on clusters and nodes."""

    lookup = _ACTIONS

    def lock(self, action: str) -> Action | None:
        """Return the action with that id, locked until the transaction ends."""
        row = self._connection.execute(_ROWS.where(actions.c.id == action).with_for_update()).first()
        return None if row is None else self._read([row])[0]

    def of_parent(self, parent: str) -> list[Action]:
        """Return the children of an action in the order of their creation."""
        statement = _ROWS.where(actions.c.parent_id == parent).order_by(actions.c.created_at, actions.c.id)
        return [_action(row) for row in self._connection.execute(statement)]

    def unfinished(self, target: str) -> list[Action]:
        """Return the unfinished actions on a cluster or node, the oldest first."""
        statement = _ROWS.where(actions.c.target == target, actions.c.status.not_in(FINAL_STATUSES))
        return [
            _action(row) for row in self._connection.execute(statement.order_by(actions.c.created_at, actions.c.id))
        ]

    def add(self, new: Sequence[Action]) -> None:
        rows = [_columns(action) for action in new]
        insert_rows(self._connection, actions, tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])

    def update(self, changed: Sequence[Action]) -> None:
        change_rows(self._connection, actions, [{"id": action.id, **_mutable_columns(action)} for action in changed])

    def _read(self, rows: Sequence[Row]) -> list[Action]:
        """Return actions with their dependencies."""
        ids = [row.id for row in rows if row.status not in FINAL_STATUSES]
        children: dict[str, list[str]] = {}
        if ids:
            unfinished = select(actions.c.parent_id, actions.c.id).where(
                actions.c.parent_id.in_(ids), actions.c.status.not_in(FINAL_STATUSES)
            )
            for row in self._connection.execute(unfinished.order_by(actions.c.id)):
                children.setdefault(row.parent_id, []).append(row.id)
        return [_action(row, tuple(children.get(row.id, ()))) for row in rows]


class Locks:
    """The locks that actions hold. The caller locks the cluster's or node's row before a change."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def holders(self, target: str) -> Mapping[str, str]:
        """Return the locked targets, of a cluster with its nodes or of a node, and the actions that hold them."""
        statement = select(locks.c.target, locks.c.action_id).where(
            sa.or_(locks.c.target == target, locks.c.cluster_id == target)
        )
        return {row.target: row.action_id for row in self._connection.execute(statement)}

    def acquire(self, targets: Sequence[str], cluster: str | None, action: str) -> None:
        """Lock targets: a cluster, or nodes of a cluster, or orphan nodes (`cluster` is None)."""
        rows = [{"target": target, "cluster_id": cluster, "action_id": action} for target in targets]
        if rows:
            self._connection.execute(insert(locks), rows)

    def release(self, action: str) -> None:
        """Release all locks of an action."""
        self._connection.execute(delete(locks).where(locks.c.action_id == action))


def _columns(value: Action) -> Json:
    row: Json = {
        "id": value.id,
        "name": value.name,
        "verb": value.verb,
        "target": value.target,
        "cluster_id": value.cluster_id,
        "parent_id": value.parent_id,
        "roles": dump(sorted(value.roles)),
        "cause": value.cause,
        "timeout": value.timeout,
        "created_at": value.created_at,
    }
    return row | owner_columns(value.owner) | _mutable_columns(value)


def _mutable_columns(value: Action) -> Json:
    return {
        "status": value.status,
        "status_reason": value.status_reason,
        "inputs": dump(value.inputs),
        "outputs": dump(value.outputs),
        "data": dump(value.data),
        "worker": value.worker,
        "to_be_cancelled": value.to_be_cancelled,
        "started_at": value.started_at,
        "ended_at": value.ended_at,
        "updated_at": value.updated_at,
    }


def _action(row: Row, depends_on: tuple[str, ...] = ()) -> Action:
    status = ActionStatus(row.status)
    return Action(
        id=row.id,
        name=row.name,
        verb=Verb(row.verb),
        target=row.target,
        owner=owner(row),
        created_at=row.created_at,
        cluster_id=row.cluster_id,
        roles=frozenset(load(row.roles, list[str])),
        cause=Cause(row.cause),
        parent_id=row.parent_id,
        status=status,
        status_reason=row.status_reason,
        inputs=load(row.inputs, Json),
        outputs=load(row.outputs, Json),
        data=load(row.data, Json),
        timeout=row.timeout,
        started_at=row.started_at,
        ended_at=row.ended_at,
        updated_at=row.updated_at,
        worker=row.worker,
        to_be_cancelled=row.to_be_cancelled,
        depends_on=depends_on,
        depended_by=() if row.parent_id is None or status in FINAL_STATUSES else (row.parent_id,),
    )
