"""Nova's part of a plan: its compute nodes as hosts of the fleet, and its instances as servers that may move.

What an instance takes, and where it is, follows from its allocations. The mirror has the rest: state, zone, traits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from covey.model.fleet_records import FleetChange, HostRecord
from covey.model.ids import HostId, ProjectId
from covey.model.nova import NovaHost, NovaInstance, NovaNode, NovaServer
from covey.model.resources import Resources
from covey.model.server_moves import MOVABLE_COLD, MOVABLE_LIVE
from covey.model.servers import HostRequirements
from covey.scheduler.drain_planning import DrainCandidate
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing import Member
from covey.storage.store import Transaction

_DISABLED = "COMPUTE_STATUS_DISABLED"  # nova-compute sets it before the next reading of Nova
_UNKNOWN = "It is a migration in progress, or an instance that `covey sync nova` has not read yet."


@dataclass(frozen=True, slots=True)
class NovaPlan:
    """The compute nodes by the ids of their providers, and a fleet in which they are hosts, beside Covey's own."""

    nodes: Mapping[HostId, NovaHost]
    fleet: Fleet

    @classmethod
    def read(cls, tx: Transaction, fleet: Fleet) -> Self:
        """Return the compute nodes as the transaction sees them."""
        nodes = [node for node in tx.nova_instances.nodes() if node.id in fleet.row_of]
        disabled = fleet.traits.any_of([_DISABLED])
        ids = {aggregate.uuid: aggregate.id for aggregate in fleet.aggregates.values()}

        def record(node: NovaNode) -> HostRecord:
            row, host = fleet.row_of[node.id], node.host
            aggregates = frozenset(ids[uuid] for uuid in fleet.member_of[row] if uuid in ids)
            enabled = not host.disabled and not disabled[row]
            return HostRecord(node.id, host.service_host, enabled, host.up, host.zone, aggregates)

        changed = fleet.changed(FleetChange(hosts={node.id: record(node) for node in nodes}))
        return cls({node.id: node.host for node in nodes}, changed)

    def only_nova(self) -> Fleet:
        """Return the fleet with the compute nodes as its only hosts."""
        fleet = self.fleet.copy()
        fleet.is_host = fleet.mask_of(self.nodes)
        fleet.reset()
        return fleet

    def member(self, instance: NovaInstance, ignored: frozenset[HostId] = frozenset()) -> Member | None:
        """Return an instance as a member of a plan, which goes to none of the ignored hosts; None if it has no host."""
        hosts = self._hosts(instance)
        if not hosts:
            return None
        return Member(
            instance.id,
            hosts[0],
            _total(instance),
            self._requirements(instance.server, ignored),
            self.obstacle(instance) is None,
            held=instance.held,
        )

    def candidate(self, instance: NovaInstance) -> DrainCandidate | None:
        """Return an instance as a server that leaves its host; None if it has no host."""
        member = self.member(instance)
        if member is None:
            return None
        server = instance.server
        waits = server is None or server.task_state is not None
        return DrainCandidate(member, instance.group, obstacle=self.obstacle(instance), waits=waits)

    def obstacle(self, instance: NovaInstance) -> str | None:
        """Return why an instance can't move to any host now; None if it can."""
        server, hosts = instance.server, self._hosts(instance)
        if server is None or server.locked:
            return _UNKNOWN if server is None else "It is locked."
        if server.task_state is not None or len(hosts) > 1:
            return f"It is busy: its task is {server.task_state or 'a move'}."
        if server.status == "VERIFY_RESIZE":
            return "It waits until its resize or migration is confirmed or reverted."
        if server.status not in MOVABLE_LIVE | MOVABLE_COLD:
            return f"Its status is {server.status}; only ACTIVE, PAUSED and SHUTOFF instances move."
        if not all(self.nodes[host].up for host in hosts):
            return "Its host is down: evacuate it."
        return None

    def ids_named(self, names: Iterable[str]) -> frozenset[HostId]:
        """Return the compute nodes of these compute services."""
        wanted = set(names)
        if not wanted:
            return frozenset()
        return frozenset(each for each, host in self.nodes.items() if host.service_host in wanted)

    def _hosts(self, instance: NovaInstance) -> list[HostId]:
        """Return the compute nodes in whose trees the instance holds allocations."""
        rows = self.fleet.rows(instance.held)
        roots = {HostId(int(root)) for root in self.fleet.ids[self.fleet.root[rows]].tolist()}
        return sorted(root for root in roots if root in self.nodes)

    def _requirements(self, server: NovaServer | None, ignored: frozenset[HostId]) -> HostRequirements:
        only = frozenset(self.nodes)
        if server is None:
            return HostRequirements(only_hosts=only)
        traits = frozenset((server.traits or "").split(",")) - {""}
        forbidden = frozenset(trait for trait in traits if trait.startswith("!"))
        return HostRequirements(
            ProjectId(server.project_id),
            server.zone,
            traits - forbidden,
            frozenset(trait.removeprefix("!") for trait in forbidden),
            only,
            ignored,
        )


def _total(instance: NovaInstance) -> Resources:
    total = Counter[str]()
    for amounts in instance.held.values():
        total.update(amounts)
    return Resources(total)
