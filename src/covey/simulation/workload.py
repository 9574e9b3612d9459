"""A synthetic stream of events: groups of servers appear, grow and shrink, and hosts fail and recover."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.errors import Invalid
from covey.model.groups import HOST
from covey.scheduler.fleet import RESOURCES
from covey.simulation.events import Boot, Event, Granular, Grow
from covey.simulation.initial_state import InitialState

DAY_S = 86_400
SMALLEST, LARGEST = 3, 50  # members of a group
_ANTI_AFFINITY = "anti-affinity"
_FILL = 1.1  # of the free capacity, without a number of boots


@dataclass(frozen=True, slots=True)
class Mix:
    """Policies and the share of groups that have them; without a policy, servers without a group."""

    policies: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Workload:
    """The parameters of a stream. Shares are from 0 to 1; without `boots`, the servers fill the fleet."""

    boots: int | None = None
    days: float = 30.0
    churn: float = 0.2  # share of servers that are deleted
    growth: float = 0.1  # share of a group's servers that are added in one decision
    failures: int = 0  # hosts that fail, and recover after about a day
    zoned: float = 0.2  # share of groups that request a zone
    mix: tuple[Mix, ...] = ()


def default_mix(start: InitialState) -> tuple[Mix, ...]:
    """Return the default mix: a quarter of the servers without a group, and all policy kinds in all scopes."""
    scopes = (HOST.name, *start.scopes)
    share = 0.75 / len(scopes)
    mixes = [Mix((), 0.25)]
    for scope in scopes:
        affinity = 0.0 if scope == HOST.name else 0.1
        mixes += [
            Mix((f"anti-affinity:{scope}",), share * 0.4),
            Mix((f"soft-anti-affinity:{scope}",), share * (0.6 - 2 * affinity)),
            Mix((f"affinity:{scope}",), share * affinity),
            Mix((f"soft-affinity:{scope}",), share * affinity),
        ]
    return tuple(mix for mix in mixes if mix.share)


def generate(start: InitialState, workload: Workload, seed: int) -> list[Event]:
    """Return the stream of a seed. Raises Invalid for a fleet without flavors, and for invalid policies."""
    if not start.sizes:
        raise Invalid("The fleet has no flavors; a workload needs at least one.")
    rng = np.random.default_rng(seed)
    mix = workload.mix or default_mix(start)
    for entry in mix:
        start.policies(*_read(entry.policies))
    weights = _weights(start)
    boots = _servers_to_fill(start, weights, workload.churn) if workload.boots is None else workload.boots
    zones = sorted({host.zone or start.default_zone for host in start.hosts})
    domains = {scope: sum(1 for _ in start.domains(scope)) for scope in start.scopes} | {HOST.name: len(start.hosts)}
    return _Stream(start, workload, mix, weights, rng, zones, domains).events(boots)


def _weights(start: InitialState) -> NDArray[np.float64]:
    """Return the probabilities of sizes; larger ones are rarer."""
    order = np.argsort(np.argsort([size.total.get("MEMORY_MB", 0) for size in start.sizes], kind="stable"))
    weights = 1.0 / (1.0 + order)
    return np.asarray(weights / weights.sum())


def _servers_to_fill(start: InitialState, weights: NDArray[np.float64], churn: float) -> int:
    """Return a number of servers that slightly exceeds the free capacity."""
    names = [name for name in RESOURCES if any(name in size.total for size in start.sizes)]
    names = names or sorted({name for size in start.sizes for name in size.total})  # few hosts may have these
    fleet, sizes = start.fleet(), [[size.total.get(name, 0) for name in names] for size in start.sizes]
    served = fleet.is_host[fleet.root]
    free = np.array([fleet.inventories.free_of(name)[served].sum() for name in names])
    return int(_FILL * (free / (weights @ np.array(sizes, dtype=np.float64))).min() / (1 - churn / 2))


def _read(texts: Sequence[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return policies and rules of texts such as anti-affinity:rack=2."""
    policies, rules = [], {}
    for text in texts:
        policy, _, limit = text.partition("=")
        policies.append(policy)
        if limit:
            if not limit.isdigit() or not int(limit):
                raise Invalid(f"The limit of {text!r} must be an integer of at least 1.")
            rules[f"max_server_per_{_scope(policy)}"] = int(limit)
    return tuple(policies), rules


def _scope(policy: str) -> str:
    return policy.partition("=")[0].split(":")[1] if ":" in policy else HOST.name


@dataclass(slots=True)
class _Stream:
    """Draws the groups until they have enough members, then all times."""

    start: InitialState
    workload: Workload
    mix: tuple[Mix, ...]
    weights: NDArray[np.float64]
    rng: np.random.Generator
    zones: list[str]
    domains: dict[str, int]  # number by scope

    def events(self, boots: int) -> list[Event]:
        sizes = self._group_sizes(boots)
        found = [*self._failures()]
        if sizes.size:
            kind = self.rng.choice(len(self.mix), sizes.size, p=self._shares())
            flavor = self.rng.choice(len(self.start.sizes), sizes.size, p=self.weights)
            zone = self.rng.integers(len(self.zones), size=sizes.size)
            zoned = self.rng.random(sizes.size) < self.workload.zoned
            born = self.rng.random(sizes.size) * self._seconds * 0.95
            for i, members in enumerate(sizes.tolist()):
                policies = self.mix[kind[i]].policies
                requested_zone = self.zones[zone[i]] if zoned[i] and self._may_request_zone(policies) else None
                found += self._group(f"g{i + 1}", members, policies, int(flavor[i]), requested_zone, float(born[i]))
        return sorted(found, key=lambda event: event.at)

    @property
    def _seconds(self) -> float:
        return self.workload.days * DAY_S

    def _shares(self) -> NDArray[np.float64]:
        shares = np.array([entry.share for entry in self.mix])
        return np.asarray(shares / shares.sum())

    def _group_sizes(self, boots: int) -> NDArray[np.int64]:
        """Return the group sizes, log-uniform; the last one is truncated."""
        number = boots // SMALLEST + 1
        logs = self.rng.uniform(np.log(SMALLEST), np.log(LARGEST + 1), number)
        sizes = np.exp(logs).astype(np.int64)
        ends = np.minimum(np.cumsum(sizes), boots)
        return np.diff(ends, prepend=0)[: int(np.searchsorted(ends, boots)) + 1] if boots else ends[:0]

    def _group(
        self, name: str, members: int, texts: tuple[str, ...], flavor: int, zone: str | None, born: float
    ) -> list[Event]:
        """Return a group's events: boots within two days, later growth, and deletes."""
        policies, rules = _read(texts)
        rules = rules or self._rules(policies, members, zone)
        grown = int(members * self.workload.growth + self.rng.random()) if policies else 0
        grown = min(grown, members - 1)
        single = members - grown
        times = np.sort(self.rng.random(single)) * min(2 * DAY_S, self._seconds - born) + born
        leaves = times + self.rng.random(single) * (self._seconds - times)
        leaving = self.rng.random(single) < self.workload.churn
        size = self.start.sizes[flavor]
        vcpus, memory_mb, disk_gb = (size.amounts.get(name, 0) for name in RESOURCES)
        others = {name: amount for name, amount in size.amounts.items() if name not in RESOURCES}
        group = name if policies else None
        granular = tuple(
            Granular(dict(each.resources), tuple(sorted(each.required)), tuple(sorted(each.forbidden)))
            for each in size.granular
        )
        asked = size.traits, others, size.forbidden_traits, granular, size.isolate
        found: list[Event] = []
        for n, (at, goes, until) in enumerate(zip(times.tolist(), leaving.tolist(), leaves.tolist(), strict=True)):
            server = f"{name}-{n + 1}"
            boot = Boot(server, vcpus, memory_mb, disk_gb, 1, 1, group, policies, rules, zone, *asked)
            found.append(Event(at, boot))
            if goes:
                found.append(Event(until, delete=server))
        if grown:
            later = float(times[-1] + self.rng.random() * (self._seconds - times[-1]))
            found.append(Event(later, grow=Grow(name, grown)))
        return found

    def _may_request_zone(self, policies: tuple[str, ...]) -> bool:
        """Return whether groups with these policies may request a zone: only policies of the scope host."""
        return len(self.zones) > 1 and all(_scope(policy) == HOST.name for policy in policies)

    def _rules(self, policies: tuple[str, ...], members: int, zone: str | None) -> dict[str, int]:
        """Return the limits that a group needs if it has more members than domains exist."""
        found: dict[str, int] = {}
        for policy in policies:
            domains = max(1, self.domains[_scope(policy)] // (len(self.zones) if zone else 1))
            if policy.split(":")[0] == _ANTI_AFFINITY and policy.count(":") <= 1 and members > domains:
                found[f"max_server_per_{_scope(policy)}"] = -(-members // domains)
        return found

    def _failures(self) -> list[Event]:
        number = min(self.workload.failures, len(self.start.hosts))
        rows = self.rng.choice(len(self.start.hosts), number, replace=False)
        downs = self.rng.random(number) * self._seconds
        ups = downs + self.rng.exponential(DAY_S, number)
        names = [self.start.hosts[row].name for row in rows.tolist()]
        return [
            event
            for name, down, up in zip(names, downs.tolist(), ups.tolist(), strict=True)
            for event in (Event(down, fail=name), Event(up, recover=name))
            if event.at <= self._seconds
        ]
