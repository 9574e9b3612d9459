"""Reads the whole ledger as one value, and writes that of another Placement service in bulk."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

import sqlalchemy as sa

from covey.model.allocations import Consumer
from covey.model.changes import UsageChange
from covey.model.ledger_copy import HeldAllocations, Ledger, LedgerProvider
from covey.model.resources import Resources
from covey.storage.changes import FleetChanges, Topology
from covey.storage.fleet_records import FleetRecords
from covey.storage.rows import Row, change_rows, execute, insert_rows
from covey.storage.tables import (
    allocations,
    consumers,
    custom_resource_classes,
    custom_traits,
    inventories,
    provider_aggregates,
    provider_traits,
    resource_providers,
)

_CONSUMERS = "SELECT uuid, project_id, user_id, consumer_type, generation FROM consumers ORDER BY uuid"
_ALLOCATIONS = "SELECT provider_id, consumer_uuid, resource_class, used FROM allocations"
_TRAITS, _CLASSES = "SELECT name FROM custom_traits", "SELECT name FROM custom_resource_classes"
_IDS = "SELECT uuid, id FROM resource_providers"
_HOSTS = "SELECT h.name FROM hosts h JOIN resource_providers p ON p.id = h.id WHERE p.uuid IN ? ORDER BY h.name"
# The name of a uuid is free: a provider may get the name that another one had.
_DETACH = "UPDATE resource_providers SET parent_id = NULL, root_id = NULL, name = uuid WHERE id IN ?"
_OWNED = (allocations, inventories, provider_traits, provider_aggregates)  # an allocation refers to its inventory

_PROVIDER = ("uuid", "name", "generation", "created_at", "updated_at")
_CONSUMER = ("uuid", "project_id", "user_id", "consumer_type", "generation")
_INVENTORY = (
    "provider_id", "resource_class", "total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio",
    "used",
)  # fmt: skip
_ALLOCATION = ("consumer_uuid", "provider_id", "resource_class", "used")
_OR_REPLACE = """
    ON CONFLICT (uuid) DO UPDATE SET project_id = excluded.project_id, user_id = excluded.user_id,
        consumer_type = excluded.consumer_type, generation = excluded.generation
"""
_CHUNK = 1_000  # providers between two calls of the progress


class LedgerCopies:
    """The ledger as one value: a few statements, for any size."""

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def read(self) -> Ledger:
        """Return all providers and consumers, and the custom names."""
        owners = {row[0]: Consumer(*row) for row in execute(self._connection, _CONSUMERS).fetchall()}
        held = self._held(owners)
        records = FleetRecords(self._connection).all().providers
        uuids = {record.id: record.uuid for record in records}
        providers = {
            record.uuid: LedgerProvider(
                record.uuid,
                record.name,
                record.generation,
                uuids[record.parent_id] if record.parent_id else None,
                uuids[record.root_id or record.id],
                record.inventories,
                record.traits,
                record.aggregates,
                held.get(record.id, {}),
            )
            for record in records
        }
        return Ledger(providers, owners, self._names(_TRAITS), self._names(_CLASSES))

    def hosts(self, uuids: Collection[str]) -> list[str]:
        """Return the names of the hosts among these providers."""
        return [name for (name,) in execute(self._connection, _HOSTS, list(uuids)).fetchall()] if uuids else []

    def write(self, new: Ledger, old: Ledger, now: datetime, progress: Callable[[int], None]) -> None:
        """Make the rows, which are those of `old`, match `new`. A provider without a difference stays as it is."""
        changed = {uuid: each for uuid, each in new.providers.items() if old.providers.get(uuid) != each}
        deleted = old.providers.keys() - new.providers.keys()
        progress(len(new.providers) - len(changed))
        self._topology.begin_change()
        ids: dict[str, int] = dict(execute(self._connection, _IDS).fetchall())
        self._clear([ids[uuid] for uuid in (*changed, *deleted) if uuid in ids])
        self._topology.changed(providers=[ids[uuid] for uuid in deleted])
        self._delete(resource_providers, "id", [ids.pop(uuid) for uuid in deleted])
        self._delete(consumers, "uuid", old.consumers.keys() - new.consumers.keys())
        self._replace_names(custom_traits, new.traits, old.traits, now)
        self._replace_names(custom_resource_classes, new.resource_classes, old.resource_classes, now)
        ids |= self._write_providers(changed, ids, now)
        owners = [each for uuid, each in new.consumers.items() if old.consumers.get(uuid) != each]
        rows = [(each.uuid, each.project_id, each.user_id, each.kind, each.generation) for each in owners]
        insert_rows(self._connection, consumers, _CONSUMER, rows, _OR_REPLACE)
        for part in _chunks(changed.values()):
            self._write_owned(part, ids)
            progress(len(part))
        self._topology.changed(providers=[ids[uuid] for uuid in changed])
        FleetChanges(self._connection).add_uses(_changes_of_usage(changed.values(), old, ids))

    def _held(self, owners: Mapping[str, Consumer]) -> Mapping[int, Mapping[str, HeldAllocations]]:
        amounts: dict[int, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for provider, consumer, kind, used in execute(self._connection, _ALLOCATIONS).fetchall():
            amounts[provider][consumer][kind] = used
        return {
            provider: {
                consumer: HeldAllocations(owners[consumer].generation, has) for consumer, has in by_consumer.items()
            }
            for provider, by_consumer in amounts.items()
        }

    def _names(self, statement: str) -> frozenset[str]:
        return frozenset(name for (name,) in execute(self._connection, statement).fetchall())

    def _clear(self, ids: list[int]) -> None:
        """Delete what belongs to these providers, and take them out of their trees."""
        for table in _OWNED:
            self._delete(table, "provider_id", ids)
        if ids:
            execute(self._connection, _DETACH, ids)

    def _write_providers(
        self, changed: Mapping[str, LedgerProvider], ids: Mapping[str, int], now: datetime
    ) -> dict[str, int]:
        """Write the providers' own rows, then their trees. Return the ids of new ones."""
        time = str(now)
        new = [(p.uuid, p.name, p.generation, time, time) for p in changed.values() if p.uuid not in ids]
        cursors = insert_rows(self._connection, resource_providers, _PROVIDER, new, " RETURNING uuid, id")
        added: dict[str, int] = dict(row for cursor in cursors for row in cursor.fetchall())
        known = {**ids, **added}
        change_rows(
            self._connection,
            resource_providers,
            [
                {"id": ids[p.uuid], "name": p.name, "generation": p.generation, "updated_at": now}
                for p in changed.values()
                if p.uuid in ids
            ],
        )
        change_rows(
            self._connection,
            resource_providers,
            [
                {"id": known[p.uuid], "parent_id": known[p.parent_uuid], "root_id": known[p.root_uuid]}
                for p in changed.values()
                if p.parent_uuid is not None
            ],
        )
        return added

    def _write_owned(self, providers: Sequence[LedgerProvider], ids: Mapping[str, int]) -> None:
        """Write what belongs to these providers."""
        traits = [(ids[p.uuid], trait) for p in providers for trait in sorted(p.traits)]
        aggregates = [(ids[p.uuid], aggregate) for p in providers for aggregate in sorted(p.aggregates)]
        insert_rows(self._connection, provider_traits, ("provider_id", "trait"), traits)
        insert_rows(self._connection, provider_aggregates, ("provider_id", "aggregate_uuid"), aggregates)
        insert_rows(self._connection, inventories, _INVENTORY, list(_inventories(providers, ids)))
        insert_rows(self._connection, allocations, _ALLOCATION, list(_allocations(providers, ids)))

    def _replace_names(self, table: sa.Table, new: frozenset[str], old: frozenset[str], now: datetime) -> None:
        self._delete(table, "name", old - new)
        rows = [(name, str(now)) for name in sorted(new - old)]
        insert_rows(self._connection, table, ("name", "created_at"), rows, " ON CONFLICT DO NOTHING")

    def _delete(self, table: sa.Table, column: str, values: Collection[int | str]) -> None:
        if values:
            execute(self._connection, f"DELETE FROM {table.name} WHERE {column} IN ?", list(values))  # noqa: S608


def _inventories(providers: Iterable[LedgerProvider], ids: Mapping[str, int]) -> Iterator[Row]:
    for provider in providers:
        for kind, i in provider.inventories.items():
            units = (i.min_unit, i.max_unit, i.step_size)
            yield ids[provider.uuid], kind, i.total, i.reserved, *units, i.allocation_ratio, i.used


def _allocations(providers: Iterable[LedgerProvider], ids: Mapping[str, int]) -> Iterator[Row]:
    for provider in providers:
        for consumer, held in provider.allocations.items():
            for kind, amount in held.resources.items():
                yield consumer, ids[provider.uuid], kind, amount


def _changes_of_usage(changed: Iterable[LedgerProvider], old: Ledger, ids: Mapping[str, int]) -> Iterator[UsageChange]:
    """Yield how the usage of known inventories changes. Processes take that of new ones from the rows."""
    for new in changed:
        before = old.providers[new.uuid].inventories if new.uuid in old.providers else {}
        amounts = {kind: has.used - before[kind].used for kind, has in new.inventories.items() if kind in before}
        if any(amounts.values()):
            yield UsageChange(ids[new.uuid], Resources(amounts))


def _chunks(providers: Iterable[LedgerProvider]) -> Iterator[list[LedgerProvider]]:
    rest = iter(providers)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk
