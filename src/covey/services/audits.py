"""Audits: the domains of a group's members in the scopes of its policies, and the violated policies."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.clustering.policies.affinity import affinity_properties, is_drs_host
from covey.model.groups import HOST, Group, ScopeRef
from covey.model.ids import GroupId, HostId
from covey.ports import Access
from covey.scheduler.fleet import NO_DOMAIN, Fleet
from covey.scheduler.violations import Violation, audit
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.storage.store import Store, Transaction

MemberDomains = Mapping[str, str | None]  # domain identifier by scope name; None without a host or domain


@dataclass(frozen=True, slots=True)
class Audit:
    """An audited group. `violations` contain real identifiers; show them through `obfuscation`."""

    group_id: GroupId
    members: Sequence[tuple[str, MemberDomains]]
    violations: Sequence[Violation]
    obfuscation: Obfuscation


@dataclass(frozen=True, slots=True)
class Audits:
    """Audits groups; changes nothing."""

    store: Store
    access: Access
    groups: Groups
    live: LiveFleet

    def audit(self, actor: Actor, group: str) -> Audit:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "audit")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            member_hosts = tx.groups.member_hosts([found.id])
            fleet = self.live.read(tx).fleet
            violated = find_violations(tx, [found], member_hosts, fleet)[found.id]
        hosts = member_hosts[found.id]
        domains = domains_of_hosts(hosts.values(), scopes_of(found), fleet, obfuscation)
        members = list(zip(hosts, domains, strict=True))
        return Audit(found.id, members, violated, obfuscation)


def find_violations(
    tx: Transaction, groups: Sequence[Group], member_hosts: Mapping[GroupId, Mapping[str, HostId | None]], fleet: Fleet
) -> dict[GroupId, list[Violation]]:
    """Return the violations of groups, given the hosts of all their members, whichever service runs them."""
    found = {group.id: audit(group.policies, member_hosts[group.id], fleet) for group in groups}
    suspects = {
        group: member_hosts[group].values()
        for group, violated in found.items()
        if any(violation.policy.scope == HOST for violation in violated)
    }
    exempt = drs_hosts_of(tx, suspects, fleet)
    policies = {group.id: group.policies for group in groups}
    return found | {group: audit(policies[group], member_hosts[group], fleet, hosts) for group, hosts in exempt.items()}


def drs_hosts_of(
    tx: Transaction, hosts: Mapping[GroupId, Iterable[HostId | None]], fleet: Fleet
) -> dict[GroupId, frozenset[HostId]]:
    """Return the hosts of groups with the DRS extension that are vSphere clusters with DRS.

    Such a host is many machines, over which DRS spreads the servers, so two members there need not share one.
    """
    found = {group: drs_hosts(each, fleet) for group, each in hosts.items()}
    with_policy = _with_drs_policy(tx, [group for group, drs in found.items() if drs])
    return {group: found[group] for group in with_policy}


def drs_hosts(hosts: Iterable[HostId | None], fleet: Fleet) -> frozenset[HostId]:
    """Return those of the hosts that are vSphere clusters with DRS."""
    known = {host for host in hosts if host is not None and host in fleet.row_of}
    return frozenset(host for host in known if is_drs_host(fleet.names[fleet.row_of[host]]))


def _with_drs_policy(tx: Transaction, groups: Collection[GroupId]) -> set[GroupId]:
    bindings = tx.clustering.bindings.using_groups(groups) if groups else []
    with_drs = (each for each in bindings if affinity_properties(each.policy)["enable_drs_extension"])
    return {GroupId(each.group_id) for each in with_drs if each.group_id is not None}


def scopes_of(group: Group) -> list[ScopeRef]:
    """Return the scopes of a group's policies in order, each once."""
    return list(dict.fromkeys(policy.scope for policy in group.policies))


def domains_of_hosts(
    hosts: Iterable[HostId | None], scopes: Sequence[ScopeRef], fleet: Fleet, obfuscation: Obfuscation
) -> Iterator[MemberDomains]:
    """Yield the obfuscated domains of each host; repeated hosts are computed once."""
    known: dict[HostId | None, MemberDomains] = {None: {scope.name: None for scope in scopes}}
    for host in hosts:
        if host is not None and host not in known:
            known[host] = _domains_of_host(host, scopes, fleet, obfuscation)
        yield known[host]


def _domains_of_host(host: HostId, scopes: Sequence[ScopeRef], fleet: Fleet, obfuscation: Obfuscation) -> MemberDomains:
    row = fleet.row_of.get(host)
    found: dict[str, str | None] = {}
    for scope in scopes:
        domains = fleet.domains(scope.id)
        number = NO_DOMAIN if row is None else int(domains.of_host[row])
        found[scope.name] = (
            None if number == NO_DOMAIN else obfuscation.display_identifier(scope, domains.names[number])
        )
    return found
