"""Metrics of a simulation over time: samples, and columns of them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, Direction
from covey.scheduler.fleet import RESOURCES, Fleet, Mask
from covey.simulation.cloud import SimulatedCloud

Columns = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class History:
    """The metrics in columns, one row for each sample."""

    at_s: Columns
    usage: Columns  # [sample, zone, resource class], from 0 to 1; zones sorted by name
    servers: Columns
    skew_mean: Columns  # [sample, scope], over the groups with an anti-affinity policy in it; NaN without any
    skew_worst: Columns
    refused: Columns  # [sample, reason], cumulative
    reasons: tuple[str, ...]
    zones: tuple[str, ...]
    classes: tuple[str, ...]  # resource classes that hosts have
    scopes: tuple[str, ...]
    changed_at_s: float | None = None  # when the what-ifs were applied


@dataclass(slots=True)
class MetricsRecorder:
    """Samples the metrics of a simulated cloud."""

    scopes: tuple[str, ...]
    zones: tuple[str, ...]
    classes: tuple[str, ...]
    changed_at_s: float | None = None
    _at: list[float] = field(default_factory=list)
    _usage: list[Columns] = field(default_factory=list)
    _servers: list[int] = field(default_factory=list)
    _skews: list[list[tuple[float, float]]] = field(default_factory=list)
    _refused: list[dict[str, int]] = field(default_factory=list)
    _size: int = -1
    _rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    _zone_of: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def sample(self, cloud: SimulatedCloud, at_s: float) -> None:
        self._at.append(at_s)
        self._usage.append(self._current_usage(cloud))
        self._servers.append(len(cloud.servers))
        self._skews.append([_skew(cloud, scope) for scope in self.scopes])
        self._refused.append(dict(cloud.counts.reasons))

    def history(self) -> History:
        reasons = tuple(sorted(self._refused[-1], key=lambda reason: (-self._refused[-1][reason], reason)))
        skews = np.array(self._skews, dtype=np.float64).reshape(len(self._at), len(self.scopes), 2)
        refused = [[row.get(reason, 0) for reason in reasons] for row in self._refused]
        return History(
            at_s=np.array(self._at, dtype=np.float64),
            usage=np.array(self._usage, dtype=np.float64),
            servers=np.array(self._servers, dtype=np.float64),
            skew_mean=skews[:, :, 0],
            skew_worst=skews[:, :, 1],
            refused=np.array(refused, dtype=np.float64).reshape(len(self._at), len(reasons)),
            reasons=reasons,
            zones=self.zones,
            classes=self.classes,
            scopes=self.scopes,
            changed_at_s=self.changed_at_s,
        )

    def _current_usage(self, cloud: SimulatedCloud) -> Columns:
        """Return the used share of the capacity of all hosts with their trees, by zone and resource class."""
        fleet = cloud.fleet
        if self._size != len(fleet):  # hosts were added since the last sample
            number = {zone: i for i, zone in enumerate(self.zones)}
            self._size, self._rows = len(fleet), np.flatnonzero(fleet.is_host[fleet.root])
            self._zone_of = np.array(
                [number[fleet.zone_of(root)] for root in fleet.root[self._rows].tolist()], dtype=np.intp
            )
        usage = np.zeros((len(self.zones), len(self.classes)))
        for column, name in enumerate(self.classes):
            line = fleet.inventories.classes[name]
            capacity, free = fleet.capacity[line, self._rows], fleet.free[line, self._rows]
            used = np.bincount(self._zone_of, weights=capacity - free, minlength=len(self.zones))
            whole = np.bincount(self._zone_of, weights=capacity, minlength=len(self.zones))
            usage[:, column] = used / np.maximum(whole, 1)
        return usage


def classes_of(fleet: Fleet) -> tuple[str, ...]:
    """Return VCPU, MEMORY_MB and DISK_GB, and the other resource classes that hosts and their trees have."""
    has: Mask = np.any(fleet.inventories.exists[:, fleet.is_host[fleet.root]], axis=1)
    others = (name for name, line in fleet.inventories.classes.items() if has[line] and name not in RESOURCES)
    return *RESOURCES, *sorted(others)


def _skew(cloud: SimulatedCloud, scope: str) -> tuple[float, float]:
    """Return the mean and maximum skew of the groups with an anti-affinity policy in the scope."""
    spread = np.zeros(len(cloud.groups), dtype=np.bool_)
    for group in cloud.groups.values():
        spread[group.number] = any(
            policy.kind.direction is Direction.SPREAD and policy.target is None and policy.scope.name == scope
            for policy in group.view.policies
        )
    skews = cloud.member_table.skews(spread, cloud.fleet, None if scope == HOST.name else cloud.start.scopes[scope])
    return (float(skews.mean()), float(skews.max())) if skews.size else (np.nan, np.nan)
