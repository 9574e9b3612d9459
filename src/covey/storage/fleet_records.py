"""The records of the fleet's structure: providers, hosts and aggregates as the scheduler loads them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from covey.model.aggregates import required_traits, reserved_projects
from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.providers import ProviderRecord
from covey.storage.inventories import COLUMNS, by_provider
from covey.storage.rows import execute, pipeline

T = TypeVar("T")
_Rows = list[tuple[Any, ...]]

# Each statement ends where a condition may follow. The database joins the names: most providers share theirs.
_PROVIDERS = "SELECT id, uuid, name, parent_id, root_id, generation FROM resource_providers{} ORDER BY id", "id"
_INVENTORIES = f"SELECT {', '.join(c.name for c in COLUMNS)} FROM inventories{{}}", "provider_id"  # noqa: S608
_TRAITS = "SELECT provider_id, string_agg(trait, ',') FROM provider_traits{} GROUP BY provider_id", "provider_id"
_MEMBER_OF = (
    "SELECT provider_id, string_agg(aggregate_uuid, ',') FROM provider_aggregates{} GROUP BY provider_id",
    "provider_id",
)
_HOSTS = "SELECT id, name, disabled, forced_down OR agent_down, zone FROM hosts{} ORDER BY id", "id"
_AGGREGATES_OF_HOSTS = (
    "SELECT host_id, string_agg(CAST(aggregate_id AS TEXT), ',') FROM aggregate_hosts{} GROUP BY host_id",
    "host_id",
)
_AGGREGATES = "SELECT id, uuid, scope_id FROM aggregates{} ORDER BY id", "id"
_METADATA = "SELECT aggregate_id, key, value FROM aggregate_metadata{}", "aggregate_id"


class Records(NamedTuple):
    """Records, each kind by id."""

    providers: list[ProviderRecord]
    hosts: list[HostRecord]
    aggregates: list[AggregateRecord]


class FleetRecords:
    """Reads records by the statements of the driver, in one round trip: every process runs them for every change."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def all(self) -> Records:
        """Return all records."""
        return self._read(None, None)

    def of(self, providers: Collection[int], aggregates: Collection[int]) -> Records:
        """Return the records of those of the ids that exist. Hosts have the ids of their providers."""
        return self._read(sorted(providers), sorted(aggregates))

    def _read(self, providers: list[int] | None, aggregates: list[int] | None) -> Records:
        with pipeline(self._connection):
            of_providers = [
                self._find(statement, providers)
                for statement in (_PROVIDERS, _INVENTORIES, _TRAITS, _MEMBER_OF, _HOSTS, _AGGREGATES_OF_HOSTS)
            ]
            of_aggregates = [self._find(statement, aggregates) for statement in (_AGGREGATES, _METADATA)]
        rows, inventories, traits, member_of, hosts, in_aggregates = (fetch() for fetch in of_providers)
        found, metadata = (fetch() for fetch in of_aggregates)
        return Records(
            _providers(rows, inventories, traits, member_of), _hosts(hosts, in_aggregates), _aggregates(found, metadata)
        )

    def _find(self, statement: tuple[str, str], ids: list[int] | None) -> Callable[[], _Rows]:
        """Run a statement for these ids, or for all; return what fetches its rows."""
        text, column = statement
        if ids is None:
            return execute(self._connection, text.format("")).fetchall  # type: ignore[no-any-return]
        if not ids:
            return list
        return execute(self._connection, text.format(f" WHERE {column} IN ?"), ids).fetchall  # type: ignore[no-any-return]


def _providers(rows: _Rows, inventories: _Rows, traits: _Rows, member_of: _Rows) -> list[ProviderRecord]:
    has, names, uuids, none = by_provider(inventories), _sets(traits, str), _sets(member_of, str), frozenset[str]()
    return [
        ProviderRecord(
            each, uuid, name, parent, root, generation, has[each], names.get(each, none), uuids.get(each, none)
        )
        for each, uuid, name, parent, root, generation in rows
    ]


def _hosts(rows: _Rows, in_aggregates: _Rows) -> list[HostRecord]:
    ids, none = _sets(in_aggregates, int), frozenset[int]()
    return [
        HostRecord(host, name, not disabled, not down, zone, ids.get(host, none))
        for host, name, disabled, down, zone in rows
    ]


def _aggregates(rows: _Rows, metadata: _Rows) -> list[AggregateRecord]:
    pairs: dict[int, dict[str, str]] = defaultdict(dict)
    for aggregate, key, value in metadata:
        pairs[aggregate][key] = value
    return [
        AggregateRecord(each, uuid, scope, reserved_projects(pairs[each]), required_traits(pairs[each]))
        for each, uuid, scope in rows
    ]


def _sets(rows: Iterable[tuple[int, str]], read: Callable[[str], T]) -> dict[int, frozenset[T]]:
    """Return joined values as sets, by id; equal ones share a set."""
    sets: dict[str, frozenset[T]] = {}
    for _, joined in rows:
        if joined not in sets:
            sets[joined] = frozenset(map(read, joined.split(",")))
    return {key: sets[joined] for key, joined in rows}
