"""Servers: queries and changes of existing rows."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.access import Target
from covey.model.errors import Invalid
from covey.model.flavors import Flavor
from covey.model.ids import HostId, ServerId
from covey.model.servers import (
    POWER_STATES,
    TASK_STATUSES,
    Details,
    Fault,
    PlacementRecord,
    PlacementRequest,
    Power,
    Server,
    ServerFilter,
    ServerName,
    Task,
    VmState,
    states_shown_as,
    tasks_shown_as,
)
from covey.storage.matching import having_all
from covey.storage.rows import dump, execute, fetch, loader
from covey.storage.tables import (
    deleted_servers,
    hosts,
    instance_actions,
    instance_group_members,
    server_tags,
    servers,
)

_POWER_OF = {number: power for power, number in POWER_STATES.items()}
_STATE_OF = {str(state): state for state in VmState}
_TASK_OF = {None: None} | {str(task): task for task in Task}

_details, _record, _fault = loader(Details), loader(PlacementRecord), loader(Fault)
# Many servers have the same flavor, and the same request.
_flavor, _request = lru_cache(maxsize=1024)(loader(Flavor)), lru_cache(maxsize=1024)(loader(PlacementRequest))

_migration_host = hosts.alias("migration_host")
_tags = (  # a tag has no comma
    select(sa.func.aggregate_strings(server_tags.c.tag, ","))
    .where(server_tags.c.server_id == servers.c.id)
    .scalar_subquery()
)
_ROWS = (
    select(  # in the order of Server's fields
        servers.c.id,
        servers.c.name,
        servers.c.project_id,
        servers.c.user_id,
        servers.c.flavor,
        servers.c.vm_state,
        servers.c.task_state,
        servers.c.power_state,
        servers.c.created_at,
        servers.c.updated_at,
        servers.c.launched_at,
        servers.c.host_id,
        hosts.c.name.label("host_name"),
        servers.c.second_host_id,
        _migration_host.c.name.label("migration_host_name"),
        instance_group_members.c.group_id,
        servers.c.request,
        servers.c.details,
        servers.c.decision,
        servers.c.fault,
        _tags.label("tags"),
        hosts.c.zone,
        (hosts.c.forced_down | hosts.c.agent_down).label("host_down"),
    )
    .join_from(servers, hosts, servers.c.host_id == hosts.c.id, isouter=True)
    .join(_migration_host, servers.c.second_host_id == _migration_host.c.id, isouter=True)
    .join(instance_group_members, servers.c.id == instance_group_members.c.server_id, isouter=True)
)
_BY_ID = _ROWS.where(servers.c.id == bindparam("server", required=False))
_BY_IDS = _ROWS.where(servers.c.id.in_(bindparam("ids", expanding=True)))
_AT_HOSTS = _ROWS.where(
    servers.c.host_id.in_(bindparam("hosts", expanding=True))
    | servers.c.second_host_id.in_(bindparam("hosts", expanding=True))
).order_by(servers.c.id)
_NAMES = select(servers.c.id, servers.c.name).join_from(servers, hosts, servers.c.host_id == hosts.c.id, isouter=True)
_NAMES_ON = (
    select(servers.c.host_id, servers.c.name, servers.c.id)
    .where(servers.c.host_id.between(bindparam("least"), bindparam("most")))
    .order_by(servers.c.id)
)
_LOCK = select(servers.c.id).where(servers.c.id == bindparam("server")).with_for_update()
_DELETE = delete(servers).where(servers.c.id == bindparam("server"))
_DELETED = select(deleted_servers).where(deleted_servers.c.id == bindparam("server"))
_DELETED_IDS = select(deleted_servers.c.id).where(deleted_servers.c.id.in_(bindparam("ids", expanding=True)))
_LONG_DELETED = deleted_servers.c.deleted_at < bindparam("before")
_FORGET = delete(deleted_servers).where(_LONG_DELETED)
_FORGET_ACTIONS = delete(instance_actions).where(
    instance_actions.c.server_id.in_(select(deleted_servers.c.id).where(_LONG_DELETED))
)
_ACTIVATE = f"""
    UPDATE servers SET vm_state = '{VmState.ACTIVE}', task_state = NULL, power_state = {POWER_STATES[Power.RUNNING]},
        launched_at = ?, updated_at = ?
    WHERE id IN ? AND id || '@' || host_id IN ? AND vm_state = '{VmState.BUILDING}' AND task_state = '{Task.SPAWNING}'
    RETURNING id
"""  # noqa: S608 -- nothing of a caller's is in it
# NULL sorts first in both databases, so that any order can be paged.
_SORTABLE: dict[str, sa.ColumnElement[object]] = {
    "created_at": servers.c.created_at,
    "updated_at": servers.c.updated_at,
    "launched_at": sa.func.coalesce(servers.c.launched_at, datetime(1, 1, 1)),  # noqa: DTZ001 -- before any server
    "display_name": servers.c.name,
    "uuid": servers.c.id,
    "vm_state": servers.c.vm_state,
    "task_state": sa.func.coalesce(servers.c.task_state, ""),
    "project_id": servers.c.project_id,
    "user_id": servers.c.user_id,
}


class Servers:
    """Every server."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def by_id(self, server: str, *, lock: bool = False) -> Server | None:
        """Return a server or None; `lock` locks its row for a change."""
        if lock:
            self._connection.execute(_LOCK, {"server": server})
        found = fetch(self._connection, _BY_ID, server=server)
        return _server(found[0]) if found else None

    def by_ids(self, ids: Sequence[ServerId]) -> list[Server]:
        return [_server(row) for row in self._connection.execute(_BY_IDS, {"ids": list(ids)})] if ids else []

    def find(self, filters: ServerFilter) -> list[Server]:
        """Return a page of the filtered servers, in the filter's order, then by id. Raises Invalid."""
        return [_server(row) for row in self._page(_ROWS, filters)]

    def find_names(self, filters: ServerFilter) -> list[ServerName]:
        """Return the names and ids of the same page."""
        return [ServerName(*row) for row in self._page(_NAMES, filters)]

    def _page(self, rows: sa.Select[Any], filters: ServerFilter) -> Sequence[Sequence[Any]]:
        key = _SORTABLE[filters.sort_key]
        order = (key.desc(), servers.c.id.desc()) if filters.descending else (key, servers.c.id)
        page = rows.where(_condition(filters)).order_by(*order)
        if filters.after is not None:
            marker = select(key.label("key"), servers.c.id).where(servers.c.id == filters.after).subquery()
            here, there = sa.tuple_(key, servers.c.id), sa.tuple_(marker.c.key, marker.c.id)
            page = page.join(marker, sa.true()).where(here < there if filters.descending else here > there)
        try:
            return self._connection.execute(page.limit(filters.limit)).all()
        except sa.exc.DataError as error:
            if filters.name_matches is None:
                raise
            raise Invalid(f"PostgreSQL does not support the regular expression {filters.name_matches}.") from error

    def names_on(self, hosts: Sequence[HostId]) -> dict[HostId, list[tuple[str, str]]]:
        """Return the names and ids of the servers on each host."""
        found: dict[HostId, list[tuple[str, str]]] = {host: [] for host in hosts}
        if hosts:
            for host, name, server in self._connection.execute(_NAMES_ON, {"least": min(hosts), "most": max(hosts)}):
                if host in found:
                    found[host].append((name, server))
        return found

    def at_hosts(self, hosts: Sequence[HostId]) -> list[Server]:
        """Return the servers that are on one of the hosts, or move to it or away from it."""
        return [_server(row) for row in self._connection.execute(_AT_HOSTS, {"hosts": list(hosts)})] if hosts else []

    def deleted(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids whose servers were deleted and are still recorded."""
        return set(self._connection.execute(_DELETED_IDS, {"ids": list(ids)}).scalars()) if ids else set()

    def update(self, server: Server) -> None:
        """Store the changeable columns of a server."""
        values = {
            "name": server.name,
            "host_id": server.host_id,
            "second_host_id": server.migration_host_id,
            "vm_state": server.vm_state,
            "task_state": server.task,
            "power_state": POWER_STATES[server.power],
            "flavor": dump(server.flavor),
            "flavor_id": server.flavor.id,
            "request": dump(server.request),
            "image_id": server.request.image_id,
            "details": dump(server.details),
            "reservation_id": server.details.reservation_id,
            "locked": server.details.locked,
            "vcpus": server.flavor.vcpus,
            "memory_mb": server.flavor.memory_mb,
            "disk_gb": server.flavor.disk_gb,
            "fault": None if server.fault is None else dump(server.fault),
            "decision": dump(server.placement),
            "updated_at": server.updated_at,
            "launched_at": server.launched_at,
        }
        self._connection.execute(update(servers).where(servers.c.id == server.id).values(**values))

    def activate(self, started: Sequence[Server], now: datetime) -> set[ServerId]:
        """Set servers that still build on the same host to ACTIVE. Return their ids."""
        ids, places = [s.id for s in started], [f"{s.id}@{s.host_id}" for s in started]
        rows = execute(self._connection, _ACTIVATE, now, now, ids, places).fetchall() if started else []
        return {ServerId(server) for (server,) in rows}

    def set_tags(self, server: ServerId, tags: frozenset[str]) -> None:
        self._connection.execute(delete(server_tags).where(server_tags.c.server_id == server))
        if tags:
            self._connection.execute(insert(server_tags), [{"server_id": server, "tag": tag} for tag in sorted(tags)])

    def delete(self, server: Server, now: datetime) -> None:
        """Delete a server; its owner may still list its instance actions."""
        owner = {"id": server.id, "project_id": server.project_id, "user_id": server.user_id, "deleted_at": now}
        self._connection.execute(_DELETE, {"server": server.id})
        self._connection.execute(insert(deleted_servers), owner)

    def owner_of_deleted(self, server: str) -> Target | None:
        """Return the project and the user of a deleted server, or None."""
        row = self._connection.execute(_DELETED, {"server": server}).first()
        return None if row is None else Target(project_id=row.project_id, user_id=row.user_id)

    def forget_deleted(self, before: datetime) -> None:
        """Delete what is left of servers that were deleted before a time: their owners and their instance actions."""
        self._connection.execute(_FORGET_ACTIONS, {"before": before})
        self._connection.execute(_FORGET, {"before": before})


def _server(row: Sequence[Any]) -> Server:
    (
        server,
        name,
        project,
        user,
        flavor,
        vm_state,
        task,
        power,
        created_at,
        updated_at,
        launched_at,
        host,
        host_name,
        migration_host,
        migration_host_name,
        group,
        request,
        details,
        record,
        fault,
        tags,
        zone,
        host_down,
    ) = row
    return Server(
        server,
        name,
        project,
        user,
        _flavor(flavor),
        _STATE_OF[vm_state],
        _TASK_OF[task],
        _POWER_OF[power],
        created_at,
        updated_at,
        launched_at,
        host,
        host_name,
        migration_host,
        migration_host_name,
        group,
        _request(request),
        _details(details),
        _record(record) if record else PlacementRecord(),
        _fault(fault) if fault else None,
        frozenset(tags.split(",")) if tags else frozenset(),
        zone,
        not host_down,
    )


def _condition(filters: ServerFilter) -> sa.ColumnElement[bool]:
    tests: list[sa.ColumnElement[bool]] = [
        column == value
        for column, value in (
            (servers.c.project_id, filters.project_id),
            (servers.c.user_id, filters.user_id),
            (servers.c.vm_state, filters.vm_state),
            (hosts.c.name, filters.host),
            (hosts.c.zone, filters.zone),
            (servers.c.power_state, None if filters.power is None else POWER_STATES[filters.power]),
            (servers.c.flavor_id, filters.flavor),
            (servers.c.image_id, filters.image),
            (servers.c.reservation_id, filters.reservation_id),
            (servers.c.locked, filters.locked),
        )
        if value is not None
    ]
    if filters.ids is not None:
        tests.append(servers.c.id.in_(filters.ids))
    if filters.name_matches is not None:
        tests.append(servers.c.name.regexp_match(filters.name_matches))
    if filters.status is not None:
        tests.append(_has_status(filters.status))
    return sa.and_(sa.true(), *tests, *_changed(filters), *_tagged(filters))


def _changed(filters: ServerFilter) -> list[sa.ColumnElement[bool]]:
    tests: list[sa.ColumnElement[bool]] = []
    if filters.changed_since is not None:
        tests.append(servers.c.updated_at >= filters.changed_since)
    if filters.changed_before is not None:
        tests.append(servers.c.updated_at <= filters.changed_before)
    return tests


def _tagged(filters: ServerFilter) -> list[sa.ColumnElement[bool]]:
    tests: list[sa.ColumnElement[bool]] = []
    if filters.tags:
        tests.append(_has_all(filters.tags))
    if filters.tags_any:
        tests.append(_has_any(filters.tags_any))
    if filters.not_tags:
        tests.append(~_has_all(filters.not_tags))
    if filters.not_tags_any:
        tests.append(~_has_any(filters.not_tags_any))
    return tests


def _has_any(tags: Sequence[str]) -> sa.ColumnElement[bool]:
    return servers.c.id.in_(select(server_tags.c.server_id).where(server_tags.c.tag.in_(tags)))


def _has_all(tags: Sequence[str]) -> sa.ColumnElement[bool]:
    return servers.c.id.in_(having_all(server_tags.c.server_id, server_tags.c.tag, set(tags)))


def _has_status(status: str) -> sa.ColumnElement[bool]:
    """Match `status_of`: the task decides, except for servers that build or are in error."""
    busy = servers.c.vm_state.not_in([VmState.BUILDING, VmState.ERROR]) & servers.c.task_state.in_(list(TASK_STATUSES))
    by_task = servers.c.task_state.in_(tasks_shown_as(status))
    by_state = servers.c.vm_state.in_(states_shown_as(status))
    return (busy & by_task) | (by_state & ~sa.func.coalesce(busy, sa.false()))
