"""A group that is to be put right, in numbers: who is like whom, and which hosts could ever take them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.decide import allowed
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Mask
from covey.scheduler.rebalancing.measures import Measure, measures_of
from covey.scheduler.request_spec import HostRequirements, RequestSpec


@dataclass(frozen=True, slots=True)
class Member:
    """A server of the group: where it is, and what it asks of a host."""

    id: str
    host: HostId
    amounts: tuple[int, int, int]
    requirements: HostRequirements
    movable: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """Members that any host serves alike, and the hosts that could ever take one, whatever their use."""

    amounts: tuple[int, int, int]
    requirements: HostRequirements
    may: Mask

    def spec(self, view: GroupView, count: int = 1, only: frozenset[HostId] | None = None) -> RequestSpec:
        """A place for some of them."""
        requirements = self.requirements if only is None else replace(self.requirements, only_hosts=only)
        return RequestSpec(*self.amounts, count=count, minimum=count, requirements=requirements, group=view)


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Movable members of one kind on one host: it does not matter which of them moves."""

    row: int
    kind: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """The group as it stands."""

    policies: tuple[GroupPolicy, ...]
    fleet: Fleet
    members: tuple[Member, ...]  # those on hosts of the fleet
    rows: NDArray[np.intp]  # of each member's host
    kinds: tuple[Kind, ...]
    crews: tuple[MoveGroup, ...]
    measures: tuple[Measure, ...]

    @property
    def before(self) -> tuple[int, ...]:
        """How badly each policy is broken."""
        return tuple(measure.of(measure.counts(self.rows)) for measure in self.measures)

    @property
    def host_policies(self) -> tuple[GroupPolicy, ...]:
        """Those that tell equal hosts of one place apart."""
        return tuple(policy for policy in self.policies if policy.scope == HOST)


def look_at(policies: Sequence[GroupPolicy], members: Sequence[Member], fleet: Fleet) -> Problem:
    """Sort the members by what matters about them."""
    known = tuple(sorted((member for member in members if member.host in fleet.row_of), key=lambda member: member.id))
    rows = fleet.rows(member.host for member in known)
    measures = measures_of(policies, fleet)
    numbers: dict[tuple[tuple[int, int, int], HostRequirements], int] = {}
    crews: dict[tuple[int, int], list[str]] = {}
    for member, row in zip(known, rows.tolist(), strict=True):
        if member.movable:
            kind = numbers.setdefault((member.amounts, member.requirements), len(numbers))
            crews.setdefault((row, kind), []).append(member.id)
    kinds = _kinds(numbers, GroupView(tuple(policies)), _open(measures, rows, len(fleet)), fleet)
    gathered = tuple(MoveGroup(row, kind, tuple(ids)) for (row, kind), ids in crews.items())
    return Problem(tuple(policies), fleet, known, rows, kinds, gathered, measures)


def _kinds(
    found: Iterable[tuple[tuple[int, int, int], HostRequirements]], view: GroupView, may: Mask, fleet: Fleet
) -> tuple[Kind, ...]:
    """Hosts that could ever take one: those that would, were they empty and the group nowhere."""
    return tuple(
        Kind(amounts, requirements, may & allowed(RequestSpec(0, 0, 0, requirements=requirements, group=view), fleet))
        for amounts, requirements in found
    )


def _open(measures: Sequence[Measure], rows: NDArray[np.intp], size: int) -> Mask:
    """Together means where some of the group are; only one that is alone, or nowhere yet, may begin elsewhere."""
    may: Mask = np.ones(size, dtype=np.bool_)
    for measure in measures:
        counts = measure.counts(rows)
        if measure.policy.kind is PolicyKind.AFFINITY and measure.target is None and counts[:NO_DOMAIN].sum() > 1:
            may &= measure.domains.spread(counts > 0)
    return may
