"""A synthetic stream: groups of a few to some dozens of servers come, grow and shrink, and hosts fail and recover."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.errors import Invalid
from covey.model.groups import HOST
from covey.simulation.events import Boot, Event, Grow
from covey.simulation.start import Start

DAY_S = 86_400
SMALLEST, LARGEST = 3, 50  # members of a group
_HARD_APART = "anti-affinity"
_FILL = 1.1  # of what is free, when nobody says how many boots


@dataclass(frozen=True, slots=True)
class Mix:
    """Policies that tenants ask for, and how many groups do so; without a policy, servers that are in no group."""

    policies: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Workload:
    """How much happens. Shares are from 0 to 1; without boots, enough to fill what is free."""

    server_creation: int | None = None
    days: float = 30.0
    churn: float = 0.2  # servers that are deleted
    growth: float = 0.1  # servers that come as a group's growth, many in one decision
    failures: int = 0  # hosts that fail, and come back within a day or so
    zoned: float = 0.2  # groups that ask for a zone
    mix: tuple[Mix, ...] = ()


def usual_mix(start: Start) -> tuple[Mix, ...]:
    """A quarter of the servers in no group, and every kind of policy in every scope."""
    scopes = (HOST.name, *start.scopes)
    each = 0.75 / len(scopes)
    found = [Mix((), 0.25)]
    for scope in scopes:
        together = 0.0 if scope == HOST.name else 0.1
        found += [
            Mix((f"anti-affinity:{scope}",), each * 0.4),
            Mix((f"soft-anti-affinity:{scope}",), each * (0.6 - 2 * together)),
            Mix((f"affinity:{scope}",), each * together),
            Mix((f"soft-affinity:{scope}",), each * together),
        ]
    return tuple(each for each in found if each.share)


def generate(start: Start, workload: Workload, seed: int) -> list[Event]:
    """The same for the same seed. Raises Invalid for a fleet without flavors, and policies that make no sense."""
    if not start.sizes:
        raise Invalid("The fleet has no flavors, so nobody knows which servers to ask for.")
    chance = np.random.default_rng(seed)
    mix = workload.mix or usual_mix(start)
    for each in mix:
        start.policies(*_read(each.policies))
    weights = _weights(start)
    server_creation = (
        _enough(start, weights, workload.churn) if workload.server_creation is None else workload.server_creation
    )
    zones = sorted({host.zone or start.default_zone for host in start.hosts})
    domains = {scope: sum(1 for _ in start.domains(scope)) for scope in start.scopes} | {HOST.name: len(start.hosts)}
    return _Stream(start, workload, mix, weights, chance, zones, domains).events(server_creation)


def _weights(start: Start) -> NDArray[np.float64]:
    """The larger a size, the rarer."""
    order = np.argsort(np.argsort([size.amounts[1] for size in start.sizes], kind="stable"))
    weights = 1.0 / (1.0 + order)
    return np.asarray(weights / weights.sum())


def _enough(start: Start, weights: NDArray[np.float64], churn: float) -> int:
    """About as many servers as there is room for, and some more."""
    mean = weights @ np.array([size.amounts for size in start.sizes], dtype=np.float64)
    hosts = start.hosts
    free = np.array([host.capacity for host in hosts]).sum(axis=0) - np.array([host.used for host in hosts]).sum(axis=0)
    return int(_FILL * (free[mean > 0] / mean[mean > 0]).min() / (1 - churn / 2))


def _read(texts: Sequence[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    """Policies and rules, of policies with a limit such as anti-affinity:rack=2."""
    policies, rules = [], {}
    for text in texts:
        policy, _, limit = text.partition("=")
        policies.append(policy)
        if limit:
            if not limit.isdigit() or not int(limit):
                raise Invalid(f"The limit of {text!r} has to be a number from 1 on.")
            rules[f"max_server_per_{_scope(policy)}"] = int(limit)
    return tuple(policies), rules


def _scope(policy: str) -> str:
    return policy.partition("=")[0].split(":")[1] if ":" in policy else HOST.name


@dataclass(slots=True)
class _Stream:
    """Draws groups until they have enough members, then all times at once."""

    start: Start
    workload: Workload
    mix: tuple[Mix, ...]
    weights: NDArray[np.float64]
    chance: np.random.Generator
    zones: list[str]
    domains: dict[str, int]  # how many, by scope

    def events(self, server_creation: int) -> list[Event]:
        sizes = self._group_sizes(server_creation)
        found = [*self._failures()]
        if sizes.size:
            kind = self.chance.choice(len(self.mix), sizes.size, p=self._shares())
            flavor = self.chance.choice(len(self.start.sizes), sizes.size, p=self.weights)
            zone = self.chance.integers(len(self.zones), size=sizes.size)
            zoned = self.chance.random(sizes.size) < self.workload.zoned
            born = self.chance.random(sizes.size) * self._seconds * 0.95
            for i, members in enumerate(sizes.tolist()):
                policies = self.mix[kind[i]].policies
                where = self.zones[zone[i]] if zoned[i] and self._may_ask_for_zone(policies) else None
                found += self._group(f"g{i + 1}", members, policies, int(flavor[i]), where, float(born[i]))
        return sorted(found, key=lambda event: event.at)

    @property
    def _seconds(self) -> float:
        return self.workload.days * DAY_S

    def _shares(self) -> NDArray[np.float64]:
        shares = np.array([each.share for each in self.mix])
        return np.asarray(shares / shares.sum())

    def _group_sizes(self, server_creation: int) -> NDArray[np.int64]:
        """Small groups are more usual than large ones; the last is cut short."""
        number = server_creation // SMALLEST + 1
        logs = self.chance.uniform(np.log(SMALLEST), np.log(LARGEST + 1), number)
        sizes = np.exp(logs).astype(np.int64)
        ends = np.minimum(np.cumsum(sizes), server_creation)
        return (
            np.diff(ends, prepend=0)[: int(np.searchsorted(ends, server_creation)) + 1] if server_creation else ends[:0]
        )

    def _group(
        self, name: str, members: int, texts: tuple[str, ...], flavor: int, zone: str | None, born: float
    ) -> list[Event]:
        """Its servers come within two days, some in one go at a later time, and some leave."""
        policies, rules = _read(texts)
        rules = rules or self._rules(policies, members, zone)
        grown = int(members * self.workload.growth + self.chance.random()) if policies else 0
        grown = min(grown, members - 1)
        single = members - grown
        times = np.sort(self.chance.random(single)) * min(2 * DAY_S, self._seconds - born) + born
        leaves = times + self.chance.random(single) * (self._seconds - times)
        leaving = self.chance.random(single) < self.workload.churn
        size = self.start.sizes[flavor]
        group = name if policies else None
        found: list[Event] = []
        for n, (at, goes, until) in enumerate(zip(times.tolist(), leaving.tolist(), leaves.tolist(), strict=True)):
            server = f"{name}-{n + 1}"
            boot = Boot(server, *size.amounts, 1, 1, group, policies, rules, zone, size.traits)
            found.append(Event(at, boot))
            if goes:
                found.append(Event(until, delete=server))
        if grown:
            later = float(times[-1] + self.chance.random() * (self._seconds - times[-1]))
            found.append(Event(later, grow=Grow(name, grown)))
        return found

    def _may_ask_for_zone(self, policies: tuple[str, ...]) -> bool:
        """Who speaks of racks and the like wants them anywhere."""
        return len(self.zones) > 1 and all(_scope(policy) == HOST.name for policy in policies)

    def _rules(self, policies: tuple[str, ...], members: int, zone: str | None) -> dict[str, int]:
        """What a tenant sets whose group is larger than there are domains to keep it apart in."""
        found: dict[str, int] = {}
        for policy in policies:
            domains = max(1, self.domains[_scope(policy)] // (len(self.zones) if zone else 1))
            if policy.split(":")[0] == _HARD_APART and policy.count(":") <= 1 and members > domains:
                found[f"max_server_per_{_scope(policy)}"] = -(-members // domains)
        return found

    def _failures(self) -> list[Event]:
        number = min(self.workload.failures, len(self.start.hosts))
        rows = self.chance.choice(len(self.start.hosts), number, replace=False)
        downs = self.chance.random(number) * self._seconds
        ups = downs + self.chance.exponential(DAY_S, number)
        names = [self.start.hosts[row].name for row in rows.tolist()]
        return [
            event
            for name, down, up in zip(names, downs.tolist(), ups.tolist(), strict=True)
            for event in (Event(down, fail=name), Event(up, recover=name))
            if event.at <= self._seconds
        ]
