"""Anti-affinity: a domain holds no more members than the limit, and the domain that the policy names holds none."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind
from covey.scheduler.batch_state import BatchState, DomainState, PolicyDomains
from covey.scheduler.columns import groups_of
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Mask, Rows, counts_by_domain, members_by_row
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
class AntiAffinity:
    """Keep members apart."""

    kind = PolicyKind.ANTI_AFFINITY

    def describe(self, policy: GroupPolicy) -> str:
        if policy.target is not None:
            return f"not {in_target(policy)}"
        return f"at most {policy.limit} {in_one(policy.scope.name)}"

    def mask(self, policy: GroupPolicy, group: GroupView, fleet: Fleet) -> Mask:
        if policy.target is not None:
            return targets.outside(policy, fleet)
        if policy.scope == HOST:  # the common case touches the members' hosts alone
            mask = np.ones(len(fleet), dtype=np.bool_)
            rows, held = members_by_row(fleet, group.members_by_host)
            mask[rows[held >= policy.limit]] = False
            return mask
        domains = fleet.domains(policy.scope.id)
        has_room = counts_by_domain(domains, fleet, group.members_by_host) < policy.limit
        has_room[NO_DOMAIN] = False
        return domains.per_host(has_room)

    def reasons(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, rejected: Mask) -> list[Reason]:
        domains, scope = fleet.domains(policy.scope.id), policy.scope.name
        without_domain = rejected & (domains.of_host == NO_DOMAIN)
        found, rest = reasons_without_domain(domains, scope, without_domain), rejected & ~without_domain
        if policy.target is not None:
            avoided = f"in the {scope} that the group avoids"
            return [*found, Reason(rest, f"is {avoided}", f"are {avoided}")]
        held = domains.per_host(counts_by_domain(domains, fleet, group.members_by_host))
        one, many = ("", "") if policy.scope == HOST else (f" in its {scope}", f" in their {scope}")
        for number in np.unique(held[rest]).tolist():
            members = f"{number} of the group"
            found.append(
                Reason(rest & (held == number), f"already holds {members}{one}", f"already hold {members}{many}")
            )
        return found

    def explain_hosts(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, rows: Rows) -> Sentences:
        domains, scope = fleet.domains(policy.scope.id), policy.scope.name
        without_domain = domains.of_host[rows] == NO_DOMAIN
        yield from explain_without_domain(domains, scope, rows[without_domain])
        rows = rows[~without_domain]
        if policy.target is not None:
            yield rows, f"the group avoids the {scope} {policy.target}"
            return
        counts = counts_by_domain(domains, fleet, group.members_by_host)
        for number, inside in groups_of(domains.of_host[rows], rows):
            held = f"the {scope} {domains.names[number]} holds {counts[number]} of the group"
            yield inside, f"{held}; the limit is {policy.limit}"

    def constrain_batch(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, state: BatchState) -> None:
        if policy.target is not None:
            return  # the mask rules the domain out for the whole batch
        domains = fleet.domains(policy.scope.id)
        of, left = domains.of_host[state.rows], policy.limit - counts_by_domain(domains, fleet, group.members_by_host)
        if policy.scope == HOST:
            np.minimum(state.fits, left[of], out=state.fits)
        else:
            state.limits.append(PolicyDomains(of, [DomainState(left=number) for number in left.tolist()]))

    def relax(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, others: Mask) -> Relaxation | None:
        if policy.target is not None:
            return Relaxation(f"if the group did not avoid that {policy.scope.name}", None)
        domains = fleet.domains(policy.scope.id)
        reached = domains.of_host[others & (domains.of_host != NO_DOMAIN)]
        if not reached.size:
            return None
        limit = int(counts_by_domain(domains, fleet, group.members_by_host)[reached].min()) + 1
        if limit <= policy.limit:
            return None
        words = f"if {limit - policy.limit} more were allowed {in_one(policy.scope.name)}"
        return Relaxation(words, replace(policy, limit=limit))

    def violations(self, members: MemberDomains) -> Iterator[Violation]:
        policy = members.policy
        if policy.target is not None:
            yield from targets.members_inside(members)
            return
        yield from members.without_domain()
        for domain in np.flatnonzero(members.counts > policy.limit).tolist():
            here = members.inside(domain)
            sentence = f"{count_members(here)} {in_one(policy.scope.name)}; the limit is {policy.limit}"
            yield members.violation(domain, here, sentence)

    def penalty(self, scoped: ScopedPolicy, counts: Counts) -> int:
        if scoped.target is not None:
            return targets.count_inside(scoped, counts)
        over = np.maximum(counts[:NO_DOMAIN] - scoped.policy.limit, 0)
        return int(counts[NO_DOMAIN]) + int(over.sum())

    def penalty_term(self, model: "CpModel", scoped: ScopedPolicy, flows: "DomainFlows", *, monotonic: bool) -> "Term":
        del monotonic  # a member never arrives in a domain that is at its limit, so the penalty never grows
        if scoped.target is not None:
            return targets.flow_inside(scoped, flows)
        limit, over = scoped.policy.limit, []
        for domain in flows.busy:
            before, after = int(flows.counts[domain]), flows.after(domain)
            if before <= limit:
                model.add(after <= limit)
                continue
            excess = model.new_int_var(0, before - limit, "")
            model.add(excess >= after - limit)
            over.append(excess)
            if flows.arriving[domain]:
                has_room = model.new_bool_var("")
                model.add(after <= limit).only_enforce_if(has_room)
                model.add(sum(flows.arriving[domain]) == 0).only_enforce_if(~has_room)
        for host_class, variables in flows.host_classes:
            model.add(sum(variables) <= limit * host_class.rows.size)
        return sum(over) + flows.after(NO_DOMAIN)

    def max_members_per_host(self, policy: GroupPolicy) -> int | None:
        return policy.limit if policy.target is None else None

    def destinations(self, _: ScopedPolicy, __: Counts) -> Mask | None:
        return None
