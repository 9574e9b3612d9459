"""Hosts, with their inventories and traits."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, func, insert, select, update

from covey.model.errors import Conflict
from covey.model.hosts import Host, NewHost
from covey.model.ids import HostId
from covey.model.inventory import AllocationUnits, Inventory
from covey.storage.changes import Topology
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.rows import driver, dump, execute, execute_for, insert_rows
from covey.storage.tables import hosts, inventories, provider_traits, resource_providers
from covey.storage.traits import Traits

HOSTS = select(  # in the order of the fields of HostSummary
    hosts.c.id,
    resource_providers.c.uuid,
    hosts.c.name,
    hosts.c.zone,
    hosts.c.disabled,
    hosts.c.disabled_reason,
    hosts.c.forced_down,
    hosts.c.updated_at,
    hosts.c.agent_down,
).join_from(hosts, resource_providers, hosts.c.id == resource_providers.c.id)
_INVENTORIES = select(inventories)
_TRAITS = select(provider_traits)
_ZONES = select(hosts.c.zone, func.min(sa.cast(hosts.c.disabled, sa.Integer))).group_by(hosts.c.zone)

_ADD_PROVIDER = insert(resource_providers).returning(resource_providers.c.id, sort_by_parameter_order=True)
_ADD_HOST = insert(hosts)
_ADD_INVENTORY = insert(inventories)
_TRAIT = ("provider_id", "trait")
_COLUMNS = (
    "provider_id", "resource_class", "total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"
)  # fmt: skip
_SET_COLUMNS = f"""
    ON CONFLICT (provider_id, resource_class)
    DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[2:])}
"""
# One statement, in the lock order of claims: a claim on one of the hosts waits for it, up to the commit.
_SET_INVENTORIES_POSTGRESQL = f"""
    INSERT INTO inventories ({", ".join(_COLUMNS)})
    SELECT {", ".join(_COLUMNS)} FROM json_to_recordset(%s::json) AS r(
        provider_id int, resource_class text, total bigint, reserved bigint, min_unit bigint, max_unit bigint,
        step_size bigint, allocation_ratio double precision
    ) ORDER BY 1, 2 {_SET_COLUMNS}
"""  # noqa: S608 -- nothing of a caller's is in it
_SET_INVENTORIES_SQLITE = f"""
    INSERT INTO inventories ({", ".join(_COLUMNS)})
    SELECT {", ".join(f"value ->> '{name}'" for name in _COLUMNS)} FROM json_each(?) WHERE true {_SET_COLUMNS}
"""  # noqa: S608
# Without its expression PostgreSQL may read all providers that have a trait for each row.
_DROP_TRAITS = """
    DELETE FROM provider_traits WHERE (provider_id, trait || '') IN (SELECT provider_id, trait FROM {rows})
"""
_SET_STATE = (
    update(hosts)
    .where(hosts.c.id == bindparam("of"))
    .values(
        disabled=bindparam("new_disabled"),
        disabled_reason=bindparam("new_reason"),
        forced_down=bindparam("new_forced_down"),
        updated_at=bindparam("now"),
    )
)
_DISABLE = (
    update(hosts)
    .where(
        hosts.c.id.in_(bindparam("of", expanding=True)),
        hosts.c.disabled.is_(sa.false()) | hosts.c.disabled_reason.in_(bindparam("instead_of", expanding=True)),
    )
    .values(disabled=True, disabled_reason=bindparam("reason"), updated_at=bindparam("now"))
    .returning(hosts.c.id, hosts.c.name)
)
_ENABLE = (
    update(hosts)
    .where(hosts.c.name.in_(bindparam("names", expanding=True)), hosts.c.disabled_reason == bindparam("reason"))
    .values(disabled=False, disabled_reason=None, updated_at=bindparam("now"))
    .returning(hosts.c.id)
)
_LOCK_AGENTS = "SELECT host_id FROM agents WHERE host_id IN ? ORDER BY host_id FOR UPDATE"
_LOCK = "SELECT id FROM hosts WHERE id IN ? ORDER BY id FOR NO KEY UPDATE"
_BELOW = "SELECT id FROM resource_providers WHERE root_id IN ?"
_DELETE = "DELETE FROM resource_providers WHERE id IN ?"


class Hosts:
    """Every host of the fleet."""

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def find(self, *, after: HostId | None = None, limit: int | None = None, name_has: str | None = None) -> list[Host]:
        """Return hosts by id, after a given one, up to a limit, with a case-insensitive text in the name."""
        page = select(hosts.c.id).order_by(hosts.c.id)
        if after is not None:
            page = page.where(hosts.c.id > after)
        if name_has is not None:
            page = page.where(hosts.c.name.icontains(name_has, autoescape=True))
        return self._load(page.limit(limit) if limit is not None else page)

    def by_id(self, host: int) -> Host | None:
        return self._one(hosts.c.id == host)

    def by_uuid(self, uuid: str) -> Host | None:
        return self._one(hosts.c.id.in_(select(resource_providers.c.id).where(resource_providers.c.uuid == uuid)))

    def by_name(self, name: str) -> Host | None:
        return self._one(hosts.c.name == name)

    def by_names(self, names: Sequence[str]) -> list[Host]:
        """Return the hosts of these names, by id."""
        return self._load(select(hosts.c.id).where(hosts.c.name.in_(names))) if names else []

    def zones(self) -> list[tuple[str | None, bool]]:
        """Return each zone of the hosts (None: the default zone), and whether all its hosts are disabled."""
        return [(zone, bool(all_disabled)) for zone, all_disabled in self._connection.execute(_ZONES)]

    def add(self, new: Sequence[NewHost], now: datetime) -> None:
        """Add hosts, all or none. Raises Conflict when a name is taken."""
        if not new:
            return
        providers = [{"uuid": h.uuid, "name": h.name, "created_at": now, "updated_at": now} for h in new]
        with integrity_error_as(Conflict("A host or resource provider of that name already exists.")):
            ids = [HostId(row.id) for row in self._connection.execute(_ADD_PROVIDER, providers)]
            self._connection.execute(
                _ADD_HOST, [{"id": i, "name": h.name, "updated_at": now} for i, h in zip(ids, new, strict=True)]
            )
        rows = [
            _inventory_row(i, kind, has) for i, h in zip(ids, new, strict=True) for kind, has in h.inventories.items()
        ]
        if rows:
            self._connection.execute(_ADD_INVENTORY, rows)
        self._topology.added(ids)
        self.add_traits((i, trait) for i, h in zip(ids, new, strict=True) for trait in h.traits)

    def set_inventories(self, changes: Iterable[tuple[HostId, Mapping[str, Inventory]]]) -> None:
        """Add or change inventories of hosts; their usage stays, and so do inventories of other classes."""
        changes = list(changes)
        rows = [_inventory_row(host, kind, has) for host, new in changes for kind, has in new.items()]
        if rows:
            self._topology.begin_change_of(host for host, _ in changes)
            postgresql = self._connection.dialect.name == "postgresql"
            with driver(self._connection) as raw:
                raw.execute(_SET_INVENTORIES_POSTGRESQL if postgresql else _SET_INVENTORIES_SQLITE, (dump(rows),))
            self._topology.changed(providers=[host for host, _ in changes])

    def add_traits(self, pairs: Iterable[tuple[HostId, str]]) -> None:
        pairs = list(pairs)
        if pairs:
            # First: it waits for another transaction that adds the same trait.
            Traits(self._connection, self._topology).add_custom({trait for _, trait in pairs})
            self._topology.begin_change_of(host for host, _ in pairs)
            insert_rows(self._connection, provider_traits, _TRAIT, pairs)
            self._topology.changed(providers=[host for host, _ in pairs])

    def remove_traits(self, pairs: Iterable[tuple[HostId, str]]) -> None:
        pairs = list(pairs)
        if pairs:
            self._topology.begin_change_of(host for host, _ in pairs)
            execute_for(self._connection, _DROP_TRAITS, {"provider_id": "int", "trait": "text"}, pairs)
            self._topology.changed(providers=[host for host, _ in pairs])

    def set_state(self, host: Host, now: datetime) -> None:
        """Store whether a host is disabled and whether it is forced down."""
        self._connection.execute(
            _SET_STATE,
            {
                "of": host.id,
                "new_disabled": host.disabled,
                "new_reason": host.disabled_reason,
                "new_forced_down": host.forced_down,
                "now": now,
            },
        )
        self._topology.changed(providers=[host.id])

    def disable(self, ids: Sequence[HostId], reason: str, now: datetime, instead_of: Collection[str] = ()) -> list[str]:
        """Disable those of the hosts that are enabled, or disabled for one of other reasons. Return their names."""
        values = {"of": list(ids), "reason": reason, "now": now, "instead_of": list(instead_of)}
        rows = self._connection.execute(_DISABLE, values).all()
        if rows:
            self._topology.changed(providers=sorted(row.id for row in rows))
        return sorted(row.name for row in rows)

    def enable(self, names: Sequence[str], reason: str, now: datetime) -> None:
        """Enable those of the hosts that are disabled for this reason."""
        if names:
            ids = (
                self._connection.execute(_ENABLE, {"names": list(names), "reason": reason, "now": now}).scalars().all()
            )
            if ids:
                self._topology.changed(providers=sorted(ids))

    def delete(self, ids: Sequence[HostId]) -> None:
        """Delete hosts with their inventories, traits, aggregate memberships and child providers."""
        if ids:
            execute(self._connection, _LOCK, sorted(ids)).fetchall()  # no claim waits for these rows
            self._topology.begin_change()
            execute(self._connection, _LOCK_AGENTS, sorted(ids)).fetchall()
            below = [row[0] for row in execute(self._connection, _BELOW, sorted(ids)).fetchall()]
            for gone in (below, sorted(ids)):
                if gone:
                    execute(self._connection, _DELETE, gone)
            self._topology.changed(providers=[*ids, *below])

    def _one(self, condition: sa.ColumnElement[bool]) -> Host | None:
        found = self._load(select(hosts.c.id).where(condition))
        return found[0] if found else None

    def _load(self, page: sa.Select[tuple[int]]) -> list[Host]:
        has: dict[int, dict[str, Inventory]] = defaultdict(dict)
        for row in self._connection.execute(_INVENTORIES.where(inventories.c.provider_id.in_(page))):
            has[row.provider_id][row.resource_class] = Inventory(
                row.total,
                row.reserved,
                row.allocation_ratio,
                row.used,
                AllocationUnits(row.min_unit, row.max_unit, row.step_size),
            )
        traits: dict[int, set[str]] = defaultdict(set)
        for row in self._connection.execute(_TRAITS.where(provider_traits.c.provider_id.in_(page))):
            traits[row.provider_id].add(row.trait)
        rows = self._connection.execute(HOSTS.where(hosts.c.id.in_(page)).order_by(hosts.c.id))
        return [Host(*row[:-1], has[row.id], frozenset(traits[row.id]), row.agent_down) for row in rows]


def _inventory_row(host: HostId, kind: str, has: Inventory) -> dict[str, object]:
    return {
        "provider_id": host,
        "resource_class": str(kind),
        "total": has.total,
        "reserved": has.reserved,
        **has.units._asdict(),
        "allocation_ratio": has.allocation_ratio,
    }
