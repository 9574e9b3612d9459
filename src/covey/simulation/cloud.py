"""The simulated cloud: the fleet's columns, groups and servers, and the operations on them."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

import numpy as np

from covey.model.claims import Allocations
from covey.model.errors import Invalid
from covey.model.fleet_records import FleetChange, HostRecord
from covey.model.groups import GroupPolicy, GroupView
from covey.model.ids import HostId
from covey.model.providers import ProviderRecord
from covey.model.resources import GranularGroup, Resources, server_resources, traits_of
from covey.scheduler.constraints import DYNAMIC
from covey.scheduler.constraints.static import Zone
from covey.scheduler.decide import Decision, decide
from covey.scheduler.explain import explain
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.scheduler.room import NOT_TOGETHER
from covey.simulation.events import Boot, Grow
from covey.simulation.initial_state import InitialState
from covey.simulation.member_table import MemberTable

Clock = Callable[[], float]

_LIMIT = re.compile(r"hold \d+ of")


@dataclass(slots=True)
class PlacedServer:
    """A server that has a host."""

    row: int
    request: RequestSpec  # without its group
    held: Allocations | None  # by provider; None if its host alone serves it
    group: str | None = None
    member: int = 0  # its number in the member table, with a group


@dataclass(slots=True)
class Group:
    """A group: its members, and its size without refusals and losses."""

    number: int
    view: GroupView
    desired: int = 0
    requested: int = 0  # servers in total, including deleted ones
    latest: RequestSpec | None = None  # the template of growth


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
            row = self.fleet.row_of[server.host]
            self._add(server.name, PlacedServer(row, server.request, server.held, server.group))
            if server.group is not None:
                group = self.groups[server.group]
                group.desired, group.requested = group.desired + 1, group.requested + 1
                group.latest = server.request

    def boot(self, boot: Boot, seed: int) -> None:
        """Create servers. Raises Invalid for a name that exists, a zone without hosts, and invalid policies."""
        if boot.zone is not None and boot.zone not in self.fleet.zones:
            known = ", ".join(sorted(self.fleet.zones))
            raise Invalid(f"The boot of {boot.name} requests the unknown zone {boot.zone!r}. Known: {known}.")
        if boot.group is not None and boot.group not in self.groups:
            self._add_group(boot.group, self.start.policies(boot.policies, boot.rules))
        names = [boot.name] if boot.count == 1 else [f"{boot.name}-{n + 1}" for n in range(boot.count)]
        self._boot(names, _request(boot), boot.group, boot.minimum, seed)

    def grow(self, grow: Grow, seed: int) -> None:
        """Add servers to a group. Raises Invalid for a group that never had a server."""
        group = self.groups.get(grow.group)
        if group is None or group.latest is None:
            raise Invalid(f"The group {grow.group} cannot grow: no earlier boot names it.")
        names = [f"{grow.group}/{group.requested + n + 1}" for n in range(grow.count)]
        self._boot(names, group.latest, grow.group, 1, seed)

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
                self._take(server)
                self._add(name, server)

    def add_hosts(self, count: int, scope: str) -> None:
        """Add hosts to each domain of a scope, each a copy of the domain's first. Raises Invalid."""
        ids = {domain.id for domain in self.start.domains(scope)}
        first: dict[int, HostRecord] = {}
        for host in self.start.hosts:
            for domain in ids & host.aggregates:
                first.setdefault(domain, host)
        copied = [first[domain] for domain in sorted(first) for _ in range(count)]
        trees: dict[int, list[ProviderRecord]] = defaultdict(list)
        for provider in sorted(self.start.providers, key=lambda provider: provider.id):
            trees[provider.root_id or provider.id].append(provider)
        hosts, added = dict[int, HostRecord](), dict[int, ProviderRecord]()
        for number, host in enumerate(copied, start=1):
            tree = _copied(trees[host.id], int(self.fleet.ids.max()) + len(added) + 1, f"added-{number}")
            added |= {provider.id: provider for provider in tree}
            new = HostId(tree[0].id)
            hosts[new] = replace(host, id=new, name=tree[0].name, enabled=True, up=True)
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
        request: RequestSpec,
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
            target.latest = request
        spec = replace(request, count=len(names), minimum=minimum, group=self._view(group))
        decision = self._decide(spec, seed)
        for name, server in zip(names, self._placed(decision, request, group), strict=False):
            self._take(server)
            self._add(name, server)
        placed = len(decision.chosen)
        self.counts.requested += len(names)
        self.counts.placed += placed
        if placed < len(names):
            self._unplaced |= dict.fromkeys(names[placed:], group)
            self._refuse(spec, decision, group, len(names) - placed)

    def _move(self, name: str, server: PlacedServer, seed: int) -> bool:
        """Place a removed server on another host. Return False if no host is valid."""
        spec = replace(server.request, group=self._view(server.group))
        decision = self._decide(spec, seed + server.row)
        if not decision.chosen:
            self._refuse(spec, decision, server.group, 1)
            return False
        (moved,) = self._placed(decision, server.request, server.group)
        self._take(moved)
        self._add(name, moved)
        self.counts.moved += 1
        return True

    def _placed(self, decision: Decision, request: RequestSpec, group: str | None) -> Iterator[PlacedServer]:
        held = decision.provider_allocations or repeat(None)
        for host, each in zip(decision.chosen, held, strict=False):
            yield PlacedServer(self.fleet.row_of[host], request, each, group)

    def _decide(self, spec: RequestSpec, seed: int) -> Decision:
        before = self._clock()
        decision = decide(spec, self.fleet, seed, self.start.subset)
        self.decision_s.append(self._clock() - before)
        return decision

    def _refuse(self, spec: RequestSpec, decision: Decision, group: str | None, number: int) -> None:
        """Count a refusal by its leading reason."""
        placed = () if decision.chosen else decision.fitting  # of a batch below its minimum
        reason = _leading_reason(replace(spec, group=self._view(group)), self.fleet, placed)
        counts = self.counts
        counts.refused += number
        if reason not in counts.reasons:
            counts.first_at[reason] = self.highest_usage()
        counts.reasons[reason] = counts.reasons.get(reason, 0) + number

    def highest_usage(self) -> float:
        """Return the used share of the fleet's scarcest resource, over available hosts."""
        rows = np.flatnonzero(self.fleet.available[self.fleet.root])
        capacity, free = self.fleet.capacity[:, rows].sum(axis=1), self.fleet.free[:, rows].sum(axis=1)
        has = capacity > 0
        return float(np.max(1 - free[has] / capacity[has], initial=0.0))

    def _view(self, group: str | None) -> GroupView:
        return GroupView() if group is None else self.groups[group].view

    def _add_group(self, name: str, policies: tuple[GroupPolicy, ...]) -> None:
        self.groups[name] = Group(len(self.groups), GroupView(policies))

    def _take(self, server: PlacedServer, times: int = 1) -> None:
        """Take the room of a server from the fleet, or return it."""
        if server.held is None:
            self.fleet.take(server.row, server.request.total * times)
        else:
            self.fleet.take_all((provider, amounts * times) for provider, amounts in server.held.items())

    def _add(self, name: str, server: PlacedServer) -> None:
        """Add a server that has its room."""
        if server.group is not None:
            server.member = self.member_table.add(self.groups[server.group].number, server.row)
            self._count(server.group, server.row, 1)
        self.servers[name] = server
        self._names_by_row.setdefault(server.row, {})[name] = None

    def _remove(self, name: str) -> PlacedServer:
        server = self.servers.pop(name)
        del self._names_by_row[server.row][name]
        self._take(server, -1)
        if server.group is not None:
            self.member_table.remove(server.member)
            self._count(server.group, server.row, -1)
        return server

    def _count(self, group: str, row: int, change: int) -> None:
        """Add the change to a group's number of members on a host."""
        owner = self.groups[group]
        host = self.fleet.hosts[row].id
        members_by_host = {**owner.view.members_by_host}
        members_by_host[host] = members_by_host.get(host, 0) + change
        if not members_by_host[host]:
            del members_by_host[host]
        owner.view = replace(owner.view, members_by_host=members_by_host)

    def _names_on(self, rows: Iterable[int]) -> list[str]:
        return [name for row in rows for name in self._names_by_row.get(row, ())]

    def _set_state(self, rows: Collection[int], *, enabled: bool | None = None, up: bool | None = None) -> None:
        """Change the state of hosts."""
        hosts = [self.fleet.hosts[row] for row in rows]
        changed = (
            replace(h, enabled=h.enabled if enabled is None else enabled, up=h.up if up is None else up) for h in hosts
        )
        self.fleet = self.fleet.changed(FleetChange(hosts={host.id: host for host in changed}))


def _request(boot: Boot) -> RequestSpec:
    """Return what one server of a boot asks of a host."""
    amounts = server_resources(boot.vcpus, boot.memory_mb, boot.disk_gb)
    if boot.resources:
        amounts = Resources({**amounts, **boot.resources})
    granular = tuple(
        GranularGroup(str(number), Resources(each.resources), frozenset(each.traits), frozenset(each.forbidden_traits))
        for number, each in enumerate(boot.granular, start=1)
    )
    return RequestSpec(
        amounts,
        requirements=HostRequirements(
            zone=boot.zone,
            required_traits=frozenset(boot.traits),
            forbidden_traits=frozenset(boot.forbidden_traits),
            granular_traits=traits_of(granular),
        ),
        granular=granular,
        isolate=boot.isolate,
    )


def _copied(tree: Sequence[ProviderRecord], first_id: int, name: str) -> list[ProviderRecord]:
    """Return an unused copy of a host's provider tree, whose root comes first, with ids from `first_id` on."""
    ids = {provider.id: first_id + n for n, provider in enumerate(tree)}
    return [
        replace(
            provider,
            id=ids[provider.id],
            uuid=name if provider.parent_id is None else f"{name}/{provider.name}",
            name=name if provider.parent_id is None else f"{name}/{provider.name}",
            parent_id=None if provider.parent_id is None else ids[provider.parent_id],
            root_id=None if provider.root_id is None else first_id,
            inventories={kind: replace(has, used=0) for kind, has in provider.inventories.items()},
        )
        for provider in tree
    ]


def _leading_reason(spec: RequestSpec, fleet: Fleet, placed: tuple[HostId, ...] = ()) -> str:
    """Return the reason that rules out most hosts for one more server, after each host of `placed` took one.

    The text is that of an explanation without numbers, so that equal reasons add up. Hosts that static constraints
    rule out, such as a host that is down or in another zone, count only if they are all that is left: the decision
    has cached them, and an explanation would spend most of its time on them.
    """
    remaining = fleet.static_masks[spec.requirements]
    if placed or not remaining.any():
        return _most_frequent(explain(spec, fleet, placed).reasons, Zone().allows(spec, fleet))
    reasons: list[Reason] = []
    for constraint in DYNAMIC:
        column = constraint.allows(spec, fleet)
        if column is not None:
            reasons += constraint.reasons(spec, fleet, remaining & ~column)
            remaining = remaining & column
    if remaining.any():  # their providers have room, and do not combine
        reasons.append(Reason(remaining, *NOT_TOGETHER))
    return _most_frequent(reasons)


def _most_frequent(reasons: Sequence[Reason], among: Mask | None = None) -> str:
    """Return the reason that rejects the most hosts, of all or of those in `among`."""
    if not reasons:
        return "are none"
    most = max(
        reasons, key=lambda reason: np.count_nonzero(reason.rejected if among is None else reason.rejected & among)
    )
    return _LIMIT.sub("hold enough of", most.many)
