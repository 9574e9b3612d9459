"""What is measured as a simulation goes on: a row for each look, in columns at the end."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, PolicyKind
from covey.scheduler.fleet import RESOURCES
from covey.simulation.world import World

Columns = NDArray[np.float64]

_APART = {PolicyKind.ANTI_AFFINITY, PolicyKind.SOFT_ANTI_AFFINITY}


@dataclass(frozen=True, slots=True)
class History:
    """A row a look."""

    at_s: Columns
    use: Columns  # [look, zone, resource], from 0 to 1; the zones in the order of their names
    servers: Columns
    skew_mean: Columns  # [look, scope], over the groups that are to be spread in it; not a number where there are none
    skew_worst: Columns
    refused: Columns  # [look, reason], so far
    reasons: tuple[str, ...]
    zones: tuple[str, ...]
    scopes: tuple[str, ...]
    changed_at_s: float | None = None  # when what-ifs came true


@dataclass(slots=True)
class Gauges:
    """Looks at a world from time to time."""

    scopes: tuple[str, ...]
    zones: tuple[str, ...]
    changed_at_s: float | None = None
    _at: list[float] = field(default_factory=list)
    _use: list[Columns] = field(default_factory=list)
    _servers: list[int] = field(default_factory=list)
    _skews: list[list[tuple[float, float]]] = field(default_factory=list)
    _refused: list[dict[str, int]] = field(default_factory=list)
    _zone_of: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def look(self, world: World, at_s: float) -> None:
        self._at.append(at_s)
        self._use.append(self._use_now(world))
        self._servers.append(len(world.servers))
        self._skews.append([_skew(world, scope) for scope in self.scopes])
        self._refused.append(dict(world.counts.reasons))

    def history(self) -> History:
        reasons = tuple(sorted(self._refused[-1], key=lambda reason: (-self._refused[-1][reason], reason)))
        skews = np.array(self._skews, dtype=np.float64).reshape(len(self._at), len(self.scopes), 2)
        refused = [[row.get(reason, 0) for reason in reasons] for row in self._refused]
        return History(
            at_s=np.array(self._at, dtype=np.float64),
            use=np.array(self._use, dtype=np.float64),
            servers=np.array(self._servers, dtype=np.float64),
            skew_mean=skews[:, :, 0],
            skew_worst=skews[:, :, 1],
            refused=np.array(refused, dtype=np.float64).reshape(len(self._at), len(reasons)),
            reasons=reasons,
            zones=self.zones,
            scopes=self.scopes,
            changed_at_s=self.changed_at_s,
        )

    def _use_now(self, world: World) -> Columns:
        """By zone and resource, of all that a zone's hosts have, be they up or not."""
        fleet = world.fleet
        if self._zone_of.size != len(fleet):  # more hosts than at the last look
            number = {zone: i for i, zone in enumerate(self.zones)}
            self._zone_of = np.array([number[fleet.zone_of(host)] for host in fleet.hosts], dtype=np.intp)
        found = np.zeros((len(self.zones), len(RESOURCES)))
        for kind, (capacity, free) in enumerate(zip(fleet.capacity, fleet.free, strict=True)):
            used = np.bincount(self._zone_of, weights=capacity - free, minlength=len(self.zones))
            found[:, kind] = used / np.maximum(np.bincount(self._zone_of, weights=capacity), 1)
        return found


def _skew(world: World, scope: str) -> tuple[float, float]:
    """The mean and the worst, over the groups that have a policy to be spread in the scope."""
    spread = np.zeros(len(world.groups), dtype=np.bool_)
    for group in world.groups.values():
        spread[group.number] = any(
            policy.kind in _APART and policy.target is None and policy.scope.name == scope
            for policy in group.view.policies
        )
    found = world.member_table.skews(spread, world.fleet, None if scope == HOST.name else world.start.scopes[scope])
    return (float(found.mean()), float(found.max())) if found.size else (np.nan, np.nan)
