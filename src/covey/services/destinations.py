"""Destinations of existing servers: select a host, claim it, release it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from covey.model.claims import Allocations
from covey.model.flavors import Flavor
from covey.model.groups import GroupState, GroupView
from covey.model.ids import GroupId, HostId, ServerId
from covey.model.servers import Server
from covey.scheduler.decide import decide
from covey.scheduler.explain import Explanation, NoHost
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.services.live_fleet import LiveFleet
from covey.storage.claims import usage_change
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Destination:
    """A selected host, the topology token that it stands on, and what is needed to repeat the decision."""

    host_id: HostId
    host_name: str
    allocations: Allocations
    seed: int
    candidates: int
    hosts: int
    token: str


@dataclass(frozen=True, slots=True)
class Destinations:
    """Works in the caller's transaction, which has locked the server's group, then the server."""

    store: Store
    live: LiveFleet
    new_seed: Callable[[], int]
    tenant_message: Callable[[Explanation], str]  # of an explanation
    subset: int = 1

    def lock(self, tx: Transaction, server: ServerId) -> tuple[Server | None, GroupState | None]:
        """Lock a server and its group, in the one lock order: the group first. Return None for a missing server."""
        current = tx.servers.by_id(server)
        while current is not None:
            versions = tx.groups.lock([current.group_id] if current.group_id is not None else [])
            found = tx.servers.by_id(server, lock=True)
            if found is None or found.group_id == current.group_id:
                group = None if found is None or found.group_id is None else tx.groups.states(versions)[found.group_id]
                return found, group
            current = found  # it changed its group in between: lock the present one
        return None, None

    def select(
        self,
        server: Server,
        group: GroupState | None,
        requirements: HostRequirements,
        *,
        flavor: Flavor | None = None,
        forced: bool = False,
    ) -> Destination:
        """Select a host by the present policies; the server never counts against itself. Raises NoHost."""
        view = GroupView() if group is None else _without(group.view(), server)
        spec = RequestSpec.for_flavor(flavor or server.flavor, requirements, view, forced=forced)
        # A transaction of its own: the caller's changes are not committed yet.
        with self.store.read() as read_tx, self.live.fresh(read_tx) as snapshot:
            decision = decide(spec, snapshot.fleet, self.new_seed(), self.subset)
            if not decision.chosen:
                raise NoHost(spec, snapshot.fleet.copy())
            host = decision.chosen[0]
            name = snapshot.fleet.names[snapshot.fleet.row_of[host]]
        (allocations,) = decision.allocations(spec.amounts)
        hosts = snapshot.fleet.host_rows.size
        return Destination(host, name, allocations, decision.seed, decision.candidates, hosts, snapshot.token)

    def claim(self, tx: Transaction, consumer: str, destination: Destination) -> None:
        """Claim resources for an existing consumer. Raises StaleClaim, also at the commit."""
        tx.topology.require(destination.token)
        uses = [usage_change(provider, amounts) for provider, amounts in destination.allocations.items()]
        tx.claims.take(uses)
        tx.claims.allocate(consumer, destination.allocations)
        tx.changes.add_uses(uses)

    def move_claim(self, tx: Transaction, consumer: str, destination: Destination) -> None:
        """Claim resources in exchange for the consumer's present allocations. Raises StaleClaim, also at the commit."""
        tx.topology.require(destination.token)
        tx.changes.add_uses(tx.claims.relocate(consumer, destination.allocations))

    def release(self, tx: Transaction, *consumers: str) -> None:
        """Delete the consumers and their allocations, all in one call, so that inventories are locked in order."""
        tx.changes.add_uses(tx.claims.release(*consumers))

    def bump_group(self, tx: Transaction, group: GroupId | None) -> None:
        """Mark that a member's host changed, so that cached states of the group are reloaded."""
        if group is not None:
            tx.groups.bump([group])


def _without(view: GroupView, server: Server) -> GroupView:
    places = dict(view.places)
    for host in (server.host_id, server.migration_host_id):
        if host is not None and host in places:
            places[host] -= 1
            if not places[host]:
                del places[host]
    movers = list(view.movers)
    if server.host_id is not None and server.migration_host_id is not None:
        movers.remove((server.host_id, server.migration_host_id))
    return replace(view, places=places, movers=tuple(movers))
