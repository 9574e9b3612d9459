"""Room: a host has enough free VCPUs, memory and disk for one server."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec

_WORDS = ("VCPUs", "memory", "disk")
_UNITS = ("VCPUs", "MB of memory", "GB of disk")


@dataclass(frozen=True, slots=True)
class Room:
    """The amounts are free, by allocation ratio and reserved amount, and the host's inventory allows their sizes."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask:
        return fleet.fits(spec.amounts)

    def reasons(self, spec: RequestSpec, fleet: Fleet, rejected: Mask) -> list[Reason]:
        found, rest = [], rejected
        for free, amount, word in zip(fleet.free, spec.amounts, _WORDS, strict=True):
            lacks = rest & (free < amount) & bool(amount)
            rest = rest & ~lacks
            found.append(Reason(lacks, f"lacks {word}", f"lack {word}"))
        allowed = fleet.allows_sizes(spec.amounts)
        if allowed is not None:
            one, many = "does not allow this allocation size", "do not allow this allocation size"
            found.append(Reason(rest & ~allowed, one, many))
        return found

    def explain_host(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        short = [
            f"{max(0, int(free))} {unit} are free, {amount} requested"
            for free, amount, unit in zip(fleet.free[:, row], spec.amounts, _UNITS, strict=True)
            if amount and free < amount
        ]
        sizes = [
            f"{unit} are allocated from {units.min_unit} to {units.max_unit} in steps of {units.step_size}, "
            f"{amount} requested"
            for units, amount, unit in zip(fleet.hosts[row].units, spec.amounts, _UNITS, strict=True)
            if not units.allow(amount)
        ]
        return "; ".join(short + sizes)


def count_fits(spec: RequestSpec, fleet: Fleet) -> NDArray[np.int64]:
    """Return how many servers of the requested size each host has room for."""
    amounts = np.array([amount or 1 for amount in spec.amounts], dtype=np.int64)
    fits = np.maximum(fleet.free, 0) // amounts[:, None]
    requested = np.array([amount > 0 for amount in spec.amounts])
    smallest: NDArray[np.int64] = fits[requested].min(axis=0)
    allowed = fleet.allows_sizes(spec.amounts)
    return smallest if allowed is None else np.where(allowed, smallest, 0)
