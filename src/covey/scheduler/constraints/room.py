"""A host needs room for one server of this size."""

from dataclasses import dataclass

import numpy as np

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec

_WORDS = ("VCPUs", "memory", "disk")
_UNITS = ("VCPUs", "MB of memory", "GB of disk")


@dataclass(frozen=True, slots=True)
class Room:
    """Enough VCPUs, memory and disk are free, by the allocation ratios and what is reserved, and given out so."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask:
        return fleet.fits(spec.amounts)

    def reasons(self, spec: RequestSpec, fleet: Fleet, lost: Mask) -> list[Reason]:
        found, rest = [], lost
        for free, wanted, word in zip(fleet.free, spec.amounts, _WORDS, strict=True):
            lacks = rest & (free < wanted) & bool(wanted)
            rest = rest & ~lacks
            found.append(Reason(lacks, f"lacks {word}", f"lack {word}"))
        given = fleet.gives(spec.amounts)
        if given is not None:
            found.append(Reason(rest & ~given, "gives out no such amounts", "give out no such amounts"))
        return found

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        short = [
            f"{max(0, int(free))} {unit} are free, {wanted} asked for"
            for free, wanted, unit in zip(fleet.free[:, row], spec.amounts, _UNITS, strict=True)
            if wanted and free < wanted
        ]
        odd = [
            f"{unit} are given out from {units.min_unit} to {units.max_unit} in steps of {units.step_size}, "
            f"{wanted} asked for"
            for units, wanted, unit in zip(fleet.hosts[row].units, spec.amounts, _UNITS, strict=True)
            if not units.allow(wanted)
        ]
        return "; ".join(short + odd)


def times_it_fits(spec: RequestSpec, fleet: Fleet) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many servers of this size each host has room for."""
    wanted = np.array([amount or 1 for amount in spec.amounts], dtype=np.int64)
    fits = np.maximum(fleet.free, 0) // wanted[:, None]
    asked = np.array([amount > 0 for amount in spec.amounts])
    smallest: np.ndarray[tuple[int], np.dtype[np.int64]] = fits[asked].min(axis=0)
    given = fleet.gives(spec.amounts)
    return smallest if given is None else np.where(given, smallest, 0)
