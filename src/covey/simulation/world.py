"""The simulated cloud: the fleet's columns, groups and servers, and what may be done to them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from covey.model.errors import Invalid
from covey.model.groups import GroupPolicy, GroupView
from covey.model.ids import HostId
from covey.scheduler.decide import decide
from covey.scheduler.decision import Decision
from covey.scheduler.fleet import AggregateRecord, Fleet, HostRecord
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.simulation.events import Boot, Grow
from covey.simulation.member_table import MemberTable
from covey.simulation.refusals import leading_reason
from covey.simulation.start import Amounts, Start

Clock = Callable[[], float]


@dataclass(slots=True)
class Seat:
    """A server that has a place."""

    row: int
    amounts: Amounts
    requirements: HostRequirements
    group: str | None = None
    member: int = 0  # its number on the roll, where it has a group


@dataclass(slots=True)
class Group:
    """A group, what it holds, and what it would hold had nothing been refused or lost."""

    number: int
    view: GroupView
    wanted: int = 0
    made: int = 0  # servers that ever were asked for
    latest: tuple[Amounts, HostRequirements] | None = None  # what growth is like


@dataclass(slots=True)
class Counts:
    """What happened so far, in servers."""

    asked: int = 0
    placed: int = 0
    refused: int = 0
    deleted: int = 0
    lost: int = 0  # went with their hosts
    moved: int = 0  # found another place when they had to
    stuck: int = 0  # stayed on a host that is to be drained
    reasons: dict[str, int] = field(default_factory=dict)
    first_at: dict[str, float] = field(default_factory=dict)  # use of the fleet at the first refusal for a reason


class World:
    """Every change goes through here. A decision is the service's own, on columns like the service's own."""

    def __init__(self, start: Start, clock: Clock) -> None:
        self.start = start
        self.fleet: Fleet = start.fleet()
        self.groups: dict[str, Group] = {}
        self.servers: dict[str, Seat] = {}
        self.member_table = MemberTable()
        self.counts = Counts()
        self.decision_s: list[float] = []
        self._clock = clock
        self._on: dict[int, dict[str, None]] = {}  # servers by row, in the order in which they came
        self._lost: set[int] = set()  # hosts that went for good
        self._unplaced: dict[str, str | None] = {}  # servers without a place, and their groups
        self._rows = {host.name: row for row, host in enumerate(self.fleet.hosts)}
        for name, policies in start.groups.items():
            self._add_group(name, policies)
        for server in start.servers:
            self._seat(server.name, self.fleet.row_of[server.host], server.amounts, server.requirements, server.group)
            if server.group is not None:
                group = self.groups[server.group]
                group.wanted, group.made = group.wanted + 1, group.made + 1
                group.latest = server.amounts, server.requirements

    def boot(self, boot: Boot, seed: int) -> None:
        """Raises Invalid for a name that is taken, a zone without hosts, and policies that make no sense."""
        if boot.zone is not None and boot.zone not in self.fleet.zones:
            known = ", ".join(sorted(self.fleet.zones))
            raise Invalid(f"The boot of {boot.name} asks for the zone {boot.zone!r}. There are: {known}.")
        if boot.group is not None and boot.group not in self.groups:
            self._add_group(boot.group, self.start.policies(boot.policies, boot.rules))
        names = [boot.name] if boot.count == 1 else [f"{boot.name}-{n + 1}" for n in range(boot.count)]
        requirements = HostRequirements(zone=boot.zone, required_traits=frozenset(boot.traits))
        amounts = boot.vcpus, boot.memory_mb, boot.disk_gb
        self._boot(names, amounts, requirements, boot.group, boot.minimum, seed)

    def grow(self, grow: Grow, seed: int) -> None:
        """Raises Invalid for a group that never had a server."""
        group = self.groups.get(grow.group)
        if group is None or group.latest is None:
            raise Invalid(f"The group {grow.group} can't grow: no boot named it before.")
        names = [f"{grow.group}/{group.made + n + 1}" for n in range(grow.count)]
        self._boot(names, *group.latest, grow.group, 1, seed)

    def delete(self, name: str) -> None:
        """Raises Invalid for a server that nobody asked for."""
        seat = self.servers.get(name)
        if seat is None and name not in self._unplaced:
            raise Invalid(f"The server {name} can't be deleted: no boot made it, or it is deleted already.")
        group = self._unplaced.pop(name) if seat is None else seat.group
        if group is not None:
            self.groups[group].wanted -= 1
        if seat is not None:
            self._leave(name)
            self.counts.deleted += 1

    def fail(self, hosts: Iterable[int], seed: int, *, evacuate: bool, for_good: bool = False) -> None:
        """Hosts go down with their servers, which find other places if they are to."""
        rows = list(hosts)
        if for_good:
            self._lost.update(rows)
        self._mark(rows, up=False)
        for name in self._names_on(rows):
            seat = self._leave(name)
            if not evacuate or not self._move(name, seat, seed):
                self.counts.lost += 1
                self._unplaced[name] = seat.group

    def recover(self, hosts: Iterable[int]) -> None:
        """Hosts come up again, empty, unless they went for good."""
        self._mark([row for row in hosts if row not in self._lost], up=True)

    def drain(self, hosts: Iterable[int], seed: int) -> None:
        """Hosts take no more servers, and those on them move away where they can."""
        rows = list(hosts)
        self._mark(rows, enabled=False)
        for name in self._names_on(rows):
            seat = self._leave(name)
            if not self._move(name, seat, seed):
                self.counts.stuck += 1
                self._seat(name, seat.row, seat.amounts, seat.requirements, seat.group, take=True)

    def add_hosts(self, count: int, scope: str) -> None:
        """So many more hosts for each domain of a scope, each like the domain's first. Raises Invalid."""
        domains = [each for each in self.start.domains(scope) if each.hosts]
        first = [self.fleet.row_of[min(each.hosts)] for each in domains for _ in range(count)]
        last, before = int(self.fleet.ids.max()), len(self.fleet)
        added = [
            replace(
                self.fleet.hosts[row], id=HostId(last + n), name=f"added-{n}", used=(0, 0, 0), enabled=True, up=True
            )
            for n, row in enumerate(first, start=1)
        ]
        like: dict[HostId, list[HostId]] = {}
        for row, host in zip(first, added, strict=True):
            like.setdefault(self.fleet.hosts[row].id, []).append(host.id)
        self._rebuild(added, [_with(aggregate, like) for aggregate in self.fleet.aggregates])
        self._rows |= {host.name: before + n for n, host in enumerate(added)}

    def row(self, host: str) -> int:
        """Raises Invalid for a host that there is not."""
        if host not in self._rows:
            raise Invalid(f"There is no host {host!r}.")
        return self._rows[host]

    def _boot(
        self,
        names: Sequence[str],
        amounts: Amounts,
        requirements: HostRequirements,
        group: str | None,
        minimum: int,
        seed: int,
    ) -> None:
        for name in names:
            if name in self.servers or name in self._unplaced:
                raise Invalid(f"The server {name} is there already.")
        if group is not None:
            mine = self.groups[group]
            mine.wanted, mine.made = mine.wanted + len(names), mine.made + len(names)
            mine.latest = amounts, requirements
        spec = RequestSpec(*amounts, len(names), minimum, requirements, self._view(group))
        decision = self._decide(spec, seed)
        for name, host in zip(names, decision.chosen, strict=False):
            self._seat(name, self.fleet.row_of[host], amounts, requirements, group, take=True)
        placed = len(decision.chosen)
        self.counts.asked += len(names)
        self.counts.placed += placed
        if placed < len(names):
            self._unplaced |= dict.fromkeys(names[placed:], group)
            self._refuse(spec, decision, group, len(names) - placed)

    def _move(self, name: str, seat: Seat, seed: int) -> bool:
        """Whether a server that left its place found another one."""
        spec = RequestSpec(*seat.amounts, requirements=seat.requirements, group=self._view(seat.group))
        decision = self._decide(spec, seed + seat.row)
        if not decision.chosen:
            self._refuse(spec, decision, seat.group, 1)
            return False
        self._seat(name, self.fleet.row_of[decision.chosen[0]], seat.amounts, seat.requirements, seat.group, take=True)
        self.counts.moved += 1
        return True

    def _decide(self, spec: RequestSpec, seed: int) -> Decision:
        before = self._clock()
        decision = decide(spec, self.fleet, seed, self.start.subset)
        self.decision_s.append(self._clock() - before)
        return decision

    def _refuse(self, spec: RequestSpec, decision: Decision, group: str | None, number: int) -> None:
        """Count, by the reason against one more: after those that got a place, or would have had all fitted."""
        lacking = () if decision.chosen else decision.fitting
        reason = leading_reason(replace(spec, group=self._view(group)), self.fleet, lacking)
        counts = self.counts
        counts.refused += number
        if reason not in counts.reasons:
            counts.first_at[reason] = self.fullness()
        counts.reasons[reason] = counts.reasons.get(reason, 0) + number

    def fullness(self) -> float:
        """Which part of the fleet's scarcest resource is used, of hosts that take servers."""
        capacity = self.fleet.capacity[:, self.fleet.takes].sum(axis=1)
        free = self.fleet.free[:, self.fleet.takes].sum(axis=1)
        return float(np.max(1 - free / np.maximum(capacity, 1), initial=0.0))

    def _view(self, group: str | None) -> GroupView:
        return GroupView() if group is None else self.groups[group].view

    def _add_group(self, name: str, policies: tuple[GroupPolicy, ...]) -> None:
        self.groups[name] = Group(len(self.groups), GroupView(policies))

    def _seat(
        self,
        name: str,
        row: int,
        amounts: Amounts,
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
        self.servers[name] = Seat(row, amounts, requirements, group, member)
        self._on.setdefault(row, {})[name] = None

    def _leave(self, name: str) -> Seat:
        seat = self.servers.pop(name)
        del self._on[seat.row][name]
        vcpus, memory_mb, disk_gb = seat.amounts
        self.fleet.take(seat.row, (-vcpus, -memory_mb, -disk_gb))
        if seat.group is not None:
            self.member_table.remove(seat.member)
            self._count(seat.group, seat.row, -1)
        return seat

    def _count(self, group: str, row: int, more: int) -> None:
        """One more member on a host, or one less."""
        mine = self.groups[group]
        host = self.fleet.hosts[row].id
        places = {**mine.view.places}
        places[host] = places.get(host, 0) + more
        if not places[host]:
            del places[host]
        mine.view = replace(mine.view, places=places)

    def _names_on(self, rows: Iterable[int]) -> list[str]:
        return [name for row in rows for name in self._on.get(row, ())]

    def _mark(self, rows: Collection[int], *, enabled: bool | None = None, up: bool | None = None) -> None:
        """Hosts change their state; what was remembered of who may is forgotten."""
        hosts = list(self.fleet.hosts)
        for row in rows:
            host = hosts[row]
            is_enabled, is_up = (host.enabled if enabled is None else enabled), (host.up if up is None else up)
            hosts[row] = replace(host, enabled=is_enabled, up=is_up)
            self.fleet.takes[row] = is_enabled and is_up
        self.fleet.hosts = hosts
        self.fleet.static_masks.clear()

    def _rebuild(self, added: list[HostRecord], aggregates: list[AggregateRecord]) -> None:
        """The fleet with more hosts, whose ids are the highest, so that all others keep their rows."""
        used = (self.fleet.capacity - self.fleet.free).T.tolist()
        hosts = [replace(host, used=tuple(use)) for host, use in zip(self.fleet.hosts, used, strict=True)]
        self.start = replace(self.start, hosts=[*hosts, *added], aggregates=aggregates)
        self.fleet = self.start.fleet()


def _with(aggregate: AggregateRecord, like: dict[HostId, list[HostId]]) -> AggregateRecord:
    """The aggregate with the hosts that are like some of its own."""
    more = [new for old in aggregate.hosts & like.keys() for new in like[old]]
    return replace(aggregate, hosts=aggregate.hosts.union(more)) if more else aggregate
