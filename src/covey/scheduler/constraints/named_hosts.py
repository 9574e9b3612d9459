"""A request may name the hosts that it wants, or wants to be away from."""

from dataclasses import dataclass

import numpy as np

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class NamedHosts:
    """Only these hosts, and none of those: a named destination, the hints, the host that a server leaves."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        only, other = spec.requirements.only_hosts, spec.requirements.other_hosts
        if only is None and not other:
            return None
        may = np.ones(len(fleet), dtype=np.bool_) if only is None else fleet.mask_of(only)
        may[fleet.rows(other)] = False
        return may

    def reasons(self, spec: RequestSpec, fleet: Fleet, lost: Mask) -> list[Reason]:
        away = lost & fleet.mask_of(spec.requirements.other_hosts)
        return [
            Reason(away, "is excluded by the request", "are excluded by the request"),
            Reason(lost & ~away, "is not the one asked for", "are not the ones asked for"),
        ]

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        excluded = fleet.hosts[row].id in spec.requirements.other_hosts
        return "the request excludes it" if excluded else "the request asks for another host"
