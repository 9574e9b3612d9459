"""The same providers, with the same use, in Covey's database and in that of the real Placement."""

import uuid
from collections.abc import Iterable, Sequence
from typing import LiteralString

import psycopg
from psycopg import sql

from covey.model.providers import InventoryRecord, ProviderRecord

OWNER = "bench"
_NOW = "2026-01-01 00:00:00"
_UNITS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def consumer_of(record: ProviderRecord) -> str:
    """Each provider has one consumer, who holds all that is used of it."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, record.name))


def fill_covey(url: str, records: Sequence[ProviderRecord]) -> None:
    """Writes the providers into an empty database that has Covey's schema."""
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
                (r.id, kind, has.total, has.reserved, has.allocation_ratio, has.used)
                for r, kind, has in _stocks(records)
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
        _copy(
            connection,
            "allocations",
            ("consumer_uuid", "provider_id", "resource_class", "used"),
            ((consumer_of(r), r.id, kind, has.used) for r, kind, has in _stocks(records) if has.used),
        )
    _settle(url)


def fill_placement(url: str, records: Sequence[ProviderRecord]) -> None:
    """Writes them into an empty database of Placement, which knows its standard classes and traits already."""
    with psycopg.connect(url) as connection:
        classes = _ids(connection, "resource_classes", "name", ())
        traits = _ids(connection, "traits", "name", {name for r in records for name in r.traits})
        groups = _ids(connection, "placement_aggregates", "uuid", {name for r in records for name in r.aggregates})
        owners = [_ids(connection, table, "external_id", (OWNER,))[OWNER] for table in ("projects", "users")]
        _copy(
            connection,
            "resource_providers",
            ("id", "uuid", "name", "generation", "root_provider_id"),
            ((r.id, r.uuid, r.name, 0, r.id) for r in records),
        )
        _copy(
            connection,
            "inventories",
            ("resource_provider_id", "resource_class_id", *_UNITS),
            (
                (
                    r.id,
                    classes[kind],
                    has.total,
                    has.reserved,
                    has.min_unit,
                    has.max_unit,
                    has.step_size,
                    has.allocation_ratio,
                )
                for r, kind, has in _stocks(records)
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
            ((consumer_of(r), *owners, 1) for r in records),
        )
        _copy(
            connection,
            "allocations",
            ("resource_provider_id", "consumer_id", "resource_class_id", "used"),
            ((r.id, consumer_of(r), classes[kind], has.used) for r, kind, has in _stocks(records) if has.used),
        )
    _settle(url)


def _stocks(records: Iterable[ProviderRecord]) -> Iterable[tuple[ProviderRecord, str, InventoryRecord]]:
    return ((record, kind, has) for record in records for kind, has in record.inventories.items())


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
    connection: psycopg.Connection, table: LiteralString, name: LiteralString, wanted: Iterable[str]
) -> dict[str, int]:
    """The ids by name, of all that there are and of those that are wanted, which are made if they are missing."""
    names = {"table": sql.Identifier(table), "name": sql.Identifier(name)}
    add = "INSERT INTO {table} ({name}) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING"
    connection.execute(sql.SQL(add).format(**names), (sorted(wanted),))
    return dict(connection.execute(sql.SQL("SELECT {name}, id FROM {table}").format(**names)).fetchall())


def _settle(url: str) -> None:
    """What autovacuum does within a minute, now: else, when it comes decides what is measured."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
