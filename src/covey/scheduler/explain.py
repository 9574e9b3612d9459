"""Why nothing fitted, counted; and, for administrators, why each host may not."""

from dataclasses import dataclass, replace

import numpy as np

from covey.model.ids import HostId
from covey.scheduler.constraints import DYNAMIC, STATIC, Constraint
from covey.scheduler.constraints.named_hosts import NamedHosts
from covey.scheduler.constraints.room import Room
from covey.scheduler.fleet import Fleet
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class Explanation:
    """The hosts that there are, and what each was lost to; in the order in which the constraints are asked."""

    hosts: int
    reasons: tuple[Reason, ...]
    placed: int = 0  # servers of the same batch that did fit
    wanted: int = 1

    def sentence(self) -> str:
        """Counted reasons, most first. It names no host, so that a tenant may read it."""
        if not self.hosts:
            return "there are no hosts"
        lost = ", ".join(str(reason) for reason in self.reasons)
        told = f"of {self.hosts} host{'s' if self.hosts > 1 else ''}: {lost or 'all may'}"
        return told if not self.placed else f"{self.placed} of {self.wanted} fit, then {told}"

    def without_numbers(self) -> str:
        """The same for operators who keep the size of their fleet to themselves."""
        return "hosts " + ", ".join(reason.many for reason in self.reasons) if self.reasons else "no host may"


def explain(spec: RequestSpec, fleet: Fleet, placed: tuple[HostId, ...] = ()) -> Explanation:
    """Why no host takes another server of the ask, after those of its batch that did fit."""
    spec, fleet = _after(spec, fleet, placed)
    alive = np.ones(len(fleet), dtype=np.bool_)
    found: list[Reason] = []
    for constraint in _asked(spec):
        column = constraint.allows(spec, fleet)
        if column is None:
            continue
        lost = alive & ~column
        if lost.any():
            found += [reason for reason in constraint.reasons(spec, fleet, lost) if reason.count]
            alive &= column
    found.sort(key=lambda reason: -reason.count)
    return Explanation(len(fleet), tuple(found), len(placed), spec.count)


def violations(spec: RequestSpec, fleet: Fleet) -> dict[str, str | None]:
    """For each host by name: None if it may, else the first sentence against it."""
    told: dict[str, str | None] = {host.name: None for host in fleet.hosts}
    alive = np.ones(len(fleet), dtype=np.bool_)
    for constraint in _asked(spec):
        column = constraint.allows(spec, fleet)
        if column is None:
            continue
        for row in np.flatnonzero(alive & ~column).tolist():
            told[fleet.hosts[row].name] = constraint.why_not(spec, fleet, row)
        alive &= column
    return told


def _asked(spec: RequestSpec) -> tuple[Constraint, ...]:
    return (NamedHosts(), Room()) if spec.forced else (*STATIC, *DYNAMIC)


def _after(spec: RequestSpec, fleet: Fleet, placed: tuple[HostId, ...]) -> tuple[RequestSpec, Fleet]:
    """The question as the next server of the batch would put it."""
    if not placed:
        return spec, fleet
    later = fleet.copy()
    places = dict(spec.group.places)
    for host in placed:
        later.take(later.row_of[host], spec.amounts)
        places[host] = places.get(host, 0) + 1
    return replace(spec, group=replace(spec.group, places=places)), later
