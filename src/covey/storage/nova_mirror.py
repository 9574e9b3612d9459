"""The mirror of a Nova cloud: compute nodes, instances, the owner of other objects, and the state of the sync."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy import select

from covey.model.errors import ReadOnly
from covey.model.ids import GroupId, ProjectId
from covey.model.nova import NovaHost, NovaKind, NovaServer, SyncState
from covey.storage.rows import dump, execute, insert_rows, load
from covey.storage.tables import group_consumers, nova_hosts, nova_objects, nova_servers, nova_sync

T = TypeVar("T", NovaHost, NovaServer)
HOST_COLUMNS = ("uuid", "name", "service_host", "zone", "disabled", "disabled_reason", "up")
SERVER_COLUMNS = ("id", "name", "project_id", "user_id", "status", "host", "task_state", "locked", "zone", "traits")
"""The columns of the mirror, in the order of the fields of NovaHost and NovaServer."""

_HOSTS = (nova_hosts, HOST_COLUMNS)
_SERVERS = (nova_servers, SERVER_COLUMNS)
_SERVER_ROWS = select(*(nova_servers.c[name] for name in SERVER_COLUMNS))
_STATE = select(nova_sync.c.url, nova_sync.c.read_at, nova_sync.c.error, nova_sync.c.warnings)
_SET_STATE = """
    INSERT INTO nova_sync (id, url, read_at, changed_at, warnings, error) VALUES (1, ?, ?, ?, ?, NULL)
    ON CONFLICT (id) DO UPDATE SET url = excluded.url, read_at = excluded.read_at, error = NULL,
        warnings = excluded.warnings,
        changed_at = COALESCE(excluded.changed_at, nova_sync.changed_at)
"""
_SET_ERROR = """
    INSERT INTO nova_sync (id, url, error) VALUES (1, ?, ?)
    ON CONFLICT (id) DO UPDATE SET url = excluded.url, error = excluded.error
"""
_WHERE = {
    NovaKind.AGGREGATE: "`openstack aggregate` changes it",
    NovaKind.FLAVOR: "`openstack flavor` changes it",
    NovaKind.GROUP: "`openstack server group` changes it",
}
_ADDRESSED = "SELECT name FROM nova_hosts WHERE uuid = ? OR name = ? OR service_host = ? ORDER BY name LIMIT 1"


class NovaMirror:
    """Rows that `covey sync nova` writes."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def hosts(self) -> dict[str, NovaHost]:
        """Return the compute nodes, by uuid."""
        rows = self._connection.execute(select(*(nova_hosts.c[name] for name in _HOSTS[1])))
        return {row[0]: NovaHost(*row) for row in rows}

    def servers(self) -> dict[str, NovaServer]:
        """Return the instances, by id."""
        rows = self._connection.execute(select(*(nova_servers.c[name] for name in _SERVERS[1])))
        return {row[0]: NovaServer(*row) for row in rows}

    def find_servers(self, ids: Collection[str]) -> dict[str, NovaServer]:
        """Return those of the instances that are mirrored, by id."""
        rows = self._connection.execute(_SERVER_ROWS.where(nova_servers.c.id.in_(ids))) if ids else ()
        return {row[0]: NovaServer(*row) for row in rows}

    def page_of_servers(self, project: ProjectId | None, limit: int) -> list[tuple[NovaServer, GroupId | None]]:
        """Return instances of a project, or of all, by name up to a limit, with their groups."""
        query = _SERVER_ROWS.add_columns(group_consumers.c.group_id).outerjoin(
            group_consumers, group_consumers.c.consumer_uuid == nova_servers.c.id
        )
        if project is not None:
            query = query.where(nova_servers.c.project_id == project)
        rows = self._connection.execute(query.order_by(nova_servers.c.name, nova_servers.c.id).limit(limit))
        return [(NovaServer(*row[:-1]), row[-1]) for row in rows]

    def names(self, servers: Collection[str]) -> dict[str, str]:
        """Return the names of those of the instances that are mirrored, by id."""
        rows = execute(self._connection, "SELECT id, name FROM nova_servers WHERE id IN ?", sorted(servers)).fetchall()
        return dict(rows)

    def count_servers(self) -> int:
        """Return the number of instances."""
        found: int = self._connection.execute(select(sa.func.count()).select_from(nova_servers)).scalar_one()
        return found

    def set_hosts(self, new: Mapping[str, NovaHost]) -> int:
        """Make the compute nodes match. Return how many changed."""
        return self._replace(*_HOSTS, new, self.hosts())

    def set_servers(self, new: Mapping[str, NovaServer]) -> int:
        """Make the instances match. Return how many changed."""
        return self._replace(*_SERVERS, new, self.servers())

    def taken_host_names(self, names: Collection[str]) -> set[str]:
        """Return those of the names that hosts of Covey's own have."""
        rows = execute(self._connection, "SELECT name FROM hosts WHERE name IN ?", sorted(names)).fetchall()
        return {name for (name,) in rows}

    def put_host(self, host: NovaHost) -> None:
        """Store a compute node, as Nova reports it."""
        self._put(*_HOSTS, [host])

    def put_server(self, server: NovaServer) -> None:
        """Store an instance, as Nova reports it."""
        self._put(*_SERVERS, [server])

    def change_servers(self, new: Mapping[str, NovaServer], deleted: Collection[str]) -> int:
        """Store some instances, and delete others. Return how many changed."""
        old = self.find_servers([*new, *deleted])
        return self._replace(*_SERVERS, new, old)

    def owned(self, kind: NovaKind) -> set[str]:
        """Return the objects of Covey's own tables that belong to Nova."""
        return set(
            self._connection.execute(select(nova_objects.c.object_id).where(nova_objects.c.kind == kind)).scalars()
        )

    def set_owned(self, kind: NovaKind, ids: Collection[str]) -> None:
        """Record which objects of a kind belong to Nova."""
        old = self.owned(kind)
        insert_rows(
            self._connection,
            nova_objects,
            ("kind", "object_id"),
            [(kind.value, each) for each in sorted(set(ids) - old)],
            " ON CONFLICT DO NOTHING",  # a ranking may add the same group now
        )
        if gone := sorted(old - set(ids)):
            execute(self._connection, "DELETE FROM nova_objects WHERE kind = ? AND object_id IN ?", kind.value, gone)

    def owns(self, kind: NovaKind, key: str) -> bool:
        """Return whether this object belongs to Nova."""
        owned = select(nova_objects.c.object_id).where(nova_objects.c.kind == kind, nova_objects.c.object_id == key)
        return self._connection.execute(owned).first() is not None

    def own(self, kind: NovaKind, key: str) -> None:
        """Record that this object belongs to Nova."""
        row = (kind.value, key)
        insert_rows(self._connection, nova_objects, ("kind", "object_id"), [row], " ON CONFLICT DO NOTHING")

    def disown(self, kind: NovaKind, key: str) -> None:
        """Record that this object does not belong to Nova."""
        execute(self._connection, "DELETE FROM nova_objects WHERE kind = ? AND object_id = ?", kind.value, key)

    def reject(self, kind: NovaKind, key: str, name: str) -> None:
        """Raise ReadOnly if this object belongs to Nova."""
        if self.owns(kind, key):
            raise ReadOnly(self._sentence(f"The {kind} {name}", _WHERE[kind], self._address(kind)))

    def about_host(self, key: str, where: str) -> str | None:
        """Return a sentence for the uuid or the name of a compute node, or the name of its compute service."""
        found = execute(self._connection, _ADDRESSED, key, key, key).fetchone()
        return None if found is None else self._sentence(f"The compute node {found[0]}", where, self.address())

    def address(self) -> str:
        """Return the end of a sentence for operators. The address may be an internal one, which tenants do not see."""
        state = self.state()
        return f" at {state.url}" if state else ""

    def _address(self, kind: NovaKind) -> str:
        return "" if kind is NovaKind.GROUP else self.address()

    def _sentence(self, what: str, where: str, address: str) -> str:
        return f"{what} belongs to Nova: {where}{address}. Covey mirrors it."

    def state(self) -> SyncState | None:
        """Return the state of the sync; None where Nova was never synced."""
        found = self._connection.execute(_STATE).first()
        return None if found is None else SyncState(*found[:-1], warnings=tuple(load(found[-1], list[str])))

    def lock_state(self) -> SyncState | None:
        """Return the state of the sync, and let other readings wait for the end of the transaction."""
        execute(self._connection, "UPDATE nova_sync SET url = url WHERE id = 1")
        return self.state()

    def set_read(self, url: str, began_at: datetime, warnings: Sequence[str] = (), *, changed: bool = True) -> None:
        """Record a complete reading, when it began, what it left out, and whether it found changes."""
        changed_at = str(began_at) if changed else None
        execute(self._connection, _SET_STATE, url, str(began_at), changed_at, dump(warnings))

    def set_error(self, url: str | None, error: str) -> None:
        """Record why the last reading failed. Without an address, it is that of the last record, if there is one."""
        if url is None:
            execute(self._connection, "UPDATE nova_sync SET error = ? WHERE id = 1", error)
        else:
            execute(self._connection, _SET_ERROR, url, error)

    def _replace(self, table: sa.Table, columns: tuple[str, ...], new: Mapping[str, T], old: Mapping[str, T]) -> int:
        changed = [each for key, each in new.items() if old.get(key) != each]
        gone = sorted(old.keys() - new.keys())
        if gone:
            execute(self._connection, f"DELETE FROM {table.name} WHERE {columns[0]} IN ?", gone)  # noqa: S608
        self._put(table, columns, changed)
        return len(changed) + len(gone)

    def _put(self, table: sa.Table, columns: tuple[str, ...], changed: Sequence[T]) -> None:
        sets = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
        then = f" ON CONFLICT ({columns[0]}) DO UPDATE SET {sets}"
        insert_rows(self._connection, table, columns, [astuple(each) for each in changed], then)
