"""Room: a host has enough of each resource for one server."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.serving import has_room, lacks_class

# Other classes have their own names.
_WORDS = {"VCPU": "VCPUs", "MEMORY_MB": "memory", "DISK_GB": "disk"}
_UNITS = {"VCPU": "VCPUs", "MEMORY_MB": "MB of memory", "DISK_GB": "GB of disk"}


@dataclass(frozen=True, slots=True)
class Room:
    """The amounts are free, by allocation ratio and reserved amount, and the host's inventory allows their sizes."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask:
        return has_room(spec, fleet)

    def reasons(self, spec: RequestSpec, fleet: Fleet, rejected: Mask) -> list[Reason]:
        found, rest = [], rejected
        for name, amount in spec.total.items():
            lacks = rest & lacks_class(fleet, name, amount)
            rest, word = rest & ~lacks, _WORDS.get(name, name)
            found.append(Reason(lacks, f"lacks {word}", f"lack {word}"))
        allowed = fleet.inventories.allows_sizes(spec.total)
        if allowed is not None:
            one, many = "does not allow this allocation size", "do not allow this allocation size"
            found.append(Reason(rest & ~allowed, one, many))
            rest = rest & allowed
        one = "has no providers that serve it together"
        return [*found, Reason(rest, one, one.replace("has", "have"))]

    def explain_host(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        short, sizes = [], []
        for name, amount in spec.total.items():
            unit, free = _UNITS.get(name, name), int(fleet.inventories.free_of(name)[row])
            units = fleet.inventories.units_at(name, row)
            if free < amount:
                short.append(f"{max(0, free)} {unit} are free, {amount} requested")
            if not units.allow(amount):
                allowed = f"from {units.min_unit} to {units.max_unit} in steps of {units.step_size}"
                sizes.append(f"{unit} are allocated {allowed}, {amount} requested")
        return "; ".join(short + sizes) or "its resource providers do not serve the request together"


def count_fits(spec: RequestSpec, fleet: Fleet) -> NDArray[np.int64]:
    """Return how many servers of the requested size each host has room for."""
    return fleet.inventories.count_fits(spec.amounts)
