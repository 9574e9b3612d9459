"""The scheduler once more, slow and plain, to hold the quick one against: the design's words, in loops."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from covey.model.groups import GroupPolicy, PolicyKind, ScopeRef
from covey.model.ids import HostId
from covey.scheduler.fleet import AggregateRecord, HostRecord, Weights
from covey.scheduler.request_spec import RequestSpec

Hosts = Sequence[HostRecord]
Aggregates = Sequence[AggregateRecord]
Score = tuple[int, int]

DEFAULT_ZONE = "nova"
TOGETHER = {PolicyKind.AFFINITY, PolicyKind.SOFT_AFFINITY}
ALMOST = Fraction(1, 10**9)  # columns are floats; hosts that are closer than this weigh the same


def feasible(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> set[HostId]:
    """The hosts that may take one server of the ask."""
    return {host.id for host in hosts if _may(spec, host, hosts, aggregates)}


def softly_best(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> set[HostId]:
    """Those who may and whom nobody beats by the soft policies, in the order of their listing."""
    left = [host for host in hosts if _may(spec, host, hosts, aggregates)]
    if spec.count > 1 and not spec.forced and not _is_begun(spec, hosts, aggregates):
        fits = {host.id: _fit_from(spec, host.id, hosts, aggregates) for host in left}
        left = [host for host in left if fits[host.id] == max(fits.values())]
    for policy in () if spec.forced else spec.group.policies:
        if policy.kind.is_soft and left:
            scores = {host.id: _score(policy, spec, host, hosts, aggregates) for host in left}
            left = [host for host in left if scores[host.id] == max(scores.values())]
    return {host.id for host in left}


def best(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates, weights: Weights) -> set[HostId]:
    """Those whom nobody beats, by the soft policies and then by the weighers."""
    left = softly_best(spec, hosts, aggregates)
    weighs = {host.id: weight(host, hosts, weights) for host in hosts if host.id in left}
    return {host for host in left if weighs[host] >= max(weighs.values()) - ALMOST}


def weight(host: HostRecord, hosts: Hosts, weights: Weights) -> Fraction:
    """The operator's weighers: free room of each kind, as a share of the largest capacity of that kind."""
    total = Fraction(0)
    for kind, multiplier in enumerate((weights.cpu, weights.ram, weights.disk)):
        largest = max(1, *(other.capacity[kind] for other in hosts))
        total += Fraction(multiplier) * (host.capacity[kind] - host.used[kind]) / largest
    return total


def after(spec: RequestSpec, hosts: Hosts, pick: HostId) -> tuple[RequestSpec, list[HostRecord]]:
    """The same question with one server of it placed: its room is taken, and it is a member of the group."""
    places = dict(spec.group.places)
    places[pick] = places.get(pick, 0) + 1
    return replace(spec, group=replace(spec.group, places=places)), [
        replace(host, used=_more(host.used, spec.amounts)) if host.id == pick else host for host in hosts
    ]


def in_turn(
    spec: RequestSpec,
    hosts: Hosts,
    candidates: Callable[[RequestSpec, Hosts], set[HostId]],
    choose: Callable[[int, set[HostId]], HostId],
) -> list[HostId]:
    """One after another, each seeing the ones before, until the count is reached or nobody is left."""
    picks: list[HostId] = []
    while len(picks) < spec.count and (among := candidates(spec, hosts)):
        picks.append(choose(len(picks), among))
        spec, hosts = after(spec, hosts, picks[-1])
    return picks


def domains_of(host: HostRecord, scope: ScopeRef, aggregates: Aggregates) -> list[str]:
    """The identifiers of a scope's domains that the host is in: one, or none; two only by outside hands."""
    if scope.id is None:
        return [host.name]
    return [str(aggregate.id) for aggregate in aggregates if aggregate.scope == scope.id and host.id in aggregate.hosts]


def members_in(domain: str, scope: ScopeRef, spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> int:
    """How many of the group hold a place in a domain. A host in two domains counts as being in neither."""
    return sum(spec.group.places.get(h.id, 0) for h in hosts if domains_of(h, scope, aggregates) == [domain])


def outcomes(spec: RequestSpec) -> list[RequestSpec]:
    """All that may become of the group: each member that moves keeps one of its two places."""
    found: list[RequestSpec] = []
    for left in product(*spec.group.movers):
        places = Counter(spec.group.places) - Counter(left)
        found.append(replace(spec, group=replace(spec.group, places=dict(places), movers=())))
    return found


def _is_begun(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> bool:
    """Whether every policy that keeps the group together has a member to be together with, or there is none."""
    policies = [p for p in spec.group.policies if p.kind is PolicyKind.AFFINITY and p.target is None]
    return all(
        any(len(domains_of(h, p.scope, aggregates)) == 1 and spec.group.places.get(h.id) for h in hosts)
        for p in policies
    )


def _fit_from(spec: RequestSpec, first: HostId, hosts: Hosts, aggregates: Aggregates) -> int:
    """How many of the batch fit when its first is there, wherever the others go."""
    picks = in_turn(
        spec,
        hosts,
        lambda spec, hosts: feasible(spec, hosts, aggregates),
        lambda step, among: min(among) if step else first,
    )
    return len(picks)


def _may(spec: RequestSpec, host: HostRecord, hosts: Hosts, aggregates: Aggregates) -> bool:
    if not _is_named(spec, host) or not _has_room(spec, host):
        return False
    return spec.forced or (
        host.enabled
        and host.up
        and spec.requirements.zone in {None, host.zone or DEFAULT_ZONE}
        and spec.requirements.required_traits <= host.traits
        and not spec.requirements.forbidden_traits & host.traits
        and _may_enter(spec, host, aggregates)
        and all(_holds(p, spec, host, hosts, aggregates) for p in spec.group.policies if not p.kind.is_soft)
    )


def _is_named(spec: RequestSpec, host: HostRecord) -> bool:
    only = spec.requirements.only_hosts
    return (only is None or host.id in only) and host.id not in spec.requirements.other_hosts


def _has_room(spec: RequestSpec, host: HostRecord) -> bool:
    """What is not asked for is not looked at: a server without a disk fits where disks are over-full."""
    kinds = zip(host.capacity, host.used, spec.amounts, host.units, strict=True)
    return all(
        used + wanted <= capacity and units.min_unit <= wanted <= units.max_unit and wanted % units.step_size == 0
        for capacity, used, wanted, units in kinds
        if wanted
    )


def _may_enter(spec: RequestSpec, host: HostRecord, aggregates: Aggregates) -> bool:
    mine = [aggregate for aggregate in aggregates if host.id in aggregate.hosts]
    kept_for = {project for aggregate in mine for project in aggregate.projects}
    if kept_for and spec.requirements.project_id not in kept_for:
        return False
    return all(aggregate.traits <= spec.requirements.required_traits for aggregate in mine)


def _holds(policy: GroupPolicy, spec: RequestSpec, host: HostRecord, hosts: Hosts, aggregates: Aggregates) -> bool:
    """A hard policy, for one host."""
    mine = domains_of(host, policy.scope, aggregates)
    if len(mine) > 1:
        return False  # in two domains of the scope: ineligible for all of its policies
    if policy.target is not None:
        return (policy.target in mine) == (policy.kind in TOGETHER)
    if not mine:
        return False
    here = members_in(mine[0], policy.scope, spec, hosts, aggregates)
    if policy.kind is PolicyKind.ANTI_AFFINITY:
        return here < policy.limit
    places = {place for other in hosts for place in domains_of(other, policy.scope, aggregates)}
    for later in outcomes(spec):
        held = {place for place in places if members_in(place, policy.scope, later, hosts, aggregates)}
        if held and mine[0] not in held:
            return False
    return True


def _score(policy: GroupPolicy, spec: RequestSpec, host: HostRecord, hosts: Hosts, aggregates: Aggregates) -> Score:
    """A soft policy, for one host: first whether it is anywhere, then how well it is placed."""
    mine = domains_of(host, policy.scope, aggregates)
    if policy.target is not None:
        as_wanted = len(mine) < 2 and (policy.target in mine) == (policy.kind in TOGETHER)
        return 1, int(as_wanted)
    if len(mine) != 1:
        return 0, 0
    here = members_in(mine[0], policy.scope, spec, hosts, aggregates)
    return 1, here if policy.kind in TOGETHER else -here


def _more(used: tuple[int, int, int], amounts: tuple[int, int, int]) -> tuple[int, int, int]:
    return used[0] + amounts[0], used[1] + amounts[1], used[2] + amounts[2]
