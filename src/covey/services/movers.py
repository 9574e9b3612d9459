"""Movers: how rebalances and drains move servers, whichever service runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor, with_implied_roles
from covey.model.actions import MoveKind
from covey.model.errors import NotFound
from covey.model.ids import HostId, ProjectId, ServerId, UserId
from covey.model.server_moves import ServerPosition
from covey.model.servers import Server, VmState
from covey.ports import Mover
from covey.services.moves import MoveRequest, Moves
from covey.services.own_plans import is_movable
from covey.storage.store import Store

_SHOW_RULE = "os_compute_api:servers:show"
_NO_HOSTS: frozenset[HostId] = frozenset()


def on_behalf_of(user: UserId, project: ProjectId) -> Actor:
    """Return a requester with the service's own rights.

    A tenant may rebalance without the right to migrate, and rights may be revoked while a drain runs.
    """
    return Actor(user, project or None, with_implied_roles(frozenset({"admin"})))


@dataclass(frozen=True, slots=True)
class OwnMover:
    """Moves Covey's own servers."""

    store: Store
    moves: Moves

    def positions(self, servers: Sequence[str]) -> Mapping[str, ServerPosition]:
        """Return where servers are now, by id, without those that do not exist."""
        with self.store.read() as tx:
            found = tx.servers.by_ids([ServerId(server) for server in servers])
        return {server.id: _position(server) for server in found}

    def begin(
        self,
        actor: Actor,
        request_id: str,
        server: str,
        destination: str,
        leaving: frozenset[HostId] = _NO_HOSTS,
        *,
        cold: bool = False,  # noqa: ARG002 -- only Nova refuses live ones
    ) -> None:
        """Begin a move. Raises NoValidHost, Conflict, Invalid, NotFound, Busy."""
        with self.store.read() as tx:
            found = tx.servers.by_id(server)
        if found is None:
            raise NotFound(f"Instance {server} could not be found.")
        kind = MoveKind.LIVE_MIGRATION if found.vm_state is VmState.ACTIVE else MoveKind.MIGRATION
        self.moves.begin(actor, server, MoveRequest(kind, request_id, destination, leaving=leaving), _SHOW_RULE)

    def confirm(self, actor: Actor, request_id: str, server: str) -> None:
        """Confirm a cold move. Raises Conflict, NotFound."""
        self.moves.confirm(actor, server, request_id)

    def abort(self, server: str) -> bool:  # noqa: ARG002
        """Let the move complete."""
        return False


def _position(server: Server) -> ServerPosition:
    moves, arrived = server.migration_host_id is not None, server.vm_state is VmState.RESIZED
    hosts = (server.host_name, server.migration_host_name) if moves else (None, None)
    source, destination = hosts[::-1] if arrived else hosts
    return ServerPosition(
        server.host_name,
        is_movable(server),
        moves,
        source,
        destination,
        arrived=moves and arrived and server.task is None,
    )


@dataclass(frozen=True, slots=True)
class Movers:
    """Asks the mover of the service that runs each server."""

    store: Store
    own: Mover
    nova: Mover

    def positions(self, servers: Sequence[str]) -> Mapping[str, ServerPosition]:
        """Return where servers are now, by id, without those that do not exist. Raises Unavailable."""
        of_nova = self._of_nova(servers)
        own = [server for server in servers if server not in of_nova]
        found = dict(self.nova.positions(sorted(of_nova))) if of_nova else {}
        return found | dict(self.own.positions(own)) if own else found

    def begin(
        self,
        actor: Actor,
        request_id: str,
        server: str,
        destination: str,
        leaving: frozenset[HostId] = _NO_HOSTS,
        *,
        cold: bool = False,
    ) -> None:
        """Begin a move. Raises NoValidHost, Conflict, Invalid, NotFound, Busy, Unavailable."""
        self._mover(server).begin(actor, request_id, server, destination, leaving, cold=cold)

    def confirm(self, actor: Actor, request_id: str, server: str) -> None:
        """Begin to confirm a cold move. Raises Conflict, Invalid, NotFound, Unavailable."""
        self._mover(server).confirm(actor, request_id, server)

    def abort(self, server: str) -> bool:
        """Abort a move in progress. Return whether it ends. Raises Unavailable."""
        return self._mover(server).abort(server)

    def _mover(self, server: str) -> Mover:
        return self.nova if self._of_nova([server]) else self.own

    def _of_nova(self, servers: Sequence[str]) -> set[str]:
        with self.store.read() as tx:
            return tx.nova_instances.known(servers)
