"""Places of servers that exist already: deciding on another, taking it, and letting go of one."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from covey.model.changes import Use
from covey.model.claims import amounts_of
from covey.model.errors import NoValidHost
from covey.model.flavors import Flavor
from covey.model.groups import GroupState, GroupView
from covey.model.ids import GroupId, HostId, ServerId
from covey.model.servers import Server
from covey.scheduler.decide import decide
from covey.scheduler.explain import Explanation, explain
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.services.live_fleet import LiveFleet
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Destination:
    """A host that was decided on, and what is needed to decide the same again."""

    host_id: HostId
    host_name: str
    seed: int
    candidates: int
    hosts: int


@dataclass(frozen=True, slots=True)
class Destinations:
    """Everything is done in a transaction of the caller's, who has locked the server's group, then the server."""

    store: Store
    live: LiveFleet
    seed: Callable[[], int]
    render: Callable[[Explanation], str]
    subset: int = 1

    def lock(self, tx: Transaction, server: ServerId) -> tuple[Server | None, GroupState | None]:
        """Hold a server and the group that it is in, the group first, as everybody does."""
        seen = tx.servers.by_id(server)
        while seen is not None:
            versions = tx.groups.lock([seen.group_id] if seen.group_id is not None else [])
            found = tx.servers.by_id(server, lock=True)
            if found is None or found.group_id == seen.group_id:
                group = None if found is None or found.group_id is None else tx.groups.states(versions)[found.group_id]
                return found, group
            seen = found  # it changed groups meanwhile: hold the right one
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
        """Decide on a host as the server's policies have it now; it never counts against itself. Raises NoValidHost."""
        view = GroupView() if group is None else _without(group.view(), server)
        spec = RequestSpec(*amounts_of(flavor or server.flavor), requirements=requirements, group=view, forced=forced)
        # Looked at from outside of the caller's transaction, whose own changes are not facts yet.
        with self.store.read() as outside, self.live.fresh(outside) as snapshot:
            decision = decide(spec, snapshot.fleet, self.seed(), self.subset)
            if not decision.chosen:
                why = explain(spec, snapshot.fleet)
                raise NoValidHost(f"No valid host was found. {self.render(why)}", why.sentence())
            host = decision.chosen[0]
            name = snapshot.fleet.hosts[snapshot.fleet.row_of[host]].name
        return Destination(host, name, decision.seed, decision.candidates, len(snapshot.fleet))

    def claim(self, tx: Transaction, consumer: str, host: HostId, flavor: Flavor) -> None:
        """Claim room for a consumer that exists. Raises StaleClaim."""
        uses = [Use(host, *amounts_of(flavor))]
        tx.claims.take(uses)
        tx.claims.allocate(consumer, host, amounts_of(flavor))
        tx.changes.add_uses(uses)

    def move_claim(self, tx: Transaction, consumer: str, host: HostId, flavor: Flavor) -> None:
        """Claim room for a consumer instead of what it holds elsewhere. Raises StaleClaim."""
        tx.changes.add_uses(tx.claims.relocate(consumer, host, amounts_of(flavor)))

    def release(self, tx: Transaction, *consumers: str) -> None:
        """Give back all that they hold; what belongs together, together, so that hosts are held in one order."""
        tx.changes.add_uses(tx.claims.release(*consumers))

    def bump_group(self, tx: Transaction, group: GroupId | None) -> None:
        """A member's place changed: whoever decides for the group looks anew."""
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
