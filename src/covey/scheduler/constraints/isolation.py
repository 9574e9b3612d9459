"""Aggregates can keep requests out: those of other tenants, and those that do not ask for what they require."""

from dataclasses import dataclass

import numpy as np

from covey.scheduler.fleet import AggregateRecord, Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class TenantIsolation:
    """Hosts of an aggregate with filter_tenant_id metadata take only the projects it lists."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        reserved = [aggregate for aggregate in fleet.aggregates if aggregate.projects]
        if not reserved:
            return None
        closed = np.zeros(len(fleet), dtype=np.bool_)
        opened = np.zeros(len(fleet), dtype=np.bool_)
        for aggregate in reserved:
            mine = spec.requirements.project_id in aggregate.projects
            (opened if mine else closed)[fleet.rows(aggregate.hosts)] = True
        return ~closed | opened

    def reasons(self, _: RequestSpec, __: Fleet, lost: Mask) -> list[Reason]:
        return [Reason(lost, "is kept for other projects", "are kept for other projects")]

    def why_not(self, _: RequestSpec, __: Fleet, ___: int) -> str:
        return "an aggregate keeps it for other projects"


@dataclass(frozen=True, slots=True)
class ForbiddenAggregates:
    """Hosts of an aggregate that requires traits take only requests that require them all."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        closed = forbidden(spec, fleet)
        return ~fleet.mask_of(host for aggregate in closed for host in aggregate.hosts) if closed else None

    def reasons(self, _: RequestSpec, __: Fleet, lost: Mask) -> list[Reason]:
        one = "is in an aggregate that requires traits the request does not ask for"
        return [Reason(lost, one, one.replace("is in", "are in"))]

    def why_not(self, _: RequestSpec, __: Fleet, ___: int) -> str:
        return "it is in an aggregate that requires traits the request does not ask for"


def forbidden(spec: RequestSpec, fleet: Fleet) -> list[AggregateRecord]:
    """The aggregates that the request may not enter."""
    return [aggregate for aggregate in fleet.aggregates if not aggregate.traits <= spec.requirements.required_traits]
