"""Aggregates with their metadata and hosts, and the zones that they give to hosts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict
from covey.model.ids import AggregateId, HostId, ScopeId
from covey.storage import provider_aggregates
from covey.storage.changes import Topology
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.provider_aggregates import Pairs
from covey.storage.rows import execute_for, in_chunks
from covey.storage.tables import aggregate_hosts, aggregate_metadata, aggregates, hosts
from covey.storage.tables import instance_group_policy_scopes as scopes

_ROWS = select(
    aggregates.c.id,
    aggregates.c.uuid,
    aggregates.c.name,
    aggregates.c.zone,
    aggregates.c.scope_id,
    aggregates.c.created_at,
    aggregates.c.updated_at,
).order_by(aggregates.c.id)
_METADATA = select(aggregate_metadata).order_by(aggregate_metadata.c.key)
_HOSTS = (
    select(aggregate_hosts.c.aggregate_id, hosts.c.name)
    .join_from(aggregate_hosts, hosts, aggregate_hosts.c.host_id == hosts.c.id)
    .order_by(hosts.c.id)
)
_HOST_IDS = select(aggregate_hosts.c.host_id).where(aggregate_hosts.c.aggregate_id.in_(bindparam("of", expanding=True)))
_ZONES_OF_HOSTS = select(aggregate_hosts.c.host_id, aggregate_hosts.c.zone, aggregate_hosts.c.aggregate_id).where(
    aggregate_hosts.c.zone.is_not(None), aggregate_hosts.c.host_id.in_(bindparam("hosts", expanding=True))
)
_SCOPE_NAMES = select(scopes.c.id, scopes.c.name)
_DOMAINS_OF_HOSTS = (
    select(hosts.c.name, aggregates.c.name)
    .join_from(aggregate_hosts, hosts, aggregate_hosts.c.host_id == hosts.c.id)
    .join(aggregates, aggregate_hosts.c.aggregate_id == aggregates.c.id)
    .where(
        aggregate_hosts.c.scope_id == bindparam("scope"),
        aggregate_hosts.c.host_id.in_(bindparam("hosts", expanding=True)),
        aggregate_hosts.c.aggregate_id != bindparam("excluding"),
    )
    .order_by(hosts.c.id)
)
_LOCK = (
    select(aggregates.c.id)
    .where(aggregates.c.id.in_(bindparam("aggregates", expanding=True)))
    .order_by(aggregates.c.id)
    .with_for_update()
)
# A claim refers to the row of its host. FOR NO KEY UPDATE does not make it wait.
_LOCK_HOSTS = (
    select(hosts.c.id)
    .where(hosts.c.id.in_(bindparam("hosts", expanding=True)))
    .order_by(hosts.c.id)
    .with_for_update(key_share=True)
)

_ADD = insert(aggregates).returning(aggregates.c.id, sort_by_parameter_order=True)
_ADD_METADATA = insert(aggregate_metadata)
_DROP_METADATA = delete(aggregate_metadata).where(
    aggregate_metadata.c.aggregate_id == bindparam("of"), aggregate_metadata.c.key == bindparam("gone")
)
_PAIR = {"aggregate_id": "int", "host_id": "int"}
# Zone and scope come from the aggregate's row, never from a value in memory.
_ADD_MEMBERS = """
    INSERT INTO aggregate_hosts (aggregate_id, host_id, zone, scope_id)
    SELECT a.id, r.host_id, a.zone, a.scope_id FROM {rows} JOIN aggregates a ON a.id = r.aggregate_id
"""
_REMOVE_MEMBERS = """
    DELETE FROM aggregate_hosts WHERE (aggregate_id, host_id) IN (SELECT aggregate_id, host_id FROM {rows})
"""
_TOUCH = (
    update(aggregates).where(aggregates.c.id.in_(bindparam("of", expanding=True))).values(updated_at=bindparam("now"))
)
_SET_HOST_ZONES = """
    UPDATE hosts SET zone = z.zone
    FROM (SELECT r.id, (SELECT max(m.zone) FROM aggregate_hosts m WHERE m.host_id = r.id) AS zone FROM {rows}) AS z
    WHERE hosts.id = z.id AND COALESCE(hosts.zone, '') <> COALESCE(z.zone, '')
"""
# Foreign keys that a change of hosts fulfils before it takes the token: their checks need not wait for the commit.
_CHECKED = "fk_aggregate_hosts_aggregate_id_zone", "fk_aggregate_hosts_aggregate_id_scope_id"


class Aggregates:
    """Every aggregate.

    A change of hosts locks the aggregates' rows first, then the hosts' rows, each by id, and then takes the topology
    token. This one lock order prevents deadlocks, and what is read after the locks still holds at commit.
    """

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def all(self) -> list[Aggregate]:
        return self._load(sa.true())

    def by_id(self, aggregate: int, *, lock: bool = False) -> Aggregate | None:
        """Return an aggregate or None; `lock` locks its row for a change."""
        found = self._load(aggregates.c.id == aggregate, lock=lock)
        return found[0] if found else None

    def by_uuid(self, uuid: str, *, lock: bool = False) -> Aggregate | None:
        found = self._load(aggregates.c.uuid == uuid, lock=lock)
        return found[0] if found else None

    def in_scope(self, scope: ScopeId) -> list[Aggregate]:
        """Return the domains of a scope."""
        return self._load(aggregates.c.scope_id == scope)

    def add(self, new: Sequence[tuple[str, str, str | None, ScopeId | None]], now: datetime) -> list[AggregateId]:
        """Add empty aggregates (uuid, name, zone, scope). Raises Conflict when a name is taken."""
        if not new:
            return []
        rows = [
            {"uuid": uuid, "name": name, "zone": zone, "scope_id": scope, "created_at": now}
            for uuid, name, zone, scope in new
        ]
        with integrity_error_as(Conflict(f"Aggregate {new[0][1]} already exists.")):
            ids = [AggregateId(row.id) for row in self._connection.execute(_ADD, rows)]
        self._topology.changed(aggregates=ids)
        return ids

    def rename(self, aggregate: AggregateId, name: str, now: datetime) -> None:
        """Set the name. Raises Conflict when it is taken."""
        with integrity_error_as(Conflict(f"Aggregate {name} already exists.")):
            self._update([aggregate], name=name, updated_at=now)

    def set_zone(self, aggregate: AggregateId, zone: str | None, now: datetime) -> None:
        """Set or remove the zone of the aggregate and its hosts."""
        self.set_hosts_zones(self.prepare_zone(aggregate, zone, now))

    def prepare_zone(self, aggregate: AggregateId, zone: str | None, now: datetime) -> list[HostId]:
        """Set or remove the zone of the aggregate. Return its hosts: `set_hosts_zones` follows in the transaction."""
        members = self._lock_with_hosts([aggregate])
        self._update([aggregate], zone=zone, updated_at=now)
        condition = aggregate_hosts.c.aggregate_id == aggregate
        self._connection.execute(update(aggregate_hosts).where(condition).values(zone=zone))
        self._topology.changed(aggregates=[aggregate])
        return members

    def set_scope(self, ids: Sequence[AggregateId], scope: ScopeId | None, now: datetime) -> None:
        """Make the aggregates domains of a scope, or of none. Raises Conflict when a host would be in two domains."""
        self._lock_with_hosts(ids)
        with integrity_error_as(Conflict("A host of the aggregate is already in another domain of that scope.")):
            self._update(ids, scope_id=scope, updated_at=now)
            condition = aggregate_hosts.c.aggregate_id.in_(ids)
            self._connection.execute(update(aggregate_hosts).where(condition).values(scope_id=scope))
        self._topology.changed(aggregates=ids)

    def set_metadata(self, aggregate: AggregateId, changes: Mapping[str, str | None], now: datetime) -> None:
        """Merge the changes; None removes a key."""
        if changes:
            self._connection.execute(_DROP_METADATA, [{"of": aggregate, "gone": key} for key in changes])
        kept = [{"aggregate_id": aggregate, "key": k, "value": v} for k, v in changes.items() if v is not None]
        if kept:
            self._connection.execute(_ADD_METADATA, kept)
        self._touch([aggregate], now)
        self._topology.changed(aggregates=[aggregate])

    def add_hosts(self, pairs: Pairs, now: datetime) -> None:
        """Add hosts to aggregates. Raises Conflict for a member, or for a host in another domain of the scope."""
        self.prepare_to_add(pairs, now)
        self.mirror_hosts(added=pairs)

    def remove_hosts(self, pairs: Pairs, now: datetime) -> None:
        self.prepare_to_remove(pairs, now)
        self.mirror_hosts(removed=pairs)

    def prepare_to_add(self, pairs: Pairs, now: datetime) -> None:
        """Do the part of `add_hosts` for which no claim waits. `mirror_hosts` follows in the transaction."""
        if pairs:
            self._lock_pairs(pairs)
            with integrity_error_as(
                Conflict("A host is already in that aggregate, or in another domain of its scope.")
            ):
                execute_for(self._connection, _ADD_MEMBERS, _PAIR, pairs)
            self._touch({aggregate for aggregate, _ in pairs}, now)

    def prepare_to_remove(self, pairs: Pairs, now: datetime) -> None:
        """Do the part of `remove_hosts` for which no claim waits. `mirror_hosts` follows in the transaction."""
        if pairs:
            self._lock_pairs(pairs)
            execute_for(self._connection, _REMOVE_MEMBERS, _PAIR, pairs)
            self._touch({aggregate for aggregate, _ in pairs}, now)

    def mirror_hosts(self, *, added: Pairs = (), removed: Pairs = ()) -> None:
        """Give hosts the zones of their aggregates, and their providers the aggregates. Claims wait."""
        changed = sorted({host for _, host in (*added, *removed)})
        if changed:
            self._topology.begin_change_of(changed)
            provider_aggregates.remove_hosts(self._connection, removed)
            provider_aggregates.add_hosts(self._connection, added)
            self.set_hosts_zones(changed)

    def set_hosts_zones(self, ids: Collection[HostId]) -> None:
        """Give hosts the zones of their aggregates; two different zones violate a key at commit. Claims wait."""
        if ids:
            self._topology.begin_change(ids)
            execute_for(self._connection, _SET_HOST_ZONES, {"id": "int"}, [(host,) for host in sorted(ids)])
            self._topology.changed(providers=ids)

    def check_keys(self) -> None:
        """Check now what PostgreSQL would check at the commit, as far as it holds before hosts get their zones."""
        if self._connection.dialect.name == "postgresql":
            for mode in ("IMMEDIATE", "DEFERRED"):
                self._connection.exec_driver_sql(f"SET CONSTRAINTS {', '.join(_CHECKED)} {mode}")

    def delete(self, ids: Sequence[AggregateId]) -> None:
        """Delete aggregates without hosts."""
        self._topology.begin_change()
        left = provider_aggregates.remove_aggregates(self._connection, ids)
        self._connection.execute(delete(aggregates).where(aggregates.c.id.in_(ids)))
        self._topology.changed(providers=left, aggregates=ids)

    def unsynced_hosts(self, aggregate: AggregateId | None = None) -> list[tuple[AggregateId, HostId]]:
        """Return hosts whose providers are not in the host's aggregate; of one aggregate, or of all."""
        return provider_aggregates.unsynced_hosts(self._connection, aggregate)

    def sync_hosts(self, pairs: Pairs) -> None:
        """Add the hosts' providers to the hosts' aggregates."""
        if pairs:
            self._topology.begin_change_of(host for _, host in pairs)
            provider_aggregates.add_hosts(self._connection, pairs)
            self._topology.changed(providers=[host for _, host in pairs])

    def host_ids(self, *ids: AggregateId) -> list[HostId]:
        """Return the hosts of aggregates."""
        return [HostId(host) for host in self._connection.execute(_HOST_IDS, {"of": ids}).scalars()]

    def lock(self, ids: Iterable[AggregateId]) -> None:
        """Lock aggregates' rows, by id."""
        for batch in in_chunks(sorted(set(ids))):
            self._connection.execute(_LOCK, {"aggregates": batch})

    def lock_hosts(self, ids: Iterable[HostId]) -> None:
        """Lock the hosts' rows, by id."""
        for batch in in_chunks(sorted(set(ids))):
            self._connection.execute(_LOCK_HOSTS, {"hosts": batch})

    def zones_of(self, ids: Sequence[HostId]) -> list[tuple[HostId, str, AggregateId]]:
        """Return the zone that each zoned aggregate gives these hosts."""
        return [
            (HostId(host), zone, AggregateId(aggregate))
            for batch in in_chunks(ids)
            for host, zone, aggregate in self._connection.execute(_ZONES_OF_HOSTS, {"hosts": batch})
        ]

    def domains_of(self, ids: Sequence[HostId], scope: ScopeId, excluding: AggregateId) -> list[tuple[str, str]]:
        """Return these hosts that are in a domain of the scope other than `excluding`, with the name of the domain."""
        return [
            (host, domain)
            for batch in in_chunks(ids)
            for host, domain in self._connection.execute(
                _DOMAINS_OF_HOSTS, {"hosts": batch, "scope": scope, "excluding": excluding}
            )
        ]

    def _lock_with_hosts(self, ids: Sequence[AggregateId]) -> list[HostId]:
        """Lock aggregates, then all their hosts; membership cannot change until the commit."""
        self.lock(ids)
        members = self.host_ids(*ids)
        self.lock_hosts(members)
        return members

    def _lock_pairs(self, pairs: Pairs) -> None:
        self.lock(aggregate for aggregate, _ in pairs)
        self.lock_hosts(host for _, host in pairs)

    def _touch(self, ids: Iterable[AggregateId], now: datetime) -> None:
        for batch in in_chunks(sorted(ids)):
            self._connection.execute(_TOUCH, {"of": batch, "now": now})

    def _update(self, ids: Sequence[AggregateId], **values: object) -> None:
        self._connection.execute(update(aggregates).where(aggregates.c.id.in_(ids)).values(**values))

    def _load(self, condition: sa.ColumnElement[bool], *, lock: bool = False) -> list[Aggregate]:
        query = _ROWS.where(condition)
        rows = self._connection.execute(query.with_for_update() if lock else query).all()
        ids = select(aggregates.c.id).where(condition)
        pairs: dict[int, dict[str, str]] = defaultdict(dict)
        for row in self._connection.execute(_METADATA.where(aggregate_metadata.c.aggregate_id.in_(ids))):
            pairs[row.aggregate_id][row.key] = row.value
        names: dict[int, list[str]] = defaultdict(list)
        for aggregate, name in self._connection.execute(_HOSTS.where(aggregate_hosts.c.aggregate_id.in_(ids))):
            names[aggregate].append(name)
        scope_names = self._scope_names() if any(row.scope_id for row in rows) else {}
        return [
            Aggregate(
                *row,
                metadata=pairs[row.id],
                hosts=tuple(names[row.id]),
                scope_name=scope_names.get(row.scope_id),
            )
            for row in rows
        ]

    def _scope_names(self) -> dict[str, str]:
        return {row.id: row.name for row in self._connection.execute(_SCOPE_NAMES)}
