"""Receivers, and the processes that do the work."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import delete, insert, select, update

from covey.model.clustering.receivers import Engine, Receiver
from covey.storage.clustering.lookups import Kind, Lookup, Row, owned, owner
from covey.storage.rows import dump, load
from covey.storage.tables import cluster_engines as engines
from covey.storage.tables import receivers

Json = dict[str, object]
_RECEIVERS = Lookup(receivers, select(receivers), {"user": "user_id"})


class Receivers(Kind[Receiver]):
    """Addresses that start actions."""

    lookup = _RECEIVERS

    def by_id(self, receiver: str) -> Receiver | None:
        """By its whole id only."""
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
        self._connection.execute(insert(receivers), row | owned(new.owner) | _changing(new))

    def update(self, changed: Receiver) -> None:
        """Its name, action and parameters."""
        self._connection.execute(update(receivers).where(receivers.c.id == changed.id).values(_changing(changed)))

    def delete(self, receiver: str) -> None:
        self._connection.execute(delete(receivers).where(receivers.c.id == receiver))

    def _read(self, rows: Sequence[Row]) -> list[Receiver]:
        return [_receiver(row) for row in rows]


class Engines:
    """Processes that do turns of actions."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def all(self) -> list[Engine]:
        rows = self._connection.execute(select(engines).order_by(engines.c.host, engines.c.id))
        return [Engine(row.id, row.host, row.updated_at) for row in rows]

    def alive(self, engine: Engine) -> None:
        """It is there, at that time."""
        values = {"host": engine.host, "updated_at": engine.updated_at}
        known = self._connection.execute(update(engines).where(engines.c.id == engine.id).values(values))
        if known.rowcount == 0:
            self._connection.execute(insert(engines), {"id": engine.id, **values})

    def forget(self, before: datetime) -> None:
        """Those that were not heard of since then."""
        self._connection.execute(delete(engines).where(engines.c.updated_at < before))


def _changing(value: Receiver) -> Json:
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
