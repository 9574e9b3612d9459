"""Metrics of a simulation over time: samples, and columns of them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, Direction
from covey.scheduler.fleet import RESOURCES
from covey.simulation.cloud import SimulatedCloud

Columns = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class History:
    """The metrics in columns, one row for each sample."""

    at_s: Columns
    usage: Columns  # [sample, zone, resource], from 0 to 1; zones sorted by name
    servers: Columns
    skew_mean: Columns  # [sample, scope], over the groups with an anti-affinity policy in it; NaN without any
    skew_worst: Columns
    refused: Columns  # [sample, reason], cumulative
    reasons: tuple[str, ...]
    zones: tuple[str, ...]
    scopes: tuple[str, ...]
    changed_at_s: float | None = None  # when the what-ifs were applied


@dataclass(slots=True)
class MetricsRecorder:
    """Samples the metrics of a simulated cloud."""

    scopes: tuple[str, ...]
    zones: tuple[str, ...]
    changed_at_s: float | None = None
    _at: list[float] = field(default_factory=list)
    _usage: list[Columns] = field(default_factory=list)
    _servers: list[int] = field(default_factory=list)
    _skews: list[list[tuple[float, float]]] = field(default_factory=list)
    _refused: list[dict[str, int]] = field(default_factory=list)
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
            scopes=self.scopes,
            changed_at_s=self.changed_at_s,
        )

    def _current_usage(self, cloud: SimulatedCloud) -> Columns:
        """Return the used share of the capacity of all hosts, up or down, by zone and resource."""
        fleet = cloud.fleet
        if self._zone_of.size != fleet.host_rows.size:  # hosts were added since the last sample
            number = {zone: i for i, zone in enumerate(self.zones)}
            self._zone_of = np.array([number[fleet.zone_of(row)] for row in fleet.host_rows.tolist()], dtype=np.intp)
        usage = np.zeros((len(self.zones), len(RESOURCES)))
        for kind in range(len(RESOURCES)):
            capacity, free = fleet.capacity[kind, fleet.host_rows], fleet.free[kind, fleet.host_rows]
            used = np.bincount(self._zone_of, weights=capacity - free, minlength=len(self.zones))
            usage[:, kind] = used / np.maximum(np.bincount(self._zone_of, weights=capacity), 1)
        return usage


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
