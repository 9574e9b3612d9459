"""Explanations: why no host admits a server, counted for tenants, and host by host for administrators."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from covey.model.errors import CoveyError, NoValidHost
from covey.model.ids import HostId
from covey.scheduler.constraints import DYNAMIC, FORCED, STATIC, Constraint
from covey.scheduler.fleet import Fleet
from covey.scheduler.provider_allocations import TreeSearch, not_together
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import APART, NOT_TOGETHER, needs_providers

NO_VALID_HOST = "No valid host was found."
_NOT_SEARCHED = "may have providers that serve it together", "may have providers that serve it together"
_PERHAPS = "its resource providers may serve the request together; the search stopped at its limit"
_MORE_MAY_FIT = "; the search for other placements stopped at its limit, more may fit"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The number of hosts, and the reasons why they were ruled out, the most frequent first."""

    hosts: int
    reasons: tuple[Reason, ...]
    placed: int = 0  # servers of the same batch that did fit
    requested: int = 1
    proved: bool = True  # no more than these fit; False if the search for a batch stopped at its limit

    def sentence(self) -> str:
        """Return the counted reasons in a sentence that names no host, so that a tenant may read it."""
        return f"{self._counted()}{'' if self.proved else _MORE_MAY_FIT}"

    def _counted(self) -> str:
        if not self.hosts:
            return "there are no hosts"
        reasons = ", ".join(str(reason) for reason in self.reasons)
        counted = f"of {self.hosts} host{'s' if self.hosts > 1 else ''}: {reasons or 'all are suitable'}"
        return counted if not self.placed else f"{self.placed} of {self.requested} fit, then {counted}"

    def without_numbers(self) -> str:
        """Return the same without numbers, for operators who hide the size of their fleet."""
        if not self.reasons:
            return "no host is suitable"
        reasons = ", ".join(reason.many for reason in self.reasons)
        return f"hosts {reasons}{'' if self.proved else _MORE_MAY_FIT}"


def explain(spec: RequestSpec, fleet: Fleet, placed: tuple[HostId, ...] = (), *, proved: bool = True) -> Explanation:
    """Explain why no host admits another server of the request, after those of its batch that were placed.

    `proved` is that of the decision: another placement of the batch may fit more servers if it is False. The
    explanation is not proved either if it could not search all provider trees.
    """
    spec, fleet = _after_placing(spec, fleet, placed)
    remaining = fleet.is_host.copy()
    found: list[Reason] = []
    for constraint in _constraints(spec):
        column = constraint.allows(spec, fleet)
        if column is None:
            continue
        rejected = remaining & ~column
        if rejected.any():
            found += [reason for reason in constraint.reasons(spec, fleet, rejected) if reason.count]
            remaining &= column
    searched = not_together(spec, fleet, remaining)
    if searched is not None:
        found += [Reason(searched.never, *NOT_TOGETHER), Reason(searched.unknown, *_NOT_SEARCHED)]
        found = [reason for reason in found if reason.count]
        all_counted = spec.count == 1 and sum(reason.count for reason in found) == fleet.host_rows.size
        proved = (proved or all_counted) and not searched.unknown.any()
    found.sort(key=lambda reason: -reason.count)
    return Explanation(fleet.host_rows.size, tuple(found), len(placed), spec.count, proved)


class NoHost(CoveyError):
    """Internal: no host admits the servers of a request.

    It carries a copy of the fleet, so that the explanation is made after all locks are released.
    """

    code = "no_host"

    def __init__(
        self,
        spec: RequestSpec,
        fleet: Fleet,
        placed: tuple[HostId, ...] = (),
        *,
        proved: bool = True,
        known_reason: str | None = None,
    ) -> None:
        super().__init__(NO_VALID_HOST)
        self.fleet = fleet
        self._decided = spec, fleet, placed
        self._proved = proved
        self._known_reason = known_reason

    def explain(self, tenant_message: Callable[[Explanation], str]) -> NoValidHost:
        """Return the error for the caller, with a message for the tenant and the details for administrators."""
        if self._known_reason is not None:
            return NoValidHost(f"{NO_VALID_HOST} {self._known_reason}", self._known_reason)
        explanation = explain(*self._decided, proved=self._proved)
        return NoValidHost(f"{NO_VALID_HOST} {tenant_message(explanation)}", explanation.sentence())


def host_reasons(spec: RequestSpec, fleet: Fleet) -> dict[str, str | None]:
    """Return for each host, by name, the first reason that rules it out; None if it is suitable."""
    reasons = np.full(len(fleet), None, dtype=object)
    remaining = fleet.is_host.copy()
    for constraint in _constraints(spec):
        column = constraint.allows(spec, fleet)
        if column is None:
            continue
        for rows, sentence in constraint.explain_hosts(spec, fleet, np.flatnonzero(remaining & ~column)):
            reasons[rows] = sentence
        remaining &= column
    searched = not_together(spec, fleet, remaining)
    if searched is not None:
        reasons[searched.never], reasons[searched.unknown] = APART, _PERHAPS
    names = (host.name for host in fleet.hosts.of(fleet.host_rows))
    return dict(zip(names, reasons[fleet.host_rows].tolist(), strict=True))


def _constraints(spec: RequestSpec) -> tuple[Constraint, ...]:
    return FORCED if spec.forced else (*STATIC, *DYNAMIC)


def _after_placing(spec: RequestSpec, fleet: Fleet, placed: tuple[HostId, ...]) -> tuple[RequestSpec, Fleet]:
    """Return the request and the fleet that the next server of the batch sees."""
    if not placed:
        return spec, fleet
    later = fleet.copy()
    members_by_host = dict(spec.group.members_by_host)
    if needs_providers(spec, fleet, fleet.mask_of(placed)):
        TreeSearch(spec, fleet).serve(later, fleet.rows(placed).tolist(), np.zeros(len(fleet), dtype=np.int64))
    else:
        later.take_for(placed, spec.amounts)
    for host in placed:
        members_by_host[host] = members_by_host.get(host, 0) + 1
    return replace(spec, group=replace(spec.group, members_by_host=members_by_host)), later
