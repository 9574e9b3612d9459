"""A reference scheduler: the rules of the design as plain loops, to compare the real one with."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from covey.model.groups import GroupPolicy, PolicyKind, ScopeRef
from covey.model.ids import HostId
from covey.scheduler.fleet import Weights
from covey.scheduler.request_spec import RequestSpec
from tests.plain_fleets import Amounts, PlainAggregate, PlainHost, plain_amounts

Hosts = Sequence[PlainHost]
Aggregates = Sequence[PlainAggregate]
Score = tuple[int, int]

DEFAULT_ZONE = "nova"
TOGETHER = {PolicyKind.AFFINITY, PolicyKind.SOFT_AFFINITY}
ALMOST = Fraction(1, 10**9)  # columns are floats: weights closer than this are equal


def feasible(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> set[HostId]:
    """Return the hosts that can take one server of the request."""
    return {host.id for host in hosts if _is_feasible(spec, host, hosts, aggregates)}


def best_by_soft_policies(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> set[HostId]:
    """Return the feasible hosts that rank first by the soft policies, compared in their order."""
    best_hosts = [host for host in hosts if _is_feasible(spec, host, hosts, aggregates)]
    if spec.count > 1 and not spec.forced and not _affinity_has_members(spec, hosts, aggregates):
        fits = {host.id: _fit_from(spec, host.id, hosts, aggregates) for host in best_hosts}
        best_hosts = [host for host in best_hosts if fits[host.id] == max(fits.values())]
    for policy in () if spec.forced else spec.group.policies:
        if policy.kind.is_soft and best_hosts:
            scores = {host.id: _score(policy, spec, host, hosts, aggregates) for host in best_hosts}
            best_hosts = [host for host in best_hosts if scores[host.id] == max(scores.values())]
    return {host.id for host in best_hosts}


def best(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates, weights: Weights) -> set[HostId]:
    """Return the hosts that rank first by the soft policies and then by the weighers."""
    best_hosts = best_by_soft_policies(spec, hosts, aggregates)
    weight_of = {host.id: weight(host, hosts, weights) for host in hosts if host.id in best_hosts}
    return {host for host in best_hosts if weight_of[host] >= max(weight_of.values()) - ALMOST}


def weight(host: PlainHost, hosts: Hosts, weights: Weights) -> Fraction:
    """Return the weight of a host: its free amount of each resource, as a share of the largest capacity."""
    total = Fraction(0)
    for kind, multiplier in enumerate((weights.cpu, weights.ram, weights.disk)):
        largest = max(1, *(other.capacity[kind] for other in hosts))
        total += Fraction(multiplier) * (host.capacity[kind] - host.used[kind]) / largest
    return total


def after(spec: RequestSpec, hosts: Hosts, pick: HostId) -> tuple[RequestSpec, list[PlainHost]]:
    """Return the request and the hosts after one server is placed: it uses its host and is a group member."""
    members_by_host = dict(spec.group.members_by_host)
    members_by_host[pick] = members_by_host.get(pick, 0) + 1
    return replace(spec, group=replace(spec.group, members_by_host=members_by_host)), [
        replace(host, used=_add(host.used, plain_amounts(spec.amounts))) if host.id == pick else host for host in hosts
    ]


def place_in_turn(
    spec: RequestSpec,
    hosts: Hosts,
    candidates: Callable[[RequestSpec, Hosts], set[HostId]],
    choose: Callable[[int, set[HostId]], HostId],
) -> list[HostId]:
    """Place servers one at a time, each after the ones before it, until the count or the last feasible host."""
    picks: list[HostId] = []
    while len(picks) < spec.count and (among := candidates(spec, hosts)):
        picks.append(choose(len(picks), among))
        spec, hosts = after(spec, hosts, picks[-1])
    return picks


def domains_of(host: PlainHost, scope: ScopeRef, aggregates: Aggregates) -> list[str]:
    """Return the host's domains of a scope: none or one, or two when modified outside Covey."""
    if scope.id is None:
        return [host.name]
    return [str(aggregate.id) for aggregate in aggregates if aggregate.scope == scope.id and host.id in aggregate.hosts]


def has_domain(policy: GroupPolicy, hosts: Hosts, aggregates: Aggregates) -> bool:
    """Return whether the domain that the policy names exists."""
    if policy.scope.id is None:
        return policy.target in {host.name for host in hosts}
    return policy.target in {str(aggregate.id) for aggregate in aggregates if aggregate.scope == policy.scope.id}


def members_in(domain: str, scope: ScopeRef, spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> int:
    """Return how many members of the group are in a domain. A member on a host in two domains is in both."""
    return sum(spec.group.members_by_host.get(h.id, 0) for h in hosts if domain in domains_of(h, scope, aggregates))


def outcomes(spec: RequestSpec) -> list[RequestSpec]:
    """Return every possible group after its moves: each moving member keeps one of its two hosts."""
    possible: list[RequestSpec] = []
    for vacated in product(*spec.group.migrating):
        members_by_host = Counter(spec.group.members_by_host) - Counter(vacated)
        possible.append(replace(spec, group=replace(spec.group, members_by_host=dict(members_by_host), migrating=())))
    return possible


def _affinity_has_members(spec: RequestSpec, hosts: Hosts, aggregates: Aggregates) -> bool:
    """Return whether the scope of every affinity policy without a target has a member in a domain."""
    policies = [p for p in spec.group.policies if p.kind is PolicyKind.AFFINITY and p.target is None]
    return all(
        any(domains_of(h, p.scope, aggregates) and spec.group.members_by_host.get(h.id) for h in hosts)
        for p in policies
    )


def _fit_from(spec: RequestSpec, first: HostId, hosts: Hosts, aggregates: Aggregates) -> int:
    """Return how many servers of the batch fit when the first is on this host, whatever hosts the others get."""
    picks = place_in_turn(
        spec,
        hosts,
        lambda spec, hosts: feasible(spec, hosts, aggregates),
        lambda step, among: min(among) if step else first,
    )
    return len(picks)


def _is_feasible(spec: RequestSpec, host: PlainHost, hosts: Hosts, aggregates: Aggregates) -> bool:
    if not _is_requested_host(spec, host) or not _has_room(spec, host) or not is_open(spec, host, aggregates):
        return False
    return spec.forced or (
        host.enabled
        and host.up
        and spec.requirements.zone in {None, host.zone or DEFAULT_ZONE}
        and spec.requirements.required_traits <= host.traits
        and not spec.requirements.forbidden_traits & host.traits
        and all(_policy_admits(p, spec, host, hosts, aggregates) for p in spec.group.policies if not p.kind.is_soft)
    )


def is_open(spec: RequestSpec, host: PlainHost, aggregates: Aggregates) -> bool:
    """Return whether isolation lets the request in. It holds for forced hosts too, unless the request ignores it."""
    return spec.requirements.ignores_isolation or _aggregates_admit(spec, host, aggregates)


def _is_requested_host(spec: RequestSpec, host: PlainHost) -> bool:
    only = spec.requirements.only_hosts
    return (only is None or host.id in only) and host.id not in spec.requirements.ignored_hosts


def _has_room(spec: RequestSpec, host: PlainHost) -> bool:
    """Return whether the requested amounts fit. A resource that is not requested is not checked."""
    kinds = zip(host.capacity, host.used, plain_amounts(spec.amounts), host.units, strict=True)
    return all(
        used + wanted <= capacity and units.min_unit <= wanted <= units.max_unit and wanted % units.step_size == 0
        for capacity, used, wanted, units in kinds
        if wanted
    )


def _aggregates_admit(spec: RequestSpec, host: PlainHost, aggregates: Aggregates) -> bool:
    own = [aggregate for aggregate in aggregates if host.id in aggregate.hosts]
    reserved_for = {project for aggregate in own for project in aggregate.projects}
    if reserved_for and spec.requirements.project_id not in reserved_for:
        return False
    return all(aggregate.traits <= spec.requirements.required_traits for aggregate in own)


def _policy_admits(
    policy: GroupPolicy, spec: RequestSpec, host: PlainHost, hosts: Hosts, aggregates: Aggregates
) -> bool:
    """A hard policy, for one host."""
    if _holds_everywhere(policy, hosts, aggregates):
        return True
    domains = domains_of(host, policy.scope, aggregates)
    if len(domains) > 1:
        return False  # in two domains of the scope: ineligible for all of its policies
    if policy.target is not None:
        return (policy.target in domains) == (policy.kind in TOGETHER)
    if not domains:
        return False
    here = members_in(domains[0], policy.scope, spec, hosts, aggregates)
    if policy.kind is PolicyKind.ANTI_AFFINITY:
        return here < policy.limit
    return _affinity_admits(policy, spec, domains[0], hosts, aggregates)


def _holds_everywhere(policy: GroupPolicy, hosts: Hosts, aggregates: Aggregates) -> bool:
    """Return whether the policy avoids a domain that does not exist."""
    avoids = policy.target is not None and policy.kind not in TOGETHER
    return avoids and not has_domain(policy, hosts, aggregates)


def _affinity_admits(policy: GroupPolicy, spec: RequestSpec, domain: str, hosts: Hosts, aggregates: Aggregates) -> bool:
    in_no_domain = {other.id for other in hosts if not domains_of(other, policy.scope, aggregates)}
    if spec.group.source_host not in in_no_domain and any(
        spec.group.members_by_host.get(host) for host in in_no_domain
    ):
        return False  # unsatisfiable until those members move, which they may
    places = {place for other in hosts for place in domains_of(other, policy.scope, aggregates)}
    for later in outcomes(spec):
        held = {place for place in places if members_in(place, policy.scope, later, hosts, aggregates)}
        if held and domain not in held:
            return False
    return True


def _score(policy: GroupPolicy, spec: RequestSpec, host: PlainHost, hosts: Hosts, aggregates: Aggregates) -> Score:
    """Return the rank of a host by a soft policy: whether it is in a domain, then how well the domain suits."""
    if _holds_everywhere(policy, hosts, aggregates):
        return 1, 1
    domains = domains_of(host, policy.scope, aggregates)
    if policy.target is not None:
        satisfied = len(domains) < 2 and (policy.target in domains) == (policy.kind in TOGETHER)
        return 1, int(satisfied)
    if len(domains) != 1:
        return 0, 0
    here = members_in(domains[0], policy.scope, spec, hosts, aggregates)
    return 1, here if policy.kind in TOGETHER else -here


def _add(used: Amounts, amounts: Amounts) -> Amounts:
    return used[0] + amounts[0], used[1] + amounts[1], used[2] + amounts[2]
