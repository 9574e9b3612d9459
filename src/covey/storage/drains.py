"""Drains of hosts and domains: their hosts and their progress."""

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.drains import Drain, DrainStatus, DrainStep, LeftServer, drain_of_reason
from covey.model.errors import Conflict
from covey.model.ids import HostId, ProjectId, UserId
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.rows import dump, load
from covey.storage.tables import drain_hosts, drains

_BY_ID = select(drains).where(drains.c.id == bindparam("of"))
_NEWEST = select(drains).order_by(drains.c.created_at.desc(), drains.c.id.desc()).limit(bindparam("most"))
_RUNNING = (
    select(drain_hosts.c.drain_id)
    .where(
        drain_hosts.c.host_id.in_(bindparam("hosts", expanding=True)), drain_hosts.c.drain_id != bindparam("excluding")
    )
    .limit(1)
)
_ENDED = select(drains.c.id).where(
    drains.c.id.in_(bindparam("of", expanding=True)),
    drains.c.status != DrainStatus.RUNNING,
    drains.c.scope == bindparam("scope"),
    drains.c.domain == bindparam("domain"),
)
_HOSTS = select(drain_hosts.c.host_id)
_RELEASE = delete(drain_hosts).where(drain_hosts.c.drain_id == bindparam("of"))


class Drains:
    """Past and present drains. At most one running drain has a host."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def by_id(self, drain: str, *, lock: bool = False) -> Drain | None:
        query = _BY_ID.with_for_update() if lock else _BY_ID
        row = self._connection.execute(query, {"of": drain}).first()
        return None if row is None else _drain(row)

    def newest(self, most: int) -> list[Drain]:
        """Return the drains, newest first, up to a number."""
        return [_drain(row) for row in self._connection.execute(_NEWEST, {"most": most})]

    def earlier_reasons(self, of: Drain, reasons: Iterable[str | None]) -> set[str]:
        """Return those of the reasons, of disabled hosts, that name an ended drain of the same domain."""
        ids = {reason: drain for reason in reasons if reason is not None and (drain := drain_of_reason(reason))}
        values = {"of": list(ids.values()), "scope": of.scope, "domain": of.domain}
        ended = set(self._connection.execute(_ENDED, values).scalars()) if ids else set()
        return {reason for reason, drain in ids.items() if drain in ended}

    def add(self, new: Drain, hosts: Sequence[HostId]) -> None:
        """Add a running drain of the hosts. Raises Conflict while another one of a host runs."""
        self.reject_running(hosts)
        self._connection.execute(insert(drains), _row(new))
        with integrity_error_as(Conflict("A drain of one of these hosts is running. Wait for its end, or cancel it.")):
            self._connection.execute(insert(drain_hosts), [{"host_id": host, "drain_id": new.id} for host in hosts])

    def reject_running(self, hosts: Sequence[HostId], excluding: str | None = None) -> None:
        """Raise Conflict while a drain of one of the hosts runs, other than the excluded one."""
        values = {"hosts": list(hosts), "excluding": excluding or ""}
        running = self._connection.execute(_RUNNING, values).scalar() if hosts else None
        if running is not None:
            raise Conflict(f"The drain {running} of one of these hosts is running. Wait for its end, or cancel it.")

    def hosts(self) -> frozenset[HostId]:
        """Return the hosts of running drains."""
        return frozenset(map(HostId, self._connection.execute(_HOSTS).scalars()))

    def update(self, changed: Drain) -> None:
        """Store the progress. A drain that does not run any more releases its hosts for another one."""
        self._connection.execute(update(drains).where(drains.c.id == changed.id).values(_row(changed)))
        if not changed.is_running:
            self._connection.execute(_RELEASE, {"of": changed.id})


def _row(value: Drain) -> Mapping[str, object]:
    return {
        "id": value.id,
        "scope": value.scope,
        "domain": value.domain,
        "hosts": dump(value.hosts),
        "disabled": dump(value.disabled),
        "status": value.status,
        "project_id": value.project_id,
        "user_id": value.user_id,
        "request_id": value.request_id,
        "planned": value.planned,
        "steps": dump(value.steps),
        "left_servers": dump(value.left),
        "reason": value.reason,
        "created_at": value.created_at,
        "updated_at": value.updated_at,
    }


def _drain(row: sa.Row[tuple[object, ...]]) -> Drain:
    return Drain(
        id=row.id,
        scope=row.scope,
        domain=row.domain,
        hosts=load(row.hosts, tuple[str, ...]),
        disabled=load(row.disabled, tuple[str, ...]),
        status=DrainStatus(row.status),
        project_id=ProjectId(row.project_id),
        user_id=UserId(row.user_id),
        request_id=row.request_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
        planned=row.planned,
        steps=load(row.steps, tuple[DrainStep, ...]),
        left=load(row.left_servers, tuple[LeftServer, ...]),
        reason=row.reason,
    )
