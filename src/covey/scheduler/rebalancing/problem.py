"""The problem that a rebalance solves: members that are alike, the hosts that admit them, and the penalties now."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from covey.model.claims import Allocations
from covey.model.groups import HOST, GroupPolicy, GroupView
from covey.model.ids import HostId
from covey.model.resources import GranularGroup, Resources, total_of
from covey.scheduler.decide import allowed_hosts
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.policies import hard_policies, kind_of
from covey.scheduler.policies.scopes import Counts, ScopedPolicy, scoped
from covey.scheduler.request_spec import HostRequirements, RequestSpec

_Request = tuple[Resources, HostRequirements, tuple[GranularGroup, ...], bool]


@dataclass(frozen=True, slots=True)
class Member:
    """A server of the group: its host, and what it requires of one."""

    id: str
    host: HostId
    amounts: Resources
    requirements: HostRequirements
    movable: bool
    granular: tuple[GranularGroup, ...] = ()
    isolate: bool = False
    held: Allocations | None = None  # by provider; None if its host alone serves it


@dataclass(frozen=True, slots=True)
class Move:
    """One member goes from one host to another."""

    member: str
    source: HostId
    destination: HostId


@dataclass(frozen=True, slots=True)
class MemberClass:
    """Members of one size and one set of requirements, and the hosts that admit them, without regard to use."""

    request: RequestSpec  # for one member, without the group
    mask: Mask

    @property
    def total(self) -> Resources:
        """All that one member takes."""
        return self.request.total

    def spec(self, group: GroupView, count: int = 1, only: frozenset[HostId] | None = None) -> RequestSpec:
        """Return a request for some of the members, as many as fit."""
        requirements = self.request.requirements
        requirements = requirements if only is None else replace(requirements, only_hosts=only)
        return replace(self.request, count=count, requirements=requirements, group=group)


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Movable members of one class on one host: they are interchangeable."""

    row: int
    member_class: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """The group as it is now."""

    policies: tuple[GroupPolicy, ...]
    fleet: Fleet
    members: tuple[Member, ...]  # those on hosts of the fleet
    rows: NDArray[np.intp]  # of each member's host
    member_classes: tuple[MemberClass, ...]
    move_groups: tuple[MoveGroup, ...]
    scoped: tuple[ScopedPolicy, ...]  # the policies with their domains
    held: Mapping[str, Allocations]  # of each movable member, by provider

    @property
    def penalties_before(self) -> tuple[int, ...]:
        """The penalty of each policy now."""
        return self.penalties([policy.counts(self.rows) for policy in self.scoped])

    @property
    def host_policies(self) -> tuple[GroupPolicy, ...]:
        """The policies of the host scope."""
        return tuple(policy for policy in self.policies if policy.scope == HOST)

    def penalties(self, counts: Sequence[Counts]) -> tuple[int, ...]:
        """Return the penalty of each policy for members counted by its domains."""
        pairs = zip(self.scoped, counts, strict=True)
        return tuple(kind_of(policy.policy).penalty(policy, counted) for policy, counted in pairs)

    def objective(self, penalties: Sequence[int]) -> tuple[int, ...]:
        """Return the penalties by precedence: the sum of the hard ones, then the soft ones in their order."""
        pairs = list(zip(self.policies, penalties, strict=True))
        hard = sum(penalty for policy, penalty in pairs if not policy.kind.is_soft)
        return hard, *(penalty for policy, penalty in pairs if policy.kind.is_soft)


def build_problem(
    policies: Sequence[GroupPolicy], members: Sequence[Member], fleet: Fleet, exempt: Collection[HostId] = frozenset()
) -> Problem:
    """Classify the members, and the hosts that admit them."""
    known = tuple(sorted((member for member in members if member.host in fleet.row_of), key=lambda member: member.id))
    rows = fleet.rows(member.host for member in known)
    numbers: dict[_Request, int] = {}
    ids: dict[tuple[int, int], list[str]] = {}
    held: dict[str, Allocations] = {}
    for member, row in zip(known, rows.tolist(), strict=True):
        if member.movable:
            request = member.amounts, member.requirements, member.granular, member.isolate
            number = numbers.setdefault(request, len(numbers))
            ids.setdefault((row, number), []).append(member.id)
            alone = {int(member.host): total_of(member.amounts, member.granular)}
            held[member.id] = alone if member.held is None else member.held
    with_domains = tuple(scoped(policy, fleet, exempt) for policy in policies)
    destinations = _destinations(with_domains, rows, len(fleet))
    member_classes = _member_classes(numbers, GroupView(tuple(policies)), destinations, fleet)
    move_groups = tuple(MoveGroup(row, number, tuple(alike)) for (row, number), alike in ids.items())
    return Problem(tuple(policies), fleet, known, rows, member_classes, move_groups, with_domains, held)


def _member_classes(
    requests: Iterable[_Request], empty: GroupView, mask: Mask, fleet: Fleet
) -> tuple[MemberClass, ...]:
    """Return the classes with the hosts that admit them if all hosts and the group were empty."""
    return tuple(
        MemberClass(
            RequestSpec(amounts, requirements=needs, granular=granular, isolate=isolate),
            mask & allowed_hosts(RequestSpec(Resources({}), requirements=needs, group=empty), fleet),
        )
        for amounts, needs, granular, isolate in requests
    )


def _destinations(policies: Sequence[ScopedPolicy], rows: NDArray[np.intp], size: int) -> Mask:
    """Return the hosts to which the policies let a rebalance move members."""
    mask: Mask = np.ones(size, dtype=np.bool_)
    for policy in policies:
        mask[policy.exempt] = False
        for kind, _ in hard_policies(GroupView((policy.policy,))):
            admitted = kind.destinations(policy, policy.counts(rows))
            mask = mask if admitted is None else mask & admitted
    return mask
