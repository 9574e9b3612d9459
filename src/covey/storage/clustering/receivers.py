"""Receivers and engines."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import delete, insert, select, update

from covey.model.clustering.actions import Engine
from covey.model.clustering.receivers import Receiver
from covey.storage.clustering.lookups import Collection, Lookup, Row, owner, owner_columns
from covey.storage.rows import dump, load
from covey.storage.tables import cluster_engines as engines
from covey.storage.tables import receivers

Json = dict[str, object]
_RECEIVERS = Lookup(receivers, select(receivers), {"user": "user_id"})


class Receivers(Collection[Receiver]):
    """Receivers."""

    lookup = _RECEIVERS

    def by_id(self, receiver: str) -> Receiver | None:
        """Return the receiver with exactly that id."""
        row = self._connection.execute(select(receivers).where(receivers.c.id == receiver)).one_or_none()
        return None if row is None else _receiver(row)

    def add(self, new: Receiver) -> None:
        row: Json = {
            "id": new.id,
            "type": new.type,
            "cluster_id": new.cluster_id,
            "roles": dump(sorted(new.roles)),
            "created_at": new.created_at,
        }
        self._connection.execute(insert(receivers), row | owner_columns(new.owner) | _mutable_columns(new))

    def update(self, changed: Receiver) -> None:
        """Store name, action and parameters."""
        self._connection.execute(
            update(receivers).where(receivers.c.id == changed.id).values(_mutable_columns(changed))
        )

    def delete(self, receiver: str) -> None:
        self._connection.execute(delete(receivers).where(receivers.c.id == receiver))

    def _read(self, rows: Sequence[Row]) -> list[Receiver]:
        return [_receiver(row) for row in rows]


class Engines:
    """Processes that execute actions."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def all(self) -> list[Engine]:
        rows = self._connection.execute(select(engines).order_by(engines.c.host, engines.c.id))
        return [Engine(row.id, row.host, row.updated_at) for row in rows]

    def heartbeat(self, engine: Engine) -> None:
        """Store the time of an engine's heartbeat."""
        values = {"host": engine.host, "updated_at": engine.updated_at}
        updated = self._connection.execute(update(engines).where(engines.c.id == engine.id).values(values))
        if updated.rowcount == 0:
            self._connection.execute(insert(engines), {"id": engine.id, **values})

    def delete_older(self, before: datetime) -> None:
        """Delete the engines without a heartbeat since then."""
        self._connection.execute(delete(engines).where(engines.c.updated_at < before))


def _mutable_columns(value: Receiver) -> Json:
    return {
        "name": value.name,
        "action": value.action,
        "params": dump(value.params),
        "updated_at": value.updated_at,
    }


def _receiver(row: Row) -> Receiver:
    return Receiver(
        id=row.id,
        name=row.name,
        type=row.type,
        owner=owner(row),
        created_at=row.created_at,
        cluster_id=row.cluster_id,
        action=row.action,
        params=load(row.params, Json),
        roles=frozenset(load(row.roles, list[str])),
        updated_at=row.updated_at,
    )
