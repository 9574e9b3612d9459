"""Audits: the domains of a group's members in the scopes of its policies, and the violated policies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.groups import Group, ScopeRef
from covey.model.ids import GroupId, HostId, ServerId
from covey.ports import Access
from covey.scheduler.fleet import NO_DOMAIN, Fleet
from covey.scheduler.violations import Violation, violations
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.storage.store import Store

MemberDomains = Mapping[str, str | None]  # domain identifier by scope name; None without a host or domain


@dataclass(frozen=True, slots=True)
class Audit:
    """An audited group. `violations` contain real identifiers; show them through `obfuscation`."""

    group_id: GroupId
    members: Sequence[tuple[ServerId, MemberDomains]]
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
            hosts = tx.groups.places(found.id)
            fleet = self.live.read(tx).fleet
        domains = domains_of_hosts(hosts.values(), scopes_of(found), fleet, obfuscation)
        members = list(zip(hosts, domains, strict=True))
        placed = {str(server): host for server, host in hosts.items() if host is not None}
        return Audit(found.id, members, violations(found.policies, placed, fleet), obfuscation)


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
