"""Inventories of each provider, by resource class."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import select

from covey.model.providers import InventoryRecord
from covey.storage.changes import Topology
from covey.storage.rows import execute_for
from covey.storage.tables import inventories

COLUMNS = (
    inventories.c.provider_id,
    inventories.c.resource_class,
    inventories.c.total,
    inventories.c.reserved,
    inventories.c.min_unit,
    inventories.c.max_unit,
    inventories.c.step_size,
    inventories.c.allocation_ratio,
    inventories.c.used,
)
_PUT = sa.text("""
    INSERT INTO inventories
        (provider_id, resource_class, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
    VALUES (:provider_id, :resource_class, :total, :reserved, :min_unit, :max_unit, :step_size, :allocation_ratio)
    ON CONFLICT (provider_id, resource_class) DO UPDATE SET total = excluded.total, reserved = excluded.reserved,
        min_unit = excluded.min_unit, max_unit = excluded.max_unit, step_size = excluded.step_size,
        allocation_ratio = excluded.allocation_ratio
""")
_DROP = """
    DELETE FROM inventories WHERE (provider_id, resource_class) IN (SELECT provider_id, resource_class FROM {rows})
"""


class Inventories:
    """Rows in the common lock order: by provider, then by class."""

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def of(self, providers: Collection[int], *, lock: bool = False) -> dict[int, dict[str, InventoryRecord]]:
        """Return the inventories of these providers; `lock` locks their rows for a change."""
        if not providers:
            return by_provider(())
        rows = (
            select(*COLUMNS)
            .where(inventories.c.provider_id.in_(sorted(providers)))
            .order_by(inventories.c.provider_id, inventories.c.resource_class)
        )
        if lock:
            self._topology.begin_change()
        return by_provider(self._connection.execute(rows.with_for_update() if lock else rows))

    def put(self, changes: Mapping[int, Mapping[str, InventoryRecord]]) -> None:
        """Add or change inventories; their usage stays."""
        rows = [
            {
                "provider_id": provider,
                "resource_class": kind,
                "total": has.total,
                "reserved": has.reserved,
                "min_unit": has.min_unit,
                "max_unit": has.max_unit,
                "step_size": has.step_size,
                "allocation_ratio": has.allocation_ratio,
            }
            for provider, new in changes.items()
            for kind, has in new.items()
        ]
        if rows:
            self._topology.begin_change()
            self._connection.execute(_PUT, rows)
        self._topology.changed(providers=changes)

    def drop(self, pairs: Iterable[tuple[int, str]]) -> None:
        """Delete unused inventories."""
        rows = list(pairs)
        if rows:
            self._topology.begin_change()
            execute_for(self._connection, _DROP, {"provider_id": "int", "resource_class": "text"}, rows)
        self._topology.changed(providers=[provider for provider, _ in rows])


def by_provider(rows: Iterable[Any]) -> dict[int, dict[str, InventoryRecord]]:
    """Return rows of COLUMNS as values by provider."""
    found: dict[int, dict[str, InventoryRecord]] = defaultdict(dict)
    for row in rows:
        found[row[0]][row[1]] = record(row)
    return found


def record(row: Any) -> InventoryRecord:  # noqa: ANN401 -- a row has no type of its own
    """Return a row of COLUMNS as a value."""
    return InventoryRecord(*row[2:])
