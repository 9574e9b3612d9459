"""A host takes servers while it is enabled and up."""

from dataclasses import dataclass

import numpy as np

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class Enabled:
    """An operator switched some hosts off."""

    def allows(self, _: RequestSpec, fleet: Fleet) -> Mask:
        return np.array([host.enabled for host in fleet.hosts], dtype=np.bool_)

    def reasons(self, _: RequestSpec, __: Fleet, lost: Mask) -> list[Reason]:
        return [Reason(lost, "is disabled", "are disabled")]

    def why_not(self, _: RequestSpec, __: Fleet, ___: int) -> str:
        return "it is disabled"


@dataclass(frozen=True, slots=True)
class Up:
    """Some hosts do not answer."""

    def allows(self, _: RequestSpec, fleet: Fleet) -> Mask:
        return np.array([host.up for host in fleet.hosts], dtype=np.bool_)

    def reasons(self, _: RequestSpec, __: Fleet, lost: Mask) -> list[Reason]:
        return [Reason(lost, "is down", "are down")]

    def why_not(self, _: RequestSpec, __: Fleet, ___: int) -> str:
        return "it is down"
