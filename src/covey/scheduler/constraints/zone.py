"""A request may ask for an availability zone."""

from dataclasses import dataclass

import numpy as np

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class Zone:
    """Only hosts of the zone that was asked for; the default zone's hosts have none of their own."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        zone = spec.requirements.zone
        if zone is None:
            return None
        return np.array([fleet.zone_of(host) == zone for host in fleet.hosts], dtype=np.bool_)

    def reasons(self, spec: RequestSpec, _: Fleet, lost: Mask) -> list[Reason]:
        zone = spec.requirements.zone
        return [Reason(lost, f"is not in zone {zone}", f"are not in zone {zone}")]

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        return f"it is in zone {fleet.zone_of(fleet.hosts[row])}, not {spec.requirements.zone}"
