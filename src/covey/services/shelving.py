"""Shelving: a server leaves its host, and comes back to one that the present policies admit."""

from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.actions import MoveKind
from covey.model.agents import AgentState
from covey.model.errors import Conflict, Invalid
from covey.model.groups import GroupState
from covey.model.ids import ServerId
from covey.model.resources import class_sizes
from covey.model.servers import Server, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock
from covey.services.moves import MoveRequest, Moves
from covey.services.quotas import Quotas
from covey.services.servers import reject_locked, require_state
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-shelve:"


@dataclass(frozen=True, slots=True)
class Shelving:
    """Shelves and unshelves servers, which a worker carries out."""

    store: Store
    access: Access
    clock: Clock
    quotas: Quotas
    moves: Moves

    def shelve(self, actor: Actor, server: str, request_id: str) -> None:
        """Shelve a server: it leaves its host, and keeps its group.

        Raises NotFound, Forbidden, and Conflict, also while its host does not respond and may still run it.
        """
        now = self.clock()
        with self.store.write() as tx:
            found, _ = self.moves.lock(tx, actor, server, f"{_RULE}shelve")
            reject_locked(found, actor, self.access)
            require_state(found, "shelve", VmState.ACTIVE, VmState.STOPPED)
            _reject_unanswering(tx, found)
            tx.actions.add(found, "shelve", request_id, actor, now)
            tx.servers.update(replace(found, task=Task.SHELVING_OFFLOADING, updated_at=now))
            tx.work.add(JobKind.SHELVE, found.id)

    def offload(self, actor: Actor, server: str) -> None:
        """Do nothing: a shelve offloads at once. Raises NotFound, Forbidden, and Conflict unless it is shelved."""
        with self.store.read() as tx:
            found = self.moves.servers.get_authorized(tx, actor, server, f"{_RULE}shelve_offload", changes=True)
        require_state(found, "shelveOffload", VmState.SHELVED, VmState.SHELVED_OFFLOADED)

    def unshelve(
        self, actor: Actor, server: str, request_id: str, zone: str | None, host: str | None, *, unpin: bool = False
    ) -> None:
        """Select a host by the present policies, and claim it. Raises NoValidHost; the server then stays shelved.

        Without `zone` the zone of the original request applies, unless `unpin` drops it.
        """

        def attempt(tx: Transaction, request: MoveRequest) -> None:
            found, group = self.moves.lock(tx, actor, server, f"{_RULE}unshelve")
            reject_locked(found, actor, self.access)
            require_state(found, "unshelve", VmState.SHELVED_OFFLOADED)
            if zone is not None or unpin:
                self._reject_unknown_zone(tx, zone)
                found = replace(found, request=replace(found.request, zone=zone))
            self._return(tx, actor, found, group, request)

        with self.store.read() as tx:
            rule = "unshelve" if host is None else "unshelve_to_host"
            self.moves.servers.get_authorized(tx, actor, server, f"{_RULE}{rule}", changes=True)
        request = MoveRequest(MoveKind.MIGRATION, request_id, host)
        self.moves.until_claimed(actor, ServerId(server), request, attempt, "unshelve")

    def _return(
        self, tx: Transaction, actor: Actor, server: Server, group: GroupState | None, request: MoveRequest
    ) -> None:
        """Claim a host for a shelved server, and add the job. Raises NoHost, OverQuota, Invalid, StaleClaim."""
        now, destinations = self.clock(), self.moves.destinations
        growth = self.quotas.require_left(tx, server.project_id, class_sizes(server.flavor))
        destination = destinations.select(tx, server, group, self.moves.requirements(tx, actor, server, request))
        tx.server_allocations.add_consumer(server.id, server.project_id, server.user_id, "INSTANCE")
        destinations.claim(tx, server.id, destination)
        if growth:
            self.quotas.charge(tx, server.project_id, growth)
        placement = replace(server.placement, seed=destination.seed, candidates=destination.candidates, avoid=())
        tx.servers.update(
            replace(server, host_id=destination.host_id, task=Task.UNSHELVING, placement=placement, updated_at=now)
        )
        destinations.bump_group(tx, server.group_id)
        tx.actions.add(server, "unshelve", request.request_id, actor, now)
        tx.work.add(JobKind.UNSHELVE, server.id, {"is_named": request.host is not None})

    def _reject_unknown_zone(self, tx: Transaction, zone: str | None) -> None:
        with self.moves.destinations.live.fresh(tx) as snapshot:
            zones = snapshot.fleet.zones
        if zone is not None and zone not in zones:
            raise Invalid("The requested availability zone is not available")


def _reject_unanswering(tx: Transaction, server: Server) -> None:
    """Raise Conflict if the server's host is down and may still run it: the shelve could not end before that changes.

    Its message names no host, because tenants read it.
    """
    agent = None if server.host_id is None else tx.agents.by_host_id(server.host_id)
    if agent is not None and agent.state is AgentState.DOWN and not agent.may_be_evacuated:
        raise Conflict(
            f"Cannot 'shelve' instance {server.id}: its host is down, and may still run it. "
            "Try again once the host is back, or is fenced."
        )
