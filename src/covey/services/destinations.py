"""Destinations of existing servers: select a host, claim it, release it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from covey.model.changes import UsageChange
from covey.model.claims import Allocations
from covey.model.errors import Busy, StaleClaim, TransactionConflict
from covey.model.flavors import Flavor
from covey.model.groups import GroupState, GroupView
from covey.model.ids import GroupId, HostId, ServerId
from covey.model.servers import Server
from covey.scheduler.decide import decide
from covey.scheduler.drain_planning import without
from covey.scheduler.explain import Explanation, NoHost
from covey.scheduler.followers import Follower, decide_with_followers, may_choose_domain
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.services.live_fleet import FleetSnapshot, FleetVersion, LiveFleet
from covey.storage.store import Transaction

T = TypeVar("T")


class ClaimRefused(StaleClaim):
    """Internal: hosts lack the room that a version of the fleet in memory showed."""

    def __init__(self, hosts: frozenset[HostId], fleet_version: FleetVersion) -> None:
        super().__init__(hosts)
        self.fleet_version = fleet_version


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
    fleet_version: FleetVersion


@dataclass(frozen=True, slots=True)
class Destinations:
    """Works in the caller's transaction, which has locked the server's group, then the server.

    The transaction reads the fleet itself, before it writes. A second connection for that would let requests block each
    other: each would hold a connection and locks while it waits for another one.
    """

    live: LiveFleet
    new_seed: Callable[[], int]
    tenant_message: Callable[[Explanation], str]  # of an explanation
    subset: int = 1
    planned: FleetSnapshot | None = None  # a private copy, from which several claims of one transaction take room

    def planning(self, tx: Transaction) -> "Destinations":
        """Return the same for several claims of one transaction, each decided with those before it."""
        return replace(self, planned=self.live.read(tx))

    def until_claimed(self, attempts: int, attempt: Callable[[frozenset[HostId]], T]) -> T:
        """Return the result of the first attempt that no other claim made stale. Raises Busy.

        Each is a transaction of its own, and gets the hosts that refused the claims of those before it.
        """
        avoid: frozenset[HostId] = frozenset()
        for _ in range(attempts):
            try:
                return attempt(avoid)
            except ClaimRefused as refused:
                self.live.refused(refused.fleet_version, refused.hosts)
                avoid |= refused.hosts
            except (StaleClaim, TransactionConflict):
                continue
        raise Busy("The fleet kept changing during this request. Try again in a moment.")

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
        tx: Transaction,
        server: Server,
        group: GroupState | None,
        requirements: HostRequirements,
        *,
        flavor: Flavor | None = None,
        forced: bool = False,
        evacuating: bool = False,
        leaving: frozenset[HostId] = frozenset(),
        followers: Callable[[], Sequence[Follower]] = list,
    ) -> Destination:
        """Select a host by the present policies; the server never counts against itself. Raises NoHost.

        The server does not have to stay with members on hosts that are `leaving`, or down if it is evacuated. Under
        hard affinity it gets a host whose domain has room for these `followers` as well, if there is one.
        """
        view = GroupView() if group is None else without(group.view(), server.host_id, server.migration_host_id)
        spec = RequestSpec.for_flavor(flavor or server.flavor, requirements, view, forced=forced)
        gathers = (evacuating or bool(leaving)) and may_choose_domain(spec)
        others = followers() if gathers else ()
        with self._snapshot(tx, private=gathers) as snapshot:
            if evacuating:
                leaving = frozenset(
                    HostId(host) for host in view.members_by_host if not snapshot.fleet.is_up(HostId(host))
                )
            seed = self.new_seed()
            if leaving and view.policies:
                spec, decision = decide_with_followers(spec, leaving, others, snapshot.fleet, seed, self.subset)
            else:
                decision = decide(spec, snapshot.fleet, seed, self.subset)
            if not decision.chosen:
                raise NoHost(spec, snapshot.fleet.copy(), proved=decision.proved)
            host = decision.chosen[0]
            name, version = snapshot.fleet.names[snapshot.fleet.row_of[host]], snapshot.version
        allocations = next(iter(decision.allocations(spec.amounts)))
        hosts = snapshot.fleet.host_rows.size
        return Destination(host, name, allocations, decision.seed, decision.candidates, hosts, snapshot.token, version)

    @contextmanager
    def _snapshot(self, tx: Transaction, *, private: bool) -> Iterator[FleetSnapshot]:
        """Yield the fleet: a private copy for a decision with followers, whose trials are many, or else locked."""
        if self.planned is not None or private:
            yield self.planned or self.live.read(tx)
            return
        with self.live.fresh(tx) as snapshot:
            yield snapshot

    def claim(self, tx: Transaction, consumer: str, destination: Destination) -> None:
        """Claim resources for an existing consumer. Raises ClaimRefused, and StaleClaim at the commit."""
        tx.topology.require(destination.token)
        uses = [UsageChange(*use) for use in destination.allocations.items()]
        with _refused_at(destination.fleet_version):
            tx.claims.take(uses)
        tx.server_allocations.allocate(consumer, destination.allocations)
        tx.changes.add_uses(uses)
        if self.planned is not None:
            self.planned.fleet.take_all(destination.allocations.items())

    def move_claim(self, tx: Transaction, consumer: str, destination: Destination) -> None:
        """Claim resources in exchange for the consumer's present allocations.

        Raises ClaimRefused, and StaleClaim at the commit.
        """
        tx.topology.require(destination.token)
        with _refused_at(destination.fleet_version):
            uses = tx.server_allocations.relocate(consumer, destination.allocations)
        tx.changes.add_uses(uses)

    def release(self, tx: Transaction, *consumers: str) -> None:
        """Delete the consumers and their allocations, all in one call, so that inventories are locked in order."""
        tx.changes.add_uses(tx.server_allocations.release(*consumers))

    def bump_group(self, tx: Transaction, group: GroupId | None) -> None:
        """Mark that a member's host changed, so that cached states of the group are reloaded."""
        if group is not None:
            tx.groups.bump([group])


@contextmanager
def _refused_at(fleet_version: FleetVersion) -> Iterator[None]:
    """Add the version of the fleet at which a claim was decided that hosts refuse."""
    try:
        yield
    except StaleClaim as stale:
        raise ClaimRefused(stale.hosts, fleet_version) from stale
