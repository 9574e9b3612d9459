"""Events."""

from collections.abc import Sequence

from sqlalchemy import insert, select

from covey.model.clustering.events import Event, Level, Phase
from covey.storage.clustering.lookups import Collection, Lookup, Row, owner, owner_columns
from covey.storage.tables import cluster_events as events

_SHOWN = {"oid": "object_id", "oname": "object_name", "otype": "object_type", "status": "phase"}
_EVENTS = Lookup(events, select(events), _SHOWN)


class Events(Collection[Event]):
    """Events outlive the objects that they describe."""

    lookup = _EVENTS

    def add(self, new: Sequence[Event]) -> None:
        if new:
            self._connection.execute(insert(events), [_row(event) for event in new])

    def _read(self, rows: Sequence[Row]) -> list[Event]:
        return [_event(row) for row in rows]


def _row(value: Event) -> dict[str, object]:
    return {
        "id": value.id,
        "timestamp": value.timestamp,
        "object_id": value.object_id,
        "object_name": value.object_name,
        "object_type": value.object_type,
        "cluster_id": value.cluster_id,
        "level": int(value.level),
        "action": value.action,
        "phase": value.phase,
        "reason": value.reason,
        **owner_columns(value.owner),
    }


def _event(row: Row) -> Event:
    return Event(
        id=row.id,
        timestamp=row.timestamp,
        object_id=row.object_id,
        object_name=row.object_name,
        object_type=row.object_type,
        cluster_id=row.cluster_id,
        level=Level(row.level),
        action=row.action,
        phase=Phase(row.phase),
        reason=row.reason,
        owner=owner(row),
    )
