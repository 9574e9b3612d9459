"""Fleet: every host in columns, a row a host, and how changes bring it up to date."""

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

NO_DOMAIN = -1  # the domain of a host that is in none
NEVER = 2**62  # more than any host has
_WORTH_IT = 4  # hosts in a stretch, on average
_FEW = 8  # less than one host in so many
MOST_SIZES = 32  # of servers whose fit is remembered
RESOURCES = ("VCPU", "MEMORY_MB", "DISK_GB")


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What the columns are made of: one host."""

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
    """What the fleet needs to know of one aggregate."""

    id: int
    uuid: str
    hosts: frozenset[HostId]
    scope: ScopeId | None = None
    projects: frozenset[ProjectId] = frozenset()  # if any, only these may use its hosts
    traits: frozenset[str] = frozenset()  # if any, only requests that require them all may


@dataclass(frozen=True, slots=True)
class Domains:
    """One scope: which domain each host is in, and which hosts each domain has."""

    of_host: NDArray[np.intp]  # a row a host; NOWHERE where it is in none, or torn
    ambiguous: Mask  # hosts that outside hands put in two domains: no policy of the scope can be sure of them
    names: tuple[str, ...]  # the real identifier of each domain
    _sorted: Rows  # hosts by domain, so that each domain is a slice
    _starts: Rows
    _numbers: dict[str, int]
    _runs: tuple[Rows, Rows, Rows] | None  # the domain, the length and the start of each stretch of neighbours
    _is_host: bool  # each host is its own domain, in the order of the rows

    def number(self, name: str) -> int:
        """The number of the domain with that real identifier; one that no host has when there is none."""
        return self._numbers.get(name, NO_DOMAIN - 1)

    def spread(self, of_domain: NDArray[T]) -> NDArray[T]:
        """A value for each domain (and one for nowhere at the end) becomes a value for each host."""
        if self._is_host:
            return of_domain[:NO_DOMAIN]
        if self._runs is None:
            return of_domain[self.of_host]
        domains, lengths, _ = self._runs
        return np.repeat(of_domain[domains], lengths)

    def highest(self, of_domain: Column, may: Mask) -> Mask:
        """Those of the hosts that may whose domain has the highest value; somebody must be allowed."""
        if self._runs is None:
            return highest(self.spread(of_domain), may)
        domains, lengths, starts = self._runs
        values = np.where(np.logical_or.reduceat(may, starts), of_domain[domains], -np.inf)
        return np.repeat(values == values.max(), lengths) & may

    def rows_in(self, domain: int) -> Rows:
        """The hosts of one domain."""
        return self._sorted[self._starts[domain] : self._starts[domain + 1]]


@dataclass(frozen=True, slots=True)
class Weights:
    """How much an operator likes free room of each kind (Nova's ram, cpu and disk multipliers)."""

    cpu: float = 1.0
    ram: float = 1.0
    disk: float = 1.0


@dataclass(slots=True)
class Fleet:
    """The columns. Structure is fixed when it is built; use changes in place."""

    hosts: Sequence[HostRecord]
    aggregates: Sequence[AggregateRecord] = ()
    weights: Weights = Weights()
    default_zone: str = "nova"
    ids: NDArray[np.int64] = field(init=False)
    row_of: dict[HostId, int] = field(init=False)
    takes: Mask = field(init=False)  # hosts that are enabled and up
    capacity: NDArray[np.int64] = field(init=False)
    free: NDArray[np.int64] = field(init=False)
    units: NDArray[np.int64] | None = field(init=False)  # least, most and step; None if all hosts give any amount
    weight: Column = field(init=False)
    static_masks: dict[HostRequirements, Mask] = field(init=False, default_factory=dict)
    _sizes: dict[tuple[int, ...], int] = field(init=False, default_factory=dict)
    _wanted: NDArray[np.int64] = field(init=False)
    _fits: NDArray[np.bool_] = field(init=False)
    _given: NDArray[np.bool_] | None = field(init=False)  # the same for units alone
    _per_unit: tuple[float, ...] = field(init=False)
    _zones: frozenset[str] | None = field(init=False, default=None)
    _domains: dict[ScopeId | None, Domains] = field(init=False, default_factory=dict)
    latest_places: "tuple[Mapping[int, int] | None, tuple[Rows, NDArray[np.int64]]]" = field(
        init=False, default=(None, (np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64)))
    )

    def __post_init__(self) -> None:
        self.hosts = sorted(self.hosts, key=lambda host: host.id)  # so that a host's row is found by its id
        self.ids = np.array([host.id for host in self.hosts], dtype=np.int64)
        self.row_of = {host.id: row for row, host in enumerate(self.hosts)}
        self.takes = np.array([host.enabled and host.up for host in self.hosts], dtype=np.bool_)
        shape = (len(self.hosts), 3)
        self.capacity = np.array([host.capacity for host in self.hosts], dtype=np.int64).reshape(shape).T.copy()
        used = np.array([host.used for host in self.hosts], dtype=np.int64).reshape(shape).T
        self.free = self.capacity - used
        largest = self.capacity.max(axis=1, initial=1).astype(np.float64)
        likes = (self.weights.cpu, self.weights.ram, self.weights.disk)
        self._per_unit = tuple(like / float(most) for like, most in zip(likes, largest, strict=True))
        self.weight = self._weigh(*self.free)
        picky = any(units != NO_UNIT_LIMITS for host in self.hosts for units in host.units)
        self.units = np.array([host.units for host in self.hosts], dtype=np.int64).T.copy() if picky else None
        self._forget_sizes()

    def __len__(self) -> int:
        return len(self.hosts)

    def take(self, row: int, amounts: Sequence[int]) -> None:
        """Room is taken on a host, or given back where amounts are negative."""
        free = self.free[:, row]
        free -= amounts
        self.weight[row] = self._weigh(*free)
        if self._sizes:
            self._fits[:, row] = (free >= self._wanted).all(axis=1)
            if self._given is not None:
                self._fits[:, row] &= self._given[:, row]

    def take_many(self, rows: Rows, amounts: NDArray[np.int64]) -> None:
        """The same for many hosts at once; amounts has a column each, and a host may come more than once."""
        for kind in range(len(RESOURCES)):
            np.subtract.at(self.free[kind], rows, amounts[kind])
        free = self.free[:, rows]
        self.weight[rows] = self._weigh(*free)
        if self._sizes:
            self._fits[:, rows] = (free[None] >= self._wanted[:, :, None]).all(axis=1)
            if self._given is not None:
                self._fits[:, rows] &= self._given[:, rows]

    def take_for(self, hosts: Sequence[HostId], amounts: Sequence[int]) -> None:
        """The same amounts on each of the hosts."""
        if len(hosts) == 1:
            self.take(self.row_of[hosts[0]], amounts)
            return
        rows = self.rows(hosts)
        self.take_many(rows, np.tile(np.array(amounts, dtype=np.int64)[:, None], rows.size))

    def fits(self, amounts: tuple[int, int, int]) -> Mask:
        """Which hosts have room for so much and give it out. Worked out once a size, and kept true as room is taken."""
        number = self._sizes.get(amounts)
        if number is None:
            number = self._learn(amounts)
        mask: Mask = self._fits[number]
        return mask

    def gives(self, amounts: tuple[int, int, int]) -> Mask | None:
        """Which hosts give out such amounts, be there room or not; None if all do, whatever the amounts."""
        if self.units is None:
            return None
        least, most, step = self.units
        wanted = np.array(amounts, dtype=np.int64)[:, None]
        mask: Mask = ((wanted == 0) | ((least <= wanted) & (wanted <= most) & (wanted % step == 0))).all(axis=0)
        return mask

    def _learn(self, amounts: tuple[int, int, int]) -> int:
        if len(self._sizes) >= MOST_SIZES:
            self._forget_sizes()
        # What nobody asks for does not have to be there: an over-full disk is no matter to a diskless server.
        wanted = np.array([amount or -NEVER for amount in amounts], dtype=np.int64)
        mask = (self.free >= wanted[:, None]).all(axis=0)
        given = self.gives(amounts)
        if given is not None and self._given is not None:
            mask &= given
            self._given = np.vstack([self._given, given])
        self._wanted = np.vstack([self._wanted, wanted])
        self._fits = np.vstack([self._fits, mask])
        self._sizes[amounts] = len(self._sizes)
        return self._sizes[amounts]

    def _forget_sizes(self) -> None:
        self._sizes = {}
        self._wanted = np.empty((0, len(RESOURCES)), dtype=np.int64)
        self._fits = np.empty((0, len(self)), dtype=np.bool_)
        self._given = None if self.units is None else np.empty((0, len(self)), dtype=np.bool_)

    def copy(self) -> "Fleet":
        """The same hosts, whose room can be taken without anybody else noticing."""
        other = copy(self)
        other.free, other.weight = self.free.copy(), self.weight.copy()
        other._forget_sizes()  # noqa: SLF001 -- it is one of us
        return other

    def weight_after(self, amounts: tuple[int, int, int]) -> Callable[[int, int], float]:
        """What the host of a row would weigh, had it taken so much so many times."""
        weigh: Callable[..., float] = self._weigh
        free, (vcpus, memory_mb, disk_gb) = self.free.item, amounts

        def weight(row: int, times: int) -> float:
            left = free(0, row) - vcpus * times, free(1, row) - memory_mb * times, free(2, row) - disk_gb * times
            return weigh(*left)

        return weight

    def _weigh(self, vcpus: Any, memory_mb: Any, disk_gb: Any) -> Any:  # noqa: ANN401 -- a host's numbers, or columns
        """Step by step, so that equal room weighs equally to the last bit, in a column and alone."""
        cpu, ram, disk = self._per_unit
        return vcpus * cpu + memory_mb * ram + disk_gb * disk

    @property
    def zones(self) -> frozenset[str]:
        """The availability zones that have hosts."""
        if self._zones is None:
            self._zones = frozenset(map(self.zone_of, self.hosts))
        return self._zones

    def zone_of(self, host: HostRecord) -> str:
        """The availability zone that a host counts as."""
        return host.zone or self.default_zone

    def rows(self, hosts: Iterable[HostId]) -> Rows:
        """The rows of those of the hosts that exist."""
        found = [self.row_of[host] for host in hosts if host in self.row_of]
        return np.array(found, dtype=np.intp)

    def mask_of(self, hosts: Iterable[HostId]) -> Mask:
        """A column that is true for those hosts."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self.rows(hosts)] = True
        return mask

    def domains(self, scope: ScopeId | None) -> Domains:
        """The domains of a scope; of None, the host scope, each host is one."""
        if scope not in self._domains:
            self._domains[scope] = self._find_domains(scope)
        return self._domains[scope]

    def _find_domains(self, scope: ScopeId | None) -> Domains:
        if scope is None:
            names = tuple(host.name for host in self.hosts)
            whole = np.zeros(len(self), dtype=np.bool_)
            return _domains(np.arange(len(self), dtype=np.intp), names, whole, is_host=True)
        members = [aggregate for aggregate in self.aggregates if aggregate.scope == scope]
        of_host = np.full(len(self), NO_DOMAIN, dtype=np.intp)
        in_two = np.zeros(len(self), dtype=np.bool_)
        for number, aggregate in enumerate(members):
            rows = self.rows(aggregate.hosts)
            in_two[rows[of_host[rows] != NO_DOMAIN]] = True
            of_host[rows] = number
        of_host[in_two] = NO_DOMAIN
        return _domains(of_host, tuple(str(aggregate.id) for aggregate in members), in_two)


def _domains(of_host: NDArray[np.intp], names: tuple[str, ...], ambiguous: Mask, *, is_host: bool = False) -> Domains:
    by_domain = np.argsort(of_host, kind="stable")
    starts = np.searchsorted(of_host[by_domain], np.arange(len(names) + 1))
    numbers = {name: i for i, name in enumerate(names)}
    return Domains(of_host, ambiguous, names, by_domain, starts, numbers, None if is_host else _runs(of_host), is_host)


def _runs(of_host: NDArray[np.intp]) -> tuple[Rows, Rows, Rows] | None:
    """Stretches of neighbours in one domain, where they are long enough to be worth it: most racks are numbered so."""
    begins = np.flatnonzero(np.diff(of_host, prepend=of_host[:1] - 1)) if of_host.size else of_host
    if not of_host.size or begins.size * _WORTH_IT > of_host.size:
        return None
    return of_host[begins], np.diff(begins, append=of_host.size), begins


def highest(scores: Column, may: Mask) -> Mask:
    """Those that may and that no other beats; somebody must be allowed."""
    among = np.where(may, scores, -np.inf)
    mask: Mask = (among == among.max()) & may
    return mask


def best_rows(scores: Column, may: Mask) -> Rows:
    """The rows of the same; where few may, it is quicker to look at those alone."""
    if np.count_nonzero(may) * _FEW > may.size:
        return np.flatnonzero(highest(scores, may))
    rows = np.flatnonzero(may)
    theirs = scores[rows]
    best: Rows = rows[theirs == theirs.max()]
    return best


def places_by_row(fleet: Fleet, places: Mapping[int, int]) -> tuple[Rows, NDArray[np.int64]]:
    """The rows on which a group's members hold places, and how many do."""
    latest, found = fleet.latest_places
    if latest is not places:  # every policy of a group asks for the same
        try:
            rows, counts = [fleet.row_of[HostId(host)] for host in places], [*places.values()]
        except KeyError:  # a member's host is not in the picture yet, or any more
            known = [(fleet.row_of[HostId(host)], n) for host, n in places.items() if host in fleet.row_of]
            rows, counts = [row for row, _ in known], [n for _, n in known]
        found = np.array(rows, dtype=np.intp), np.array(counts, dtype=np.int64)
        fleet.latest_places = places, found
    return found


def counts_by_domain(domains: Domains, fleet: Fleet, places: Mapping[int, int]) -> NDArray[np.int64]:
    """How many of a group hold a place in each domain; one more entry at the end, for hosts that are nowhere."""
    counts = np.zeros(len(domains.names) + 1, dtype=np.int64)
    if places:
        rows, numbers = places_by_row(fleet, places)
        np.add.at(counts, domains.of_host[rows], numbers)
    return counts
