"""Equal providers and allocations in the databases of Covey and of the real Placement."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import LiteralString

import psycopg
from psycopg import sql

from covey.model.providers import InventoryRecord, ProviderRecord

OWNER = "bench"
_NOW = "2026-01-01 00:00:00"
Holding = tuple[str, int, str, int]
"""A consumer, a provider, one of its resource classes, and how much of it."""

_UNITS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def consumer_of(record: ProviderRecord) -> str:
    """Return the one consumer of a provider, which holds its whole usage."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, record.name))


def fill_covey(url: str, records: Sequence[ProviderRecord]) -> None:
    """Write the providers into an empty database with Covey's schema."""
    with psycopg.connect(url) as connection:
        _copy(
            connection,
            "resource_providers",
            ("id", "uuid", "name", "created_at", "updated_at"),
            ((r.id, r.uuid, r.name, _NOW, _NOW) for r in records),
        )
        _copy(
            connection,
            "inventories",
            ("provider_id", "resource_class", "total", "reserved", "allocation_ratio", "used"),
            (
                (r.id, kind, inventory.total, inventory.reserved, inventory.allocation_ratio, inventory.used)
                for r, kind, inventory in _inventories(records)
            ),
        )
        _copy(connection, "provider_traits", ("provider_id", "trait"), _pairs(records, "traits"))
        _copy(connection, "provider_aggregates", ("provider_id", "aggregate_uuid"), _pairs(records, "aggregates"))
        _copy(
            connection,
            "consumers",
            ("uuid", "project_id", "user_id", "generation"),
            ((consumer_of(r), OWNER, OWNER, 1) for r in records),
        )
        _copy(connection, "allocations", ("consumer_uuid", "provider_id", "resource_class", "used"), usage_of(records))
    _vacuum(url)


def usage_of(records: Iterable[ProviderRecord]) -> Iterator[Holding]:
    """Yield the allocations of one consumer for each provider."""
    return (
        (consumer_of(r), r.id, kind, inventory.used) for r, kind, inventory in _inventories(records) if inventory.used
    )


def fill_placement(url: str, records: Sequence[ProviderRecord], held: Iterable[Holding] | None = None) -> None:
    """Write providers and allocations into a database of Placement with only the standard classes and traits."""
    allocations = list(usage_of(records) if held is None else held)
    with psycopg.connect(url) as connection:
        connection.execute("SELECT setval('resource_classes_id_seq', 10000)")  # standard classes have fixed ids below
        classes = _ids(connection, "resource_classes", "name", {kind for r in records for kind in r.inventories})
        traits = _ids(connection, "traits", "name", {name for r in records for name in r.traits})
        groups = _ids(connection, "placement_aggregates", "uuid", {name for r in records for name in r.aggregates})
        owners = [_ids(connection, table, "external_id", (OWNER,))[OWNER] for table in ("projects", "users")]
        _copy(
            connection,
            "resource_providers",
            ("id", "uuid", "name", "generation", "parent_provider_id", "root_provider_id"),
            ((r.id, r.uuid, r.name, r.generation, r.parent_id, r.root_id or r.id) for r in records),
        )
        _copy(
            connection,
            "inventories",
            ("resource_provider_id", "resource_class_id", *_UNITS),
            (
                (
                    r.id,
                    classes[kind],
                    inventory.total,
                    inventory.reserved,
                    inventory.min_unit,
                    inventory.max_unit,
                    inventory.step_size,
                    inventory.allocation_ratio,
                )
                for r, kind, inventory in _inventories(records)
            ),
        )
        _copy(
            connection,
            "resource_provider_traits",
            ("resource_provider_id", "trait_id"),
            ((provider, traits[name]) for provider, name in _pairs(records, "traits")),
        )
        _copy(
            connection,
            "resource_provider_aggregates",
            ("resource_provider_id", "aggregate_id"),
            ((provider, groups[name]) for provider, name in _pairs(records, "aggregates")),
        )
        _copy(
            connection,
            "consumers",
            ("uuid", "project_id", "user_id", "generation"),
            ((consumer, *owners, 1) for consumer in dict.fromkeys(each[0] for each in allocations)),
        )
        _copy(
            connection,
            "allocations",
            ("resource_provider_id", "consumer_id", "resource_class_id", "used"),
            ((provider, consumer, classes[kind], used) for consumer, provider, kind, used in allocations),
        )
    _vacuum(url)


def _inventories(records: Iterable[ProviderRecord]) -> Iterable[tuple[ProviderRecord, str, InventoryRecord]]:
    return ((record, kind, inventory) for record in records for kind, inventory in record.inventories.items())


def _pairs(records: Iterable[ProviderRecord], names: str) -> Iterable[tuple[int, str]]:
    return ((record.id, name) for record in records for name in sorted(getattr(record, names)))


def _copy(
    connection: psycopg.Connection,
    table: LiteralString,
    columns: Sequence[LiteralString],
    rows: Iterable[Sequence[object]],
) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    command = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        for row in rows:
            copy.write_row(row)


def _ids(
    connection: psycopg.Connection, table: LiteralString, name: LiteralString, names_needed: Iterable[str]
) -> dict[str, int]:
    """Return the ids of all rows by name, after inserting the missing ones of `names_needed`."""
    names = {"table": sql.Identifier(table), "name": sql.Identifier(name)}
    # Placement does not compare a time with none, and standard names have a time.
    add = "INSERT INTO {table} ({name}, created_at) SELECT unnest(%s::text[]), localtimestamp ON CONFLICT DO NOTHING"
    connection.execute(sql.SQL(add).format(**names), (sorted(names_needed),))
    return dict(connection.execute(sql.SQL("SELECT {name}, id FROM {table}").format(**names)).fetchall())


def _vacuum(url: str) -> None:
    """Vacuum and analyze now: otherwise, the time of the next autovacuum affects the results."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
