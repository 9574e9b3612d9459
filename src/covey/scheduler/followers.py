"""Followers: members of a group that leave failed or drained hosts after the one that is decided now."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import Direction, GroupPolicy
from covey.model.ids import HostId
from covey.model.inventory import ResourceClass
from covey.model.resources import GranularGroup, Resources
from covey.scheduler.decide import Decision, allowed_hosts, decide
from covey.scheduler.fleet import NO_DOMAIN, Fleet
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.scheduler.room import count_fits

_Kind = tuple[Resources, HostRequirements, tuple[GranularGroup, ...], bool]

_MAX_TRIALS = 32  # domains in which the members are placed to see how many fit


@dataclass(frozen=True, slots=True)
class Follower:
    """A member on a host that is left, and what it asks of another host, without its group."""

    host: HostId
    request: RequestSpec


def with_followers(spec: RequestSpec, leaving: frozenset[HostId]) -> RequestSpec:
    """Return the request of a server together with the members of its group that also leave these hosts."""
    vacated = frozenset[int](leaving) & spec.group.members_by_host.keys()
    followers = sum(spec.group.members_by_host[host] for host in vacated)
    return replace(spec, group=replace(spec.group, vacated_hosts=vacated), count=1 + followers, minimum=1)


def decide_with_followers(
    spec: RequestSpec,
    leaving: frozenset[HostId],
    followers: Sequence[Follower],
    fleet: Fleet,
    seed: int,
    subset: int = 1,
) -> tuple[RequestSpec, Decision]:
    """Return the request together with its followers, and the decision, whose first host is for the server.

    Under hard affinity that host determines where the followers go, so it is in the domain where most of them fit.
    Followers that ask for the same count as copies. Others are placed in trials, domain by domain.
    """
    together = with_followers(spec, leaving)
    if may_choose_domain(spec) and spec.group.members_by_host.keys() <= leaving:
        others = [each for each in followers if each.host in together.group.vacated_hosts]
        if any(_kind(each.request, leaving) != _kind(spec, leaving) for each in others):
            found = _Trials(replace(together, count=1), others, fleet, seed, subset).best()
            if found is not None:
                return together, found
    return together, decide(together, fleet, seed, subset)


def gathering_policies(policies: Sequence[GroupPolicy]) -> list[GroupPolicy]:
    """Return the hard policies that gather a group in a domain which its members choose."""
    return [
        policy
        for policy in policies
        if not policy.kind.is_soft and policy.target is None and policy.kind.direction is Direction.GATHER
    ]


def may_choose_domain(spec: RequestSpec) -> bool:
    """Return whether hard affinity lets the server choose the domain of its group, if all other members leave theirs.

    Only then do followers matter to `decide_with_followers`.
    """
    group, only = spec.group, spec.requirements.only_hosts
    if spec.forced or (only is not None and len(only) == 1):
        return False
    return bool(group.members_by_host) and bool(gathering_policies(group.policies))


def _kind(spec: RequestSpec, leaving: frozenset[HostId] = frozenset()) -> _Kind:
    """Return what a request asks of any host but those that are left."""
    ignored = spec.requirements.ignored_hosts - leaving
    return spec.amounts, replace(spec.requirements, ignored_hosts=ignored), spec.granular, spec.isolate


class _Trials:
    """Places the server and its followers, large ones first, in one domain after the other."""

    def __init__(self, spec: RequestSpec, followers: Sequence[Follower], fleet: Fleet, seed: int, subset: int) -> None:
        self._fleet, self._seed, self._subset = fleet, seed, subset
        self._group = spec.group
        self._members_by_host = Counter(spec.group.members_by_host)
        first = Follower(HostId(spec.group.source_host or 0), spec)
        self._first, self._members = first, [first, *followers]
        # Large members first: what is large depends on the class that is short.
        self._orders = [sorted(self._members, key=partial(_size, name), reverse=True) for name in ResourceClass]

    def best(self) -> Decision | None:
        """Return the decision for the server in the domain where most members fit; None if it fits in none."""
        home, number = self._homes()
        best, most = None, 0
        bounds = self._bounds(home, number)
        for each in np.argsort(-bounds, kind="stable")[:_MAX_TRIALS].tolist():
            if bounds[each] <= most:
                break
            hosts = frozenset(map(HostId, self._fleet.ids[home == each].tolist()))
            for order in self._orders:
                decision, placed = self._place(order, hosts)
                if decision is not None and placed > most:
                    best, most = decision, placed
                if placed == bounds[each]:
                    break
        return best

    def _homes(self) -> tuple[NDArray[np.int64], int]:
        """Number the sets of hosts that are in the same domain of every gathering policy; -1 is no such set."""
        policies = gathering_policies(self._group.policies)
        columns = np.stack([self._fleet.domains(policy.scope.id).of_host for policy in policies])
        inside = (columns != NO_DOMAIN).all(axis=0)
        home = np.full(len(self._fleet), -1, dtype=np.int64)
        if inside.any():
            home[inside] = np.unique(columns[:, inside], axis=1, return_inverse=True)[1].reshape(-1)
        return home, int(home.max(initial=-1)) + 1

    def _bounds(self, home: NDArray[np.int64], number: int) -> NDArray[np.int64]:
        """Return how many members fit in each set of hosts at most: by what each kind asks for, and by their sum."""
        kinds = Counter(_kind(each.request) for each in self._members)
        bounds, useful = np.zeros(number, dtype=np.int64), np.zeros(len(self._fleet), dtype=np.bool_)
        closed = np.ones(number, dtype=np.bool_)  # to the server itself
        for kind, members in kinds.items():
            amounts, requirements, granular, isolate = kind
            spec = RequestSpec(
                amounts, requirements=requirements, group=self._group, granular=granular, isolate=isolate
            )
            mask = allowed_hosts(spec, self._fleet)
            on_each = np.where(mask, np.minimum(count_fits(spec, self._fleet), members), 0)
            fits = np.minimum(_sums(home, on_each, number), members)
            bounds += fits
            useful |= mask
            if kind == _kind(self._first.request):
                closed = fits == 0
        bounds[closed] = 0
        if self._fleet.trees.anchored.roots.size:
            return bounds  # a host's own columns do not have all the room of its tree
        for name in {name for each in self._members for name in each.request.total}:
            needs = np.cumsum(sorted(each.request.total.get(name, 0) for each in self._members))
            free = _sums(home, np.where(useful, np.maximum(self._fleet.inventories.free_of(name), 0), 0), number)
            bounds = np.minimum(bounds, np.searchsorted(needs, free, side="right"))
        return bounds

    def _place(self, order: Sequence[Follower], hosts: frozenset[HostId]) -> tuple[Decision | None, int]:
        """Place the members on these hosts. Return the decision for the server, and how many of the members fit."""
        fleet, members_by_host, placed = self._fleet.copy(), self._members_by_host.copy(), 0
        found: Decision | None = None
        for member in order:
            spec = self._request(member, members_by_host, hosts)
            decision = decide(spec, fleet, self._seed, self._subset)
            if not decision.chosen:
                continue
            placed += 1
            members_by_host[decision.chosen[0]] += 1
            fleet.take_all(next(iter(decision.allocations(spec.amounts))).items())
            if member is self._first:
                found = decision
        return found, placed

    def _request(self, member: Follower, members_by_host: Counter[int], hosts: frozenset[HostId]) -> RequestSpec:
        """Return the member's request on these hosts. It does not count against itself; the server never does."""
        others = members_by_host if member is self._first else members_by_host - Counter({int(member.host): 1})
        asked = member.request.requirements
        only = hosts if asked.only_hosts is None else hosts & asked.only_hosts
        group = replace(self._group, members_by_host=dict(others), source_host=member.host)
        return replace(member.request, count=1, minimum=1, group=group, requirements=replace(asked, only_hosts=only))


def _sums(home: NDArray[np.int64], column: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return the sums of a column over each set of hosts."""
    sums = np.zeros(number, dtype=np.int64)
    inside = home >= 0
    np.add.at(sums, home[inside], column[inside])
    return sums


def _size(name: str, member: Follower) -> tuple[int, ...]:
    """Return what a member takes: first of one class, then of the others."""
    total = member.request.total
    return total.get(name, 0), *(total.get(each, 0) for each in ResourceClass)
