"""Affinity: all members are in one domain, or in the domain that the policy names."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.batch_state import BatchState
from covey.scheduler.columns import groups_of
from covey.scheduler.fleet import NO_DOMAIN, Domains, Fleet, Mask, Rows, counts_by_domain
from covey.scheduler.policies import targets
from covey.scheduler.policies.protocol import Relaxation
from covey.scheduler.policies.scopes import (
    Counts,
    MemberDomains,
    ScopedPolicy,
    Violation,
    count_members,
    explain_without_domain,
    in_one,
    in_target,
    reasons_without_domain,
)
from covey.scheduler.reasons import Reason, Sentences

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

    from covey.scheduler.rebalancing.flows import DomainFlows, Term


@dataclass(frozen=True, slots=True)
class Affinity:
    """Keep members together."""

    kind = PolicyKind.AFFINITY

    def describe(self, policy: GroupPolicy) -> str:
        return f"all {in_one(policy.scope.name)}" if policy.target is None else f"only {in_target(policy)}"

    def mask(self, policy: GroupPolicy, group: GroupView, fleet: Fleet) -> Mask:
        if policy.target is not None:
            return targets.inside(policy, fleet)
        domains = fleet.domains(policy.scope.id)
        return domains.per_host(_open_domains(domains, _without_vacated(group), fleet))

    def reasons(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, rejected: Mask) -> list[Reason]:
        domains, scope, group = fleet.domains(policy.scope.id), policy.scope.name, _without_vacated(group)
        without_domain = rejected & (domains.of_host == NO_DOMAIN)
        rest = rejected & ~without_domain
        found = reasons_without_domain(domains, scope, without_domain)
        if policy.target is not None:
            required = f"outside the {scope} that the group requires"
            return [*found, Reason(rest, f"is {required}", f"are {required}")]
        counts = counts_by_domain(domains, fleet, group.members_by_host)
        if _is_unsatisfiable(domains, group, fleet, counts):
            return [*found, Reason(rest, *_no_domain(policy, counts))]
        moving = rest & domains.per_host(counts > 0)
        return [*found, Reason(rest & ~moving, *_elsewhere(policy)), Reason(moving, *_only_moving(policy))]

    def explain_hosts(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, rows: Rows) -> Sentences:
        domains, scope, group = fleet.domains(policy.scope.id), policy.scope.name, _without_vacated(group)
        without_domain = domains.of_host[rows] == NO_DOMAIN
        yield from explain_without_domain(domains, scope, rows[without_domain])
        rows = rows[~without_domain]
        if policy.target is not None:
            yield rows, f"the group requires the {scope} {policy.target}"
            return
        counts = counts_by_domain(domains, fleet, group.members_by_host)
        if _is_unsatisfiable(domains, group, fleet, counts):
            yield rows, _members_without(policy, counts)
            return
        occupied = ", ".join(domains.names[number] for number in np.flatnonzero(counts[:NO_DOMAIN]).tolist())
        moving = counts[domains.of_host[rows]] > 0
        yield rows[~moving], f"the group is in the {scope} {occupied}"
        for number, inside in groups_of(domains.of_host[rows[moving]], rows[moving]):
            yield inside, f"the {scope} {domains.names[number]} holds only members of the group that are moving"

    def constrain_batch(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, state: BatchState) -> None:
        if policy.target is not None:
            return  # the mask rules all other domains out for the whole batch
        domains = fleet.domains(policy.scope.id)
        if not counts_by_domain(domains, fleet, _without_vacated(group).members_by_host)[:NO_DOMAIN].any():
            state.affinity_domains.append(domains.of_host[state.rows])

    def relax(self, policy: GroupPolicy, _: GroupView, __: Fleet, ___: Mask) -> Relaxation | None:
        domain = in_one(policy.scope.name) if policy.target is None else f"in that {policy.scope.name}"
        return Relaxation(f"if the group did not have to be {domain}", None)

    def violations(self, members: MemberDomains) -> Iterator[Violation]:
        return scattered_members(members)

    def penalty(self, scoped: ScopedPolicy, counts: Counts) -> int:
        return count_scattered(scoped, counts)

    def penalty_term(self, model: "CpModel", scoped: ScopedPolicy, flows: "DomainFlows", *, monotonic: bool) -> "Term":
        return scattered_term(model, scoped, flows, monotonic=monotonic)

    def max_members_per_host(self, _: GroupPolicy) -> int | None:
        return None

    def destinations(self, scoped: ScopedPolicy, counts: Counts) -> Mask | None:
        """Domains that hold members, unless the group is a single member, which may start elsewhere."""
        if scoped.target is not None or counts[:NO_DOMAIN].sum() <= 1:
            return None
        return scoped.domains.per_host(counts > 0)


def scattered_members(members: MemberDomains) -> Iterator[Violation]:
    """Yield the violations by members outside the domain that holds most of the group."""
    if members.policy.target is not None:
        yield from targets.members_outside(members)
        return
    yield from members.without_domain()
    counts = members.counts
    if np.count_nonzero(counts) > 1:
        fullest = int(counts.argmax())
        away = ~members.inside(fullest) & ~members.inside(NO_DOMAIN)
        sentence = f"{count_members(away)} outside the {members.policy.scope.name} that holds most of the group"
        yield members.violation(fullest, away, sentence)


def count_scattered(scoped: ScopedPolicy, counts: Counts) -> int:
    """Count the members outside the domain that holds most of the group, or that the policy names."""
    if scoped.target is not None:
        return int(counts.sum()) - targets.count_inside(scoped, counts)
    return int(counts.sum()) - int(counts[:NO_DOMAIN].max(initial=0))


def scattered_term(model: "CpModel", scoped: ScopedPolicy, flows: "DomainFlows", *, monotonic: bool) -> "Term":
    """Return `count_scattered` after a rebalance as a term: the solver chooses one domain as the group's."""
    counts, total = flows.counts, int(flows.counts.sum())
    if scoped.target is not None:
        return total - targets.flow_inside(scoped, flows)
    if not flows.busy:
        return total
    away = model.new_int_var(0, total, "")
    before = total - int(counts[:NO_DOMAIN].max())
    worst = model.new_int_var(before, total, "")
    model.add_max_equality(worst, [away, before])
    chosen = {domain: model.new_bool_var("") for domain in flows.busy}
    model.add_exactly_one(chosen.values())
    gone = {domain: sum(variables) for domain, variables in flows.leaving.items()}
    fullest = max(flows.busy, key=lambda domain: int(counts[domain]))
    # Implied by the rest: each member outside the chosen domain moves there. It saves the solver a search.
    model.add(sum(gone.values()) + away >= sum((total - int(counts[d])) * is_it for d, is_it in chosen.items()))
    for domain, is_it in chosen.items():
        model.add(away >= total - flows.after(domain)).only_enforce_if(is_it)
        if counts[domain] == counts[fullest] or not monotonic:
            continue
        # Members of third domains move first: the penalty would grow if those of the fullest domain left before.
        others = sum(number for other, number in gone.items() if other not in {domain, fullest})
        grown = int(counts[domain]) + others + int(counts[fullest])
        model.add(grown >= 2 * (total - worst) - 1).only_enforce_if(is_it)
    return away


def _without_vacated(group: GroupView) -> GroupView:
    """Return the group without members on vacated hosts: they leave, so they do not count for affinity."""
    if not group.vacated_hosts:
        return group
    vacated = group.vacated_hosts
    members_by_host = {host: number for host, number in group.members_by_host.items() if host not in vacated}
    return replace(
        group,
        members_by_host=members_by_host,
        migrating=tuple(pair for pair in group.migrating if not vacated & {*pair}),
    )


def _open_domains(domains: Domains, group: GroupView, fleet: Fleet) -> Mask:
    """Return the domains where a new member is with the group, whether the moves in progress succeed or fail."""
    counts = counts_by_domain(domains, fleet, group.members_by_host)
    if _is_unsatisfiable(domains, group, fleet, counts):
        return np.zeros(counts.size, dtype=np.bool_)
    open_domains = counts - _count_moving(domains, group, fleet) > 0
    if not open_domains[:NO_DOMAIN].any():
        open_domains = counts > 0  # every member moves: they end together if they have hosts in one domain alone
        if np.count_nonzero(open_domains[:NO_DOMAIN]) != 1:
            open_domains[:] = not open_domains[:NO_DOMAIN].any()  # the first member may start in any domain
    open_domains[NO_DOMAIN] = False
    return open_domains


def _is_unsatisfiable(domains: Domains, group: GroupView, fleet: Fleet, counts: NDArray[np.int64]) -> bool:
    """Return whether a member is in no domain: then no domain is the group's. Such a member itself may leave."""
    if not counts[NO_DOMAIN]:
        return False
    row = None if group.source_host is None else fleet.row_of.get(HostId(group.source_host))
    return row is None or bool(domains.of_row(row))


def _count_moving(domains: Domains, group: GroupView, fleet: Fleet) -> NDArray[np.int64]:
    """Count, for each domain, the moving members of whose two hosts one alone is there."""
    counts = np.zeros(len(domains.names) + 1, dtype=np.int64)
    for hosts in group.migrating:
        source, destination = (_domains_of(domains, fleet, host) for host in hosts)
        counts[[*source ^ destination]] += 1
    return counts


def _domains_of(domains: Domains, fleet: Fleet, host: int) -> set[int]:
    row = fleet.row_of.get(HostId(host))
    return {NO_DOMAIN} if row is None else set(domains.of_row(row)) or {NO_DOMAIN}


def _elsewhere(policy: GroupPolicy) -> tuple[str, str]:
    where = "the group's host" if policy.scope == HOST else f"in the {policy.scope.name} of the group"
    return f"is not {where}", f"are not {where}"


def _members_without(policy: GroupPolicy, counts: NDArray[np.int64]) -> str:
    """Return which members make the policy unsatisfiable: 2 members of the group are in no rack."""
    number = int(counts[NO_DOMAIN])
    return f"{number} member{'s' * (number > 1)} of the group {'are' if number > 1 else 'is'} in no {policy.scope.name}"


def _no_domain(policy: GroupPolicy, counts: NDArray[np.int64]) -> tuple[str, str]:
    because = f"because {_members_without(policy, counts)}"
    return f"is excluded {because}", f"are excluded {because}"


def _only_moving(policy: GroupPolicy) -> tuple[str, str]:
    held = "only members of the group that are moving"
    if policy.scope == HOST:
        return f"holds {held}", f"hold {held}"
    return f"is in a {policy.scope.name} that holds {held}", f"are in a {policy.scope.name} that holds {held}"
