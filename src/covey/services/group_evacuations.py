"""Evacuates all members of a server group that are on hosts which are down."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.actions import MoveKind
from covey.model.errors import Conflict, CoveyError, Invalid, NotFound, TransactionConflict
from covey.model.groups import Group
from covey.model.ids import GroupId, ServerId
from covey.model.servers import Server
from covey.scheduler.explain import NoHost
from covey.services.groups import Groups
from covey.services.moves import MoveRequest, Moves
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-evacuate"

_Refusal = NoHost | CoveyError | None


@dataclass(frozen=True, slots=True)
class GroupEvacuations:
    """Begins an evacuation for each member; a worker carries them out."""

    store: Store
    groups: Groups
    moves: Moves

    def evacuate(
        self, actor: Actor, group: str, request_id: str, *, stopped: bool = True
    ) -> Sequence[tuple[ServerId, str | None]]:
        """Return the members that leave, each with the reason if it is refused. Unless `stopped`, those that ran run.

        The first one gets a host whose domain has room for the others, where one exists, so members under hard affinity
        go together. All that can leave begin to, or none does. Raises NotFound, Forbidden, Busy, and Conflict if no
        member is on a host that is down.
        """
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "show")
            leaving = _on_lost_hosts(tx, found)
            for server in leaving:
                self.moves.servers.get_authorized(tx, actor, server, _RULE)
        if not leaving:
            raise Conflict(f"No member of the server group {found.id} is on a host that is down.")
        request = MoveRequest(MoveKind.EVACUATION, request_id, stopped=stopped)
        refusals = self.moves.destinations.until_claimed(
            self.moves.attempts, lambda avoid: self._begin(actor, found.id, leaving, replace(request, avoid=avoid))
        )
        return [(server, self._reason(actor, server, request, refusals[server])) for server in leaving]

    def _begin(
        self, actor: Actor, group: GroupId, leaving: Sequence[ServerId], request: MoveRequest
    ) -> dict[ServerId, _Refusal]:
        """Claim a host for each member in one transaction: no other request takes the room between them."""
        with self.moves.transaction() as tx:
            tx.groups.lock([group])
            moves = replace(self.moves, destinations=self.moves.destinations.planning(tx))
            sizes = {server.id: _size(server) for server in tx.servers.by_ids(leaving)}
            large_first = sorted(leaving, key=lambda server: sizes.get(server, (0, 0, 0)), reverse=True)
            return {server: _refusal(moves, tx, actor, server, request) for server in large_first}

    def _reason(self, actor: Actor, server: ServerId, request: MoveRequest, refusal: _Refusal) -> str | None:
        if isinstance(refusal, NoHost):
            refusal = self.moves.explain(actor, server, request, refusal)
        return None if refusal is None else refusal.message


def _on_lost_hosts(tx: Transaction, group: Group) -> list[ServerId]:
    members = {server.id: server for server in tx.servers.by_ids(group.members)}
    ordered = [members[server] for server in group.members if server in members]
    return [server.id for server in ordered if server.host_id is not None and not server.host_up]


def _size(server: Server) -> tuple[int, int, int]:
    return server.flavor.memory_mb, server.flavor.vcpus, server.flavor.disk_gb


def _refusal(moves: Moves, tx: Transaction, actor: Actor, server: ServerId, request: MoveRequest) -> _Refusal:
    try:
        moves.begin_in(tx, actor, server, request)
    except TransactionConflict:  # a conflict of the transaction, and not of the member's state
        raise
    except (NoHost, NotFound, Conflict, Invalid) as refused:
        return refused
    return None
