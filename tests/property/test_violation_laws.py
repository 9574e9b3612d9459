"""Violations: exactly the broken policies are reported, and placements of the scheduler add no hard violation."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from covey.model.groups import GroupPolicy, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.decide import decide
from covey.scheduler.violations import objections, violations
from tests.property import reference
from tests.property.test_scheduler_laws import World, law, seeds, wide_law, worlds

Broken = set[tuple[GroupPolicy, str | None, frozenset[str]]]


def members_of(world: World) -> dict[str, HostId]:
    """Return a name and a host for every member of the group."""
    members_by_host = Counter(world.spec.group.members_by_host)
    return {f"member-{number}": HostId(host) for number, host in enumerate(members_by_host.elements())}


def broken(world: World) -> Broken:
    """Return the broken policies, found with plain loops: the policy, its domain and its members."""
    ids = {host.id: host for host in world.hosts}
    placed = {name: ids[host] for name, host in members_of(world).items() if host in ids}
    found: Broken = set()
    for policy in world.spec.group.policies:
        where = {name: reference.domains_of(host, policy.scope, world.aggregates) for name, host in placed.items()}
        for place, members in _broken(policy, where, world):
            if members:
                found.add((policy, place, frozenset(members)))
    return found


def _broken(policy: GroupPolicy, where: dict[str, list[str]], world: World) -> list[tuple[str | None, set[str]]]:
    """Return the domains with their members. A member in two domains counts in both where members are kept apart."""
    together = policy.kind in reference.TOGETHER
    several = {m for m, domains in where.items() if len(domains) > 1}
    if policy.target is not None:
        inside = {m for m, domains in where.items() if policy.target in domains}
        if together:
            return [(policy.target, where.keys() - inside - several), (None, several)]
        exists = reference.has_domain(policy, world.hosts, world.aggregates)
        return [(policy.target, inside), (None, several - inside if exists else set())]
    counted = {m: domains for m, domains in where.items() if len(domains) == 1 or not together}
    count = Counter(domain for domains in counted.values() for domain in domains)
    found: list[tuple[str | None, set[str]]] = [(None, {m for m, d in where.items() if not d}), (None, several)]
    if policy.kind is PolicyKind.ANTI_AFFINITY:
        full = [domain for domain, number in count.items() if number > policy.limit]
        return found + [(domain, {m for m, domains in counted.items() if domain in domains}) for domain in full]
    order = _names(policy, world)
    main = max(order, key=lambda domain: (count[domain], -order.index(domain))) if count else None
    if together and len(count) > 1:
        found.append((main, {m for m, domains in counted.items() if domains != [main]}))
    if not together and count:
        usable = {
            domains[0]
            for host in world.hosts
            if host.enabled
            and host.up
            and len(domains := reference.domains_of(host, policy.scope, world.aggregates)) == 1
        }
        least = min([count[domain] for domain in usable] + [max(count.values())])
        crowded = {m for m, domains in counted.items() if any(count[domain] > least + 1 for domain in domains)}
        found.append((main, crowded))
    return found


def _names(policy: GroupPolicy, world: World) -> list[str]:
    if policy.scope.id is None:
        return [host.name for host in sorted(world.hosts, key=lambda host: host.id)]
    return [str(aggregate.id) for aggregate in world.aggregates if aggregate.scope == policy.scope.id]


def found(world: World) -> Broken:
    judged = violations(world.spec.group.policies, members_of(world), world.fleet())
    return {(violation.policy, violation.domain, frozenset(violation.members)) for violation in judged}


@wide_law
@given(world=worlds())
def test_violations_are_exactly_the_broken_policies(world: World) -> None:
    assert found(world) == broken(world)


@wide_law
@given(world=worlds(least=1))
def test_hard_violation_exists_exactly_when_a_member_has_an_objection(world: World) -> None:
    """Both read the same policies: `objections` asks whether a host admits a member, `violations` whether it may stay.

    A group that affinity finds in two domains is the exception. Each of them admits a member of it, so there is no
    objection to a member that has company in its own domain.
    """
    fleet, group = world.fleet(), world.spec.group
    known = {host: number for host, number in group.members_by_host.items() if HostId(host) in fleet.row_of}
    against = []
    for host, number in known.items():
        others = {**known, host: number - 1}
        view = replace(group, members_by_host={place: held for place, held in others.items() if held})
        against += objections(view, HostId(host), fleet)
    hard = [(policy, domain) for policy, domain, _ in found(world) if not policy.kind.is_soft]
    objectionable = [policy for policy, domain in hard if domain is None or not _all_have_company(policy, world)]
    assert against or not objectionable
    assert hard or not against
    if not group.migrating:  # a moving member is not counted as company
        assert bool(against) == bool(objectionable)


def _all_have_company(policy: GroupPolicy, world: World) -> bool:
    """Whether the policy is an affinity, and each domain that holds members of the group holds two or more."""
    if policy.kind is not PolicyKind.AFFINITY or policy.target is not None:
        return False
    ids = {host.id: host for host in world.hosts}
    hosts = [ids[HostId(host)] for host in Counter(world.spec.group.members_by_host).elements() if host in ids]
    domains = [reference.domains_of(host, policy.scope, world.aggregates) for host in hosts]
    held = Counter(domain[0] for domain in domains if len(domain) == 1)
    return min(held.values()) > 1


def _hard_violations(world: World) -> set[tuple[GroupPolicy, str | None]]:
    """Return the broken hard policies by domain; an affinity policy counts once, without its domain."""
    whole = {PolicyKind.AFFINITY}
    return {
        (policy, None if policy.kind in whole else place)
        for policy, place, _ in found(world)
        if not policy.kind.is_soft
    }


@law
@given(world=worlds(least=1), seed=seeds, number=st.integers(1, 6))
def test_placing_servers_one_at_a_time_never_adds_a_hard_violation(world: World, seed: int, number: int) -> None:
    for step in range(number):
        chosen = decide(world.spec, world.fleet(), seed + step).chosen
        if not chosen:
            return
        before = _hard_violations(world)
        spec, hosts = reference.after(world.spec, world.hosts, chosen[0])
        world = replace(world, spec=spec, hosts=tuple(hosts))
        assert _hard_violations(world) <= before


@law
@given(world=worlds(least=1, most=8), seed=seeds)
def test_group_placed_by_the_scheduler_has_no_hard_violation(world: World, seed: int) -> None:
    world = replace(world, spec=replace(world.spec, group=replace(world.spec.group, members_by_host={})))
    for host in decide(world.spec, world.fleet(), seed).chosen:
        spec, hosts = reference.after(world.spec, world.hosts, host)
        world = replace(world, spec=spec, hosts=tuple(hosts))
    assert _hard_violations(world) == set()
