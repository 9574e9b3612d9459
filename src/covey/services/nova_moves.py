"""Moves of Nova's instances, by Nova's own migrations: Nova's scheduler checks and claims each destination.

Nova's API is the only source of their progress. So any worker may continue, and asks Nova before it begins a move.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import structlog

from covey.model.access import Actor
from covey.model.errors import (
    Busy,
    Conflict,
    Forbidden,
    Invalid,
    MissingExtra,
    NotFound,
    ServiceFault,
    Unauthorized,
    Unavailable,
)
from covey.model.ids import HostId
from covey.model.nova import NovaHost, NovaServer
from covey.model.server_moves import MOVABLE_COLD, MOVABLE_LIVE, ServerPosition
from covey.ports import Clock
from covey.remote_api import RemoteApi
from covey.services.nova_sync.nova import expected_answers, mirrored_server, negotiate, version_of_servers
from covey.storage.store import Store

log = structlog.get_logger()

_Document = Mapping[str, Any]
_MOVE_TASKS = {"migrating", "resize_prep", "resize_migrating", "resize_migrated", "resize_finish"}
_ENDED = {"completed", "confirmed", "reverted", "error", "failed", "cancelled", "done"}
_FAILED = {"error", "failed", "cancelled"}
_WAITS, _ACTIVE = "VERIFY_RESIZE", "ACTIVE"
_NO_HOSTS: frozenset[HostId] = frozenset()
_NO_CREDENTIALS = "Covey has no credentials for Nova: set auth_type and the options of its plugin in [nova]."


@dataclass
class NovaApi:
    """Nova's API, connected when it is first used. Every method raises Unavailable if it can't be used now."""

    connect: Callable[[], RemoteApi | None]

    @cached_property
    def _connected(self) -> tuple[RemoteApi, str]:
        """The API, and the microversion at which servers are read."""
        try:
            api = self.connect()
            if api is None:
                raise Unavailable(_NO_CREDENTIALS)
            return api, version_of_servers(negotiate(api))
        except (Invalid, MissingExtra) as error:
            raise Unavailable(error.message) from error

    def server(self, server: str) -> _Document:
        """Return an instance. Raises NotFound."""
        with _asking():
            api, version = self._connected
            with expected_answers(api):
                found: _Document = api.get(f"/servers/{server}", version=version)["server"]
        return found

    def get(self, path: str, key: str, **query: str) -> Any:  # noqa: ANN401 -- a JSON document
        """Return what the document at a path has under a key."""
        with _asking():
            api = self._connected[0]
            with expected_answers(api):
                return api.get(path, **query)[key]

    def send(self, method: str, path: str, body: object = None) -> None:
        """Send a request that changes something, once. Raises Conflict, Invalid, NotFound."""
        with _asking():
            self._connected[0].send(method, path, body)


@contextmanager
def _asking() -> Iterator[None]:
    """Raise Unavailable for credentials that Nova does not accept: an operator can correct them while a drain waits."""
    try:
        yield
    except (Unauthorized, Forbidden) as error:
        raise Unavailable(error.message) from error


@dataclass(frozen=True, slots=True)
class NovaMover:
    """Moves instances, and keeps the mirror of those that it looks at up to date."""

    store: Store
    api: NovaApi
    clock: Clock
    timeout: timedelta = field(default=timedelta(hours=1))
    cold_migrate_running: bool = False  # where Nova refuses a live migration

    def positions(self, servers: Sequence[str]) -> Mapping[str, ServerPosition]:
        """Return where instances are now, by id, without those that do not exist. Raises Unavailable.

        One for which Nova fails is unknown, and hides no other.
        """
        found = {server: self._find(server) for server in servers}
        return {key: position for key, position in found.items() if position is not None}

    def _find(self, server: str) -> ServerPosition | None:
        try:
            document = self._look_at(server)
            return None if document is None else self._position(document)
        except ServiceFault as error:
            log.warning("nova.position_unknown", server=server, reason=error.message)
            return ServerPosition(None, unknown=True)

    def begin(
        self,
        actor: Actor,  # noqa: ARG002 -- Nova sees Covey's own user
        request_id: str,  # noqa: ARG002
        server: str,
        destination: str,
        leaving: frozenset[HostId] = _NO_HOSTS,  # noqa: ARG002 -- the ledger knows which hosts are drained
        *,
        cold: bool = False,
    ) -> None:
        """Begin a migration to a host that Nova's scheduler checks. Raises Busy, Conflict, Invalid, NotFound.

        Raises Unavailable after no answer: the migration may have begun.
        """
        found = self._look_at(server)
        if found is None:
            raise NotFound(f"Instance {server} could not be found.")
        seen = mirrored_server(found)
        if seen.task_state is not None:
            raise Busy(f"Instance {server} is busy: its task is {seen.task_state}.")
        if seen.locked:  # Nova's own check spares administrators
            raise Conflict(f"Instance {server} is locked.")
        if seen.status in MOVABLE_COLD or (cold and seen.status == _ACTIVE):
            self._migrate_cold(server, destination)
        elif seen.status in MOVABLE_LIVE:
            may_be_cold = self.cold_migrate_running and seen.status == _ACTIVE
            self._migrate_live(server, destination, may_be_cold=may_be_cold)
        else:
            raise Conflict(f"The status of instance {server} is {seen.status}.")

    def _migrate_live(self, server: str, destination: str, *, may_be_cold: bool) -> None:
        action = {"os-migrateLive": {"host": destination, "block_migration": "auto"}}
        try:
            self.api.send("POST", f"/servers/{server}/action", action)
        except (Conflict, Invalid) as error:
            if not may_be_cold:
                raise
            log.info("nova.live_migration_refused", server=server, reason=error.message)
            self._migrate_cold(server, destination)

    def _migrate_cold(self, server: str, destination: str) -> None:
        self.api.send("POST", f"/servers/{server}/action", {"migrate": {"host": destination}})

    def confirm(self, actor: Actor, request_id: str, server: str) -> None:  # noqa: ARG002
        """Begin to confirm a cold migration. Raises Conflict, Invalid, NotFound, Unavailable."""
        self.api.send("POST", f"/servers/{server}/action", {"confirmResize": None})

    def abort(self, server: str) -> bool:
        """Abort a live migration. Return whether Nova does so. Raises Unavailable."""
        migration = self._latest_migration(server)
        if migration is None or migration["migration_type"] != "live-migration" or migration["status"] in _ENDED:
            return False
        try:
            self.api.send("DELETE", f"/servers/{server}/migrations/{migration['id']}")
        except (Conflict, Invalid, NotFound):
            return False
        return True

    def _look_at(self, server: str) -> _Document | None:
        """Return an instance as Nova has it now, and mirror it; None if it does not exist."""
        try:
            document = self.api.server(server)
        except NotFound:
            return None
        with self.store.read() as tx:
            known = tx.nova_instances.server(server)
        seen = mirrored_server(document).updating(known)
        if known is not None and known != seen:
            with self.store.write() as tx:
                tx.nova_mirror.put_server(seen)
        return document

    def _position(self, document: _Document) -> ServerPosition:
        server = mirrored_server(document)
        if server.is_out_of_reach:
            return ServerPosition(None, unknown=True)
        waits = server.status == _WAITS
        migration = self._latest_migration(server.id)
        if not waits and server.task_state not in _MOVE_TASKS:
            failure = self._failure(server, migration) if migration is not None else None
            cold_next = migration is not None and self._may_follow_cold(server, migration)
            refused = migration is not None and migration["status"] == "error"
            return ServerPosition(
                server.host, _is_movable(server), failure=failure, refused=refused, cold_next=cold_next
            )
        if migration is None or migration["status"] in _ENDED:  # Nova has not recorded it yet
            return ServerPosition(server.host, moves=True, source=server.host)
        return ServerPosition(
            server.host,
            moves=True,
            source=migration["source_compute"],
            destination=server.host if waits else migration["dest_compute"],
            arrived=waits and migration["status"] == "finished",
            overdue=self.clock() > _time(migration["created_at"]) + self.timeout,
        )

    def _may_follow_cold(self, server: NovaServer, migration: _Document) -> bool:
        """Return whether a cold migration may follow a live one that ended before the guest began to move.

        One that fails after that ends as `failed`, an aborted one as `cancelled`.
        """
        refused = migration["migration_type"] == "live-migration" and migration["status"] == "error"
        return self.cold_migrate_running and refused and server.status == _ACTIVE and _is_movable(server)

    def _latest_migration(self, server: str) -> _Document | None:
        found: list[_Document] = self.api.get("/os-migrations", "migrations", instance_uuid=server, limit="1")
        return found[0] if found else None

    def _failure(self, server: NovaServer, migration: _Document) -> str | None:
        """Return why the latest migration failed, in Nova's words; None if it did not."""
        if migration["status"] not in _FAILED:
            return None
        actions = self.api.get(f"/servers/{server.id}/os-instance-actions", "instanceActions", limit="1")
        words = list[str]()
        if actions:
            path = f"/servers/{server.id}/os-instance-actions/{actions[0]['request_id']}"
            events = self.api.get(path, "instanceAction")["events"]
            words = [each["details"] for each in events if each["result"] == "Error" and each.get("details")]
        sentence = f"Nova's migration to {migration['dest_compute'] or 'another host'} ended as {migration['status']}."
        return f"{sentence} {words[-1]}" if words else sentence


def _is_movable(server: NovaServer) -> bool:
    return server.task_state is None and not server.locked and server.status in MOVABLE_LIVE | MOVABLE_COLD


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class NovaServices:
    """Enables and disables compute services."""

    api: NovaApi

    def disable(
        self, hosts: Sequence[NovaHost], reason: str, instead_of: Callable[[Iterable[str | None]], Collection[str]]
    ) -> list[NovaHost]:
        """Disable the compute services that are enabled, or disabled for one of the reasons that `instead_of` selects.

        Return those that are disabled for this reason.

        Raises Unavailable, and what else Nova answers.
        """
        services = self._services()
        former = instead_of(service["disabled_reason"] for service in services.values())
        ours = list[NovaHost]()
        for host in hosts:
            service = services.get(host.service_host)
            if service is None:
                continue
            if service["status"] == "enabled" or service["disabled_reason"] in former:
                body = {"status": "disabled", "disabled_reason": reason}
                self.api.send("PUT", f"/os-services/{service['id']}", body)
            elif service["disabled_reason"] != reason:
                continue
            ours.append(host)
        return ours

    def enable(self, reason: str) -> list[str]:
        """Enable the compute services that are disabled for this reason. Return their hosts."""
        ours = [each for each in self._services().values() if each["disabled_reason"] == reason]
        for service in ours:
            self.api.send("PUT", f"/os-services/{service['id']}", {"status": "enabled"})
        return [service["host"] for service in ours]

    def _services(self) -> dict[str, _Document]:
        return {each["host"]: each for each in self.api.get("/os-services", "services", binary="nova-compute")}
