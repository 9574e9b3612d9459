"""The simulated cloud: the fleet's columns, groups and servers, and the operations on them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from covey.model.errors import Invalid
from covey.model.fleet_records import FleetChange, HostRecord
from covey.model.groups import GroupPolicy, GroupView
from covey.model.ids import HostId
from covey.model.resources import Resources, server_resources
from covey.scheduler.decide import Decision, decide
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.simulation.events import Boot, Grow
from covey.simulation.initial_state import InitialState
from covey.simulation.member_table import MemberTable
from covey.simulation.refusals import leading_reason

Clock = Callable[[], float]


@dataclass(slots=True)
class PlacedServer:
    """A server that has a host."""

    row: int
    amounts: Resources
    requirements: HostRequirements
    group: str | None = None
    member: int = 0  # its number in the member table, with a group


@dataclass(slots=True)
class Group:
    """A group: its members, and its size without refusals and losses."""

    number: int
    view: GroupView
    desired: int = 0
    requested: int = 0  # servers in total, including deleted ones
    latest: tuple[Resources, HostRequirements] | None = None  # the template of growth


@dataclass(slots=True)
class Counts:
    """Cumulative numbers of servers."""

    requested: int = 0
    placed: int = 0
    refused: int = 0
    deleted: int = 0
    lost: int = 0  # with a failed host
    moved: int = 0  # evacuated or drained to another host
    stuck: int = 0  # on a drained host
    reasons: dict[str, int] = field(default_factory=dict)
    first_at: dict[str, float] = field(default_factory=dict)  # usage of the fleet at the first refusal for a reason


class SimulatedCloud:
    """A cloud in memory. It uses the service's scheduler on the service's columns."""

    def __init__(self, start: InitialState, clock: Clock) -> None:
        self.start = start
        self.fleet = start.fleet()
        self.groups: dict[str, Group] = {}
        self.servers: dict[str, PlacedServer] = {}
        self.member_table = MemberTable()
        self.counts = Counts()
        self.decision_s: list[float] = []
        self._clock = clock
        self._names_by_row: dict[int, dict[str, None]] = {}  # servers by host row, in order of placement
        self._permanently_down: set[int] = set()  # rows of hosts
        self._unplaced: dict[str, str | None] = {}  # servers without a host, and their groups
        for name, policies in start.groups.items():
            self._add_group(name, policies)
        for server in start.servers:
            self._place(server.name, self.fleet.row_of[server.host], server.amounts, server.requirements, server.group)
            if server.group is not None:
                group = self.groups[server.group]
                group.desired, group.requested = group.desired + 1, group.requested + 1
                group.latest = server.amounts, server.requirements

    def boot(self, boot: Boot, seed: int) -> None:
        """Create servers. Raises Invalid for a name that exists, a zone without hosts, and invalid policies."""
        if boot.zone is not None and boot.zone not in self.fleet.zones:
            known = ", ".join(sorted(self.fleet.zones))
            raise Invalid(f"The boot of {boot.name} requests the unknown zone {boot.zone!r}. Known: {known}.")
        if boot.group is not None and boot.group not in self.groups:
            self._add_group(boot.group, self.start.policies(boot.policies, boot.rules))
        names = [boot.name] if boot.count == 1 else [f"{boot.name}-{n + 1}" for n in range(boot.count)]
        requirements = HostRequirements(zone=boot.zone, required_traits=frozenset(boot.traits))
        amounts = server_resources(boot.vcpus, boot.memory_mb, boot.disk_gb)
        self._boot(names, amounts, requirements, boot.group, boot.minimum, seed)

    def grow(self, grow: Grow, seed: int) -> None:
        """Add servers to a group. Raises Invalid for a group that never had a server."""
        group = self.groups.get(grow.group)
        if group is None or group.latest is None:
            raise Invalid(f"The group {grow.group} cannot grow: no earlier boot names it.")
        names = [f"{grow.group}/{group.requested + n + 1}" for n in range(grow.count)]
        self._boot(names, *group.latest, grow.group, 1, seed)

    def delete(self, name: str) -> None:
        """Delete a server. Raises Invalid for one that does not exist."""
        server = self.servers.get(name)
        if server is None and name not in self._unplaced:
            raise Invalid(f"The server {name} cannot be deleted: it does not exist.")
        group = self._unplaced.pop(name) if server is None else server.group
        if group is not None:
            self.groups[group].desired -= 1
        if server is not None:
            self._remove(name)
            self.counts.deleted += 1

    def fail(self, hosts: Iterable[int], seed: int, *, evacuate: bool, permanent: bool = False) -> None:
        """Take hosts down with their servers, and optionally evacuate those."""
        rows = list(hosts)
        if permanent:
            self._permanently_down.update(rows)
        self._set_state(rows, up=False)
        for name in self._names_on(rows):
            server = self._remove(name)
            if not evacuate or not self._move(name, server, seed):
                self.counts.lost += 1
                self._unplaced[name] = server.group

    def recover(self, hosts: Iterable[int]) -> None:
        """Bring hosts up again, empty, unless they are down permanently."""
        self._set_state([row for row in hosts if row not in self._permanently_down], up=True)

    def drain(self, hosts: Iterable[int], seed: int) -> None:
        """Disable hosts, and migrate their servers where possible."""
        rows = list(hosts)
        self._set_state(rows, enabled=False)
        for name in self._names_on(rows):
            server = self._remove(name)
            if not self._move(name, server, seed):
                self.counts.stuck += 1
                self._place(name, server.row, server.amounts, server.requirements, server.group, take=True)

    def add_hosts(self, count: int, scope: str) -> None:
        """Add hosts to each domain of a scope, each a copy of the domain's first. Raises Invalid."""
        ids = {domain.id for domain in self.start.domains(scope)}
        first: dict[int, HostRecord] = {}
        for host in self.start.hosts:
            for domain in ids & host.aggregates:
                first.setdefault(domain, host)
        copied = [first[domain] for domain in sorted(first) for _ in range(count)]
        providers = {provider.id: provider for provider in self.start.providers}
        last = int(self.fleet.ids.max())
        hosts = {
            last + n: replace(host, id=HostId(last + n), name=f"added-{n}", enabled=True, up=True)
            for n, host in enumerate(copied, start=1)
        }
        added = {
            new: replace(
                providers[old.id],
                id=new,
                uuid=hosts[new].name,
                name=hosts[new].name,
                inventories={name: replace(has, used=0) for name, has in providers[old.id].inventories.items()},
            )
            for new, old in zip(hosts, copied, strict=True)
        }
        self.start = replace(
            self.start, providers=[*self.start.providers, *added.values()], hosts=[*self.start.hosts, *hosts.values()]
        )
        self.fleet = self.fleet.changed(FleetChange(added, hosts))

    def row(self, host: str) -> int:
        """Return the row of a host. Raises Invalid for an unknown one."""
        row = self.fleet.row_of_name.get(host)
        if row is None:
            raise Invalid(f"Unknown host {host!r}.")
        return row

    def _boot(
        self,
        names: Sequence[str],
        amounts: Resources,
        requirements: HostRequirements,
        group: str | None,
        minimum: int,
        seed: int,
    ) -> None:
        for name in names:
            if name in self.servers or name in self._unplaced:
                raise Invalid(f"The server {name} already exists.")
        if group is not None:
            target = self.groups[group]
            target.desired, target.requested = target.desired + len(names), target.requested + len(names)
            target.latest = amounts, requirements
        spec = RequestSpec(amounts, len(names), minimum, requirements, self._view(group))
        decision = self._decide(spec, seed)
        for name, host in zip(names, decision.chosen, strict=False):
            self._place(name, self.fleet.row_of[host], amounts, requirements, group, take=True)
        placed = len(decision.chosen)
        self.counts.requested += len(names)
        self.counts.placed += placed
        if placed < len(names):
            self._unplaced |= dict.fromkeys(names[placed:], group)
            self._refuse(spec, decision, group, len(names) - placed)

    def _move(self, name: str, server: PlacedServer, seed: int) -> bool:
        """Place a removed server on another host. Return False if no host is valid."""
        spec = RequestSpec(server.amounts, requirements=server.requirements, group=self._view(server.group))
        decision = self._decide(spec, seed + server.row)
        if not decision.chosen:
            self._refuse(spec, decision, server.group, 1)
            return False
        self._place(
            name, self.fleet.row_of[decision.chosen[0]], server.amounts, server.requirements, server.group, take=True
        )
        self.counts.moved += 1
        return True

    def _decide(self, spec: RequestSpec, seed: int) -> Decision:
        before = self._clock()
        decision = decide(spec, self.fleet, seed, self.start.subset)
        self.decision_s.append(self._clock() - before)
        return decision

    def _refuse(self, spec: RequestSpec, decision: Decision, group: str | None, number: int) -> None:
        """Count a refusal by its leading reason."""
        placed = () if decision.chosen else decision.fitting  # of a batch below its minimum
        reason = leading_reason(replace(spec, group=self._view(group)), self.fleet, placed)
        counts = self.counts
        counts.refused += number
        if reason not in counts.reasons:
            counts.first_at[reason] = self.highest_usage()
        counts.reasons[reason] = counts.reasons.get(reason, 0) + number

    def highest_usage(self) -> float:
        """Return the used share of the fleet's scarcest resource, over available hosts."""
        rows = np.flatnonzero(self.fleet.available)
        capacity, free = self.fleet.capacity[:, rows].sum(axis=1), self.fleet.free[:, rows].sum(axis=1)
        return float(np.max(1 - free / np.maximum(capacity, 1), initial=0.0))

    def _view(self, group: str | None) -> GroupView:
        return GroupView() if group is None else self.groups[group].view

    def _add_group(self, name: str, policies: tuple[GroupPolicy, ...]) -> None:
        self.groups[name] = Group(len(self.groups), GroupView(policies))

    def _place(
        self,
        name: str,
        row: int,
        amounts: Resources,
        requirements: HostRequirements,
        group: str | None,
        *,
        take: bool = False,
    ) -> None:
        if take:
            self.fleet.take(row, amounts)
        member = 0
        if group is not None:
            member = self.member_table.add(self.groups[group].number, row)
            self._count(group, row, 1)
        self.servers[name] = PlacedServer(row, amounts, requirements, group, member)
        self._names_by_row.setdefault(row, {})[name] = None

    def _remove(self, name: str) -> PlacedServer:
        server = self.servers.pop(name)
        del self._names_by_row[server.row][name]
        self.fleet.take(server.row, server.amounts * -1)
        if server.group is not None:
            self.member_table.remove(server.member)
            self._count(server.group, server.row, -1)
        return server

    def _count(self, group: str, row: int, change: int) -> None:
        """Add the change to a group's number of members on a host."""
        owner = self.groups[group]
        host = self.fleet.hosts[row].id
        places = {**owner.view.places}
        places[host] = places.get(host, 0) + change
        if not places[host]:
            del places[host]
        owner.view = replace(owner.view, places=places)

    def _names_on(self, rows: Iterable[int]) -> list[str]:
        return [name for row in rows for name in self._names_by_row.get(row, ())]

    def _set_state(self, rows: Collection[int], *, enabled: bool | None = None, up: bool | None = None) -> None:
        """Change the state of hosts."""
        hosts = [self.fleet.hosts[row] for row in rows]
        changed = (
            replace(h, enabled=h.enabled if enabled is None else enabled, up=h.up if up is None else up) for h in hosts
        )
        self.fleet = self.fleet.changed(FleetChange(hosts={host.id: host for host in changed}))
