"""Fleet: all hosts in NumPy columns, one row for each host; use changes in place."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from covey.model.ids import HostId, ProjectId, ScopeId
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits
from covey.scheduler.request_spec import HostRequirements

T = TypeVar("T", bound=np.generic)
Mask = NDArray[np.bool_]
Column = NDArray[np.float64]
Rows = NDArray[np.intp]

NO_DOMAIN = -1  # the domain of a host that is in none, or in two
UNLIMITED = 2**62  # more than any host has
_MIN_RUN = 4  # mean length from which runs of one domain are worth using
_FEW = 8  # candidates are few below one host in eight
MAX_SIZES = 32  # server sizes whose fit is cached
RESOURCES = ("VCPU", "MEMORY_MB", "DISK_GB")


@dataclass(frozen=True, slots=True)
class HostRecord:
    """One host: a row of the columns."""

    id: HostId
    name: str
    capacity: tuple[int, int, int]
    used: tuple[int, int, int]
    enabled: bool = True
    up: bool = True
    zone: str | None = None
    traits: frozenset[str] = frozenset()
    units: tuple[AllocationUnits, AllocationUnits, AllocationUnits] = (NO_UNIT_LIMITS, NO_UNIT_LIMITS, NO_UNIT_LIMITS)


@dataclass(frozen=True, slots=True)
class AggregateRecord:
    """The part of an aggregate that the scheduler uses."""

    id: int
    uuid: str
    hosts: frozenset[HostId]
    scope: ScopeId | None = None
    projects: frozenset[ProjectId] = frozenset()  # if any, its hosts admit only these
    traits: frozenset[str] = frozenset()  # if any, its hosts admit only requests that require them all


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one scope: which domain each host is in."""

    of_host: NDArray[np.intp]  # one entry for each host; NO_DOMAIN where it is in none, or in two
    ambiguous: Mask  # hosts that were modified outside Covey and belong to two domains
    names: tuple[str, ...]  # the real identifier of each domain
    _numbers: dict[str, int]
    _runs: tuple[Rows, Rows, Rows] | None  # domain, length and start of each run of neighbours in one domain
    _is_host: bool  # the host scope: each row is its own domain

    def number(self, name: str) -> int:
        """Return the number of the domain with a real identifier; one that no host has if the domain does not exist."""
        return self._numbers.get(name, NO_DOMAIN - 1)

    def per_host(self, of_domain: NDArray[T]) -> NDArray[T]:
        """Turn a value for each domain, with one for NO_DOMAIN at the end, into a value for each host."""
        if self._is_host:
            return of_domain[:NO_DOMAIN]
        if self._runs is None:
            return of_domain[self.of_host]
        domains, lengths, _ = self._runs
        return np.repeat(of_domain[domains], lengths)

    def highest(self, of_domain: Column, candidates: Mask) -> Mask:
        """Return the candidates whose domain has the highest value; there is at least one candidate."""
        if self._runs is None:
            return highest(self.per_host(of_domain), candidates)
        domains, lengths, starts = self._runs
        values = np.where(np.logical_or.reduceat(candidates, starts), of_domain[domains], -np.inf)
        return np.repeat(values == values.max(), lengths) & candidates


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each free resource (Nova's cpu, ram and disk weight multipliers)."""

    cpu: float = 1.0
    ram: float = 1.0
    disk: float = 1.0


@dataclass(slots=True)
class Fleet:
    """The columns. A structural change builds a new fleet; use changes in place."""

    hosts: Sequence[HostRecord]
    aggregates: Sequence[AggregateRecord] = ()
    weights: Weights = Weights()
    default_zone: str = "nova"
    ids: NDArray[np.int64] = field(init=False)
    row_of: dict[HostId, int] = field(init=False)
    available: Mask = field(init=False)  # hosts that are enabled and up
    capacity: NDArray[np.int64] = field(init=False)
    free: NDArray[np.int64] = field(init=False)
    # min_unit, max_unit and step_size; None if all hosts allow any allocation size
    units: NDArray[np.int64] | None = field(init=False)
    weight: Column = field(init=False)
    static_masks: dict[HostRequirements, Mask] = field(init=False, default_factory=dict)
    _sizes: dict[tuple[int, ...], int] = field(init=False, default_factory=dict)
    _amounts: NDArray[np.int64] = field(init=False)
    _fits: NDArray[np.bool_] = field(init=False)
    _sizes_allowed: NDArray[np.bool_] | None = field(init=False)  # the same for allocation sizes alone
    _per_unit: tuple[float, ...] = field(init=False)
    _zones: frozenset[str] | None = field(init=False, default=None)
    _domains: dict[ScopeId | None, Domains] = field(init=False, default_factory=dict)
    latest_places: "tuple[Mapping[int, int] | None, tuple[Rows, NDArray[np.int64]]]" = field(
        init=False, default=(None, (np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64)))
    )

    def __post_init__(self) -> None:
        self.hosts = sorted(self.hosts, key=lambda host: host.id)  # rows are in the order of ids
        self.ids = np.array([host.id for host in self.hosts], dtype=np.int64)
        self.row_of = {host.id: row for row, host in enumerate(self.hosts)}
        self.available = np.array([host.enabled and host.up for host in self.hosts], dtype=np.bool_)
        shape = (len(self.hosts), 3)
        self.capacity = np.array([host.capacity for host in self.hosts], dtype=np.int64).reshape(shape).T.copy()
        used = np.array([host.used for host in self.hosts], dtype=np.int64).reshape(shape).T
        self.free = self.capacity - used
        largest = self.capacity.max(axis=1, initial=1).astype(np.float64)
        multipliers = (self.weights.cpu, self.weights.ram, self.weights.disk)
        self._per_unit = tuple(weight / float(most) for weight, most in zip(multipliers, largest, strict=True))
        self.weight = self._weigh(*self.free)
        has_units = any(units != NO_UNIT_LIMITS for host in self.hosts for units in host.units)
        self.units = np.array([host.units for host in self.hosts], dtype=np.int64).T.copy() if has_units else None
        self._forget_sizes()

    def __len__(self) -> int:
        return len(self.hosts)

    def take(self, row: int, amounts: Sequence[int]) -> None:
        """Take amounts on the host of a row; negative amounts are given back."""
        free = self.free[:, row]
        free -= amounts
        self.weight[row] = self._weigh(*free)
        if self._sizes:
            self._fits[:, row] = (free >= self._amounts).all(axis=1)
            if self._sizes_allowed is not None:
                self._fits[:, row] &= self._sizes_allowed[:, row]

    def take_many(self, rows: Rows, amounts: NDArray[np.int64]) -> None:
        """Take amounts on many hosts at once: one column for each row; a row may repeat."""
        for resource in range(len(RESOURCES)):
            np.subtract.at(self.free[resource], rows, amounts[resource])
        free = self.free[:, rows]
        self.weight[rows] = self._weigh(*free)
        if self._sizes:
            self._fits[:, rows] = (free[None] >= self._amounts[:, :, None]).all(axis=1)
            if self._sizes_allowed is not None:
                self._fits[:, rows] &= self._sizes_allowed[:, rows]

    def take_for(self, hosts: Sequence[HostId], amounts: Sequence[int]) -> None:
        """Take the same amounts on each of the hosts."""
        if len(hosts) == 1:
            self.take(self.row_of[hosts[0]], amounts)
            return
        rows = self.rows(hosts)
        self.take_many(rows, np.tile(np.array(amounts, dtype=np.int64)[:, None], rows.size))

    def fits(self, amounts: tuple[int, int, int]) -> Mask:
        """Return the hosts that have room for the amounts and allow their sizes; cached, and kept up to date."""
        number = self._sizes.get(amounts)
        if number is None:
            number = self._add_size(amounts)
        mask: Mask = self._fits[number]
        return mask

    def allows_sizes(self, amounts: tuple[int, int, int]) -> Mask | None:
        """Return the hosts whose inventory allows these allocation sizes, free or not; None if all allow any."""
        if self.units is None:
            return None
        least, most, step = self.units
        requested = np.array(amounts, dtype=np.int64)[:, None]
        mask: Mask = ((requested == 0) | ((least <= requested) & (requested <= most) & (requested % step == 0))).all(
            axis=0
        )
        return mask

    def _add_size(self, amounts: tuple[int, int, int]) -> int:
        if len(self._sizes) >= MAX_SIZES:
            self._forget_sizes()
        # A resource that is not requested is not checked: a diskless server fits a host with an over-full disk.
        requested = np.array([amount or -UNLIMITED for amount in amounts], dtype=np.int64)
        mask = (self.free >= requested[:, None]).all(axis=0)
        allowed = self.allows_sizes(amounts)
        if allowed is not None and self._sizes_allowed is not None:
            mask &= allowed
            self._sizes_allowed = np.vstack([self._sizes_allowed, allowed])
        self._amounts = np.vstack([self._amounts, requested])
        self._fits = np.vstack([self._fits, mask])
        self._sizes[amounts] = len(self._sizes)
        return self._sizes[amounts]

    def _forget_sizes(self) -> None:
        self._sizes = {}
        self._amounts = np.empty((0, len(RESOURCES)), dtype=np.int64)
        self._fits = np.empty((0, len(self)), dtype=np.bool_)
        self._sizes_allowed = None if self.units is None else np.empty((0, len(self)), dtype=np.bool_)

    def copy(self) -> "Fleet":
        """Return a fleet of the same hosts whose use changes independently."""
        other = copy(self)
        other.free, other.weight = self.free.copy(), self.weight.copy()
        other._forget_sizes()  # noqa: SLF001 -- the same class
        return other

    def weight_after(self, amounts: tuple[int, int, int]) -> Callable[[int, int], float]:
        """Return a function from (row, times) to the host's weight after it took the amounts so many times."""
        weigh: Callable[..., float] = self._weigh
        free, (vcpus, memory_mb, disk_gb) = self.free.item, amounts

        def weight(row: int, times: int) -> float:
            left = free(0, row) - vcpus * times, free(1, row) - memory_mb * times, free(2, row) - disk_gb * times
            return weigh(*left)

        return weight

    def _weigh(self, vcpus: Any, memory_mb: Any, disk_gb: Any) -> Any:  # noqa: ANN401 -- numbers or columns
        """Term by term, so that equal room weighs the same to the last bit in a column and as a number."""
        cpu, ram, disk = self._per_unit
        return vcpus * cpu + memory_mb * ram + disk_gb * disk

    @property
    def zones(self) -> frozenset[str]:
        """The availability zones that have hosts."""
        if self._zones is None:
            self._zones = frozenset(map(self.zone_of, self.hosts))
        return self._zones

    def zone_of(self, host: HostRecord) -> str:
        """Return the host's availability zone, or the default zone if it has none."""
        return host.zone or self.default_zone

    def rows(self, hosts: Iterable[HostId]) -> Rows:
        """Return the rows of those of the hosts that the fleet has."""
        found = [self.row_of[host] for host in hosts if host in self.row_of]
        return np.array(found, dtype=np.intp)

    def mask_of(self, hosts: Iterable[HostId]) -> Mask:
        """Return a mask of the hosts."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self.rows(hosts)] = True
        return mask

    def domains(self, scope: ScopeId | None) -> Domains:
        """Return the domains of a scope; None is the host scope, in which each host is a domain."""
        if scope not in self._domains:
            self._domains[scope] = self._find_domains(scope)
        return self._domains[scope]

    def _find_domains(self, scope: ScopeId | None) -> Domains:
        if scope is None:
            names = tuple(host.name for host in self.hosts)
            ambiguous = np.zeros(len(self), dtype=np.bool_)
            return _domains(np.arange(len(self), dtype=np.intp), names, ambiguous, is_host=True)
        aggregates = [aggregate for aggregate in self.aggregates if aggregate.scope == scope]
        of_host = np.full(len(self), NO_DOMAIN, dtype=np.intp)
        ambiguous = np.zeros(len(self), dtype=np.bool_)
        for number, aggregate in enumerate(aggregates):
            rows = self.rows(aggregate.hosts)
            ambiguous[rows[of_host[rows] != NO_DOMAIN]] = True
            of_host[rows] = number
        of_host[ambiguous] = NO_DOMAIN
        return _domains(of_host, tuple(str(aggregate.id) for aggregate in aggregates), ambiguous)


def _domains(of_host: NDArray[np.intp], names: tuple[str, ...], ambiguous: Mask, *, is_host: bool = False) -> Domains:
    numbers = {name: i for i, name in enumerate(names)}
    return Domains(of_host, ambiguous, names, numbers, None if is_host else _runs(of_host), is_host)


def _runs(of_host: NDArray[np.intp]) -> tuple[Rows, Rows, Rows] | None:
    """Return the runs of neighbours in one domain; None where they are short. Racks usually number hosts in runs."""
    starts = np.flatnonzero(np.diff(of_host, prepend=of_host[:1] - 1)) if of_host.size else of_host
    if not of_host.size or starts.size * _MIN_RUN > of_host.size:
        return None
    return of_host[starts], np.diff(starts, append=of_host.size), starts


def highest(scores: Column, candidates: Mask) -> Mask:
    """Return the candidates with the highest score; there is at least one candidate."""
    among = np.where(candidates, scores, -np.inf)
    mask: Mask = (among == among.max()) & candidates
    return mask


def best_rows(scores: Column, candidates: Mask) -> Rows:
    """Return the rows of the candidates with the highest score; where they are few, look at those alone."""
    if np.count_nonzero(candidates) * _FEW > candidates.size:
        return np.flatnonzero(highest(scores, candidates))
    rows = np.flatnonzero(candidates)
    among = scores[rows]
    best: Rows = rows[among == among.max()]
    return best


def places_by_row(fleet: Fleet, places: Mapping[int, int]) -> tuple[Rows, NDArray[np.int64]]:
    """Return the rows on which a group's members hold places, and how many do."""
    latest, found = fleet.latest_places
    if latest is not places:  # every policy of a group asks for the same places
        try:
            rows, counts = [fleet.row_of[HostId(host)] for host in places], [*places.values()]
        except KeyError:  # the fleet does not have a member's host yet, or any more
            known = [(fleet.row_of[HostId(host)], n) for host, n in places.items() if host in fleet.row_of]
            rows, counts = [row for row, _ in known], [n for _, n in known]
        found = np.array(rows, dtype=np.intp), np.array(counts, dtype=np.int64)
        fleet.latest_places = places, found
    return found


def counts_by_domain(domains: Domains, fleet: Fleet, places: Mapping[int, int]) -> NDArray[np.int64]:
    """Return how many members of a group hold a place in each domain; the last entry counts hosts in no domain."""
    counts = np.zeros(len(domains.names) + 1, dtype=np.int64)
    if places:
        rows, numbers = places_by_row(fleet, places)
        np.add.at(counts, domains.of_host[rows], numbers)
    return counts
