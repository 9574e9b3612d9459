"""Growing: nodes, their servers and what is left to do about them become true in one transaction, or not at all."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from covey.model.claims import ServerRequest
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.names import node_name
from covey.model.clustering.specs import Profile
from covey.model.errors import Invalid, NotFound, TransactionConflict
from covey.model.servers import Server, VmState
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.child_actions import derived, keep, over, progress, units_of, wait
from covey.services.clustering.engine.members import servers_of
from covey.services.clustering.engine.profile_servers import ProfileServers, placement
from covey.services.clustering.engine.run import Ended, Later, Run, Step, still
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_MADE = frozenset({NodeStatus.CREATING, NodeStatus.ACTIVE, NodeStatus.ERROR})  # or being made

Change = Callable[[Cluster], Cluster]
Destination = Mapping[str, str]


def same(cluster: Cluster) -> Cluster:
    """No change."""
    return cluster


@dataclass(frozen=True, slots=True)
class Growth:
    """Makes nodes, and sees to it that their servers come up."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    servers: Servers
    requests: ProfileServers

    def grow(self, run: Run, places: Sequence[Destination], change: Change = same) -> Step:
        """As many new members as there are places; and the cluster is what `change` makes of it.

        Raises NoValidHost, OverQuota, Invalid, and then nothing has changed.
        """
        cluster = run.the_cluster
        if not places:
            return Ended(reason="No nodes had to be created.", finally_=changes(cluster, change))
        nodes = self._members(cluster, places)
        with self.servers.creating(run.actor, self._requests(run, nodes)) as (tx, servers):
            grown, action = still(tx, run)
            if grown is None or units_of(tx, action, Verb.NODE_CREATE):
                raise TransactionConflict(f"The nodes of the action {action.id} were made already.")
            built = _with_servers(nodes, servers)
            now = self.clock()
            tx.clustering.nodes.add(built)
            tx.clustering.actions.add(derived(action, Verb.NODE_CREATE, built, self.new_uuid, now, begun=True))
            highest = max(node.index for node in built)
            tx.clustering.clusters.update(change(replace(grown, next_index=max(grown.next_index, highest + 1))))
            wait(tx, action, f"Created 0 of {len(built)} nodes.", now)
        return Later()

    def build(self, run: Run, nodes: Sequence[Node], change: Change = same) -> Step:
        """Servers for nodes that never had one, or whose last one is gone, all or nothing.

        Raises NoValidHost, OverQuota, Invalid.
        """
        ordered = _ordered(nodes)
        with self.servers.creating(run.actor, self._requests(run, ordered)) as (tx, servers):
            cluster, action = still(tx, run)
            had = {node.id: node.server_id for node in tx.clustering.nodes.by_ids([n.id for n in nodes], lock=True)}
            if had != {node.id: node.server_id for node in nodes}:
                raise TransactionConflict(f"The nodes of the action {action.id} have got servers already, or are gone.")
            tx.clustering.nodes.update(_with_servers(ordered, servers))
            if cluster is not None and change is not same:
                tx.clustering.clusters.update(change(cluster))
            wait(tx, action, f"Created 0 of {len(nodes)} nodes.", self.clock())
        return Later()

    def settle(self, run: Run, verb: Verb = Verb.NODE_CREATE) -> Step:
        """Look which servers of nodes that are being made have come up, or have failed to."""
        now = self.clock()
        with self.store.read() as tx:
            child_actions = units_of(tx, run.action, verb)
            nodes = {
                node.id: node for node in tx.clustering.nodes.by_ids([u.target for u in child_actions if not u.is_over])
            }
            servers = servers_of(tx, nodes.values())
        ended: dict[str, Action] = {}
        settled: list[Node] = []
        for unit in child_actions:
            node = nodes.get(unit.target)
            if unit.is_over or (node is not None and node.status not in _MADE):
                continue
            server = servers.get(unit.target)
            after = None if node is None else _after(node, server, now)
            if after is not None:
                settled.append(after)
                if server is not None and after.server_id is None:
                    self._give_up(run, server)
            if node is None or after is not None:
                ended[unit.id] = over(unit, now, _problem(after))
        if ended:
            with self.store.write() as tx:
                still(tx, run)
                tx.clustering.nodes.update(settled)
                keep(tx, list(ended.values()))
        words = ("creating", "Created") if verb is Verb.NODE_CREATE else ("recovering", "Recovered")
        return progress([ended.get(unit.id, unit) for unit in child_actions], *words)

    def _give_up(self, run: Run, server: Server) -> None:
        """A server that did not come up is of no use."""
        with suppress(NotFound):
            self.servers.delete(run.actor, server.id, run.request_id)

    def _members(self, cluster: Cluster, places: Sequence[Destination]) -> list[Node]:
        now = self.clock()
        members = []
        for index, place in enumerate(places, cluster.next_index):
            node_id = self.new_uuid()
            members.append(
                Node(
                    id=node_id,
                    name=node_name(cluster.config, index, node_id),
                    profile_id=cluster.profile_id,
                    owner=cluster.owner,
                    init_at=now,
                    cluster_id=cluster.id,
                    index=index,
                    data={"placement": dict(place)} if place else {},
                )
            )
        return _ordered(members)

    def _requests(self, run: Run, nodes: Sequence[Node]) -> list[ServerRequest]:
        """In the order of the nodes, of which those of one profile and one place stand together."""
        wanted: list[ServerRequest] = []
        for profile_id, some in groupby(nodes, lambda node: node.profile_id):
            with self.store.read() as tx:
                profile = profile_of(tx, profile_id)
            wanted += self.requests.requests(run.actor, profile, list(some), run.request_id, self.clock())
        return wanted


def changes(cluster: Cluster, change: Change) -> Callable[[Transaction], None]:
    """Makes a change true when the action ends."""

    def finally_(tx: Transaction) -> None:
        found = tx.clustering.clusters.lock(cluster.id)
        if found is not None:
            tx.clustering.clusters.update(change(found))

    return finally_


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (node.profile_id, sorted(placement(node).items()), node.index, node.id))


def _with_servers(nodes: Sequence[Node], servers: Sequence[Server]) -> list[Node]:
    return [
        replace(node, server_id=server.id, status=NodeStatus.CREATING, status_reason="Creation in progress.")
        for node, server in zip(nodes, servers, strict=True)
    ]


def profile_of(tx: Transaction, profile_id: str) -> Profile:
    """A profile by its id. Raises Invalid."""
    profile = tx.clustering.profiles.one(profile_id, None)
    if profile is None:
        raise Invalid(f"The profile '{profile_id}' could not be found.")
    return profile


def _after(node: Node, server: Server | None, now: datetime) -> Node | None:
    """The node once its server is up, or failed to come up; None while it is being built."""
    if node.status is not NodeStatus.CREATING:
        return node
    if server is None:
        reason = "Failed in creating server: it was deleted before it came up."
        return replace(node, status=NodeStatus.ERROR, status_reason=reason, server_id=None, updated_at=now)
    if server.vm_state is VmState.BUILDING:
        return None
    if server.vm_state is VmState.ERROR:
        fault = "it failed." if server.fault is None else server.fault.message
        reason = f"Failed in creating server: {fault}"
        return replace(node, status=NodeStatus.ERROR, status_reason=reason, server_id=None, updated_at=now)
    place = {"zone": server.zone, **placement(node)} if server.zone else placement(node)
    return replace(
        node,
        status=NodeStatus.ACTIVE,
        status_reason="Creation succeeded.",
        created_at=node.created_at or now,
        updated_at=now,
        data={**node.data, "placement": place} if place else node.data,
        tainted=False,
    )


def _problem(node: Node | None) -> str:
    if node is None:
        return "The node is gone."
    return "" if node.status is NodeStatus.ACTIVE else node.status_reason
