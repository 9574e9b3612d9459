"""Audits: where a group's members are, in each scope that its policies speak of, and which policies do not hold."""

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
from covey.services.obfuscation import Obfuscation, disguise_for
from covey.storage.store import Store

Destinations = Mapping[str, str | None]  # an identifier by scope; None where a member is in no domain, or has no place


@dataclass(frozen=True, slots=True)
class Audit:
    """A group as the caller may see it; identifiers in `violations` are real ones, to be shown through `disguise`."""

    group_id: GroupId
    members: Sequence[tuple[ServerId, Destinations]]
    violations: Sequence[Violation]
    obfuscation: Obfuscation


@dataclass(frozen=True, slots=True)
class Audits:
    """Looks at a group; changes nothing."""

    store: Store
    access: Access
    groups: Groups
    live: LiveFleet

    def audit(self, actor: Actor, group: str) -> Audit:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            found = self.groups.own(tx, actor, group, "audit")
            obfuscation = disguise_for(tx, self.access, actor, found.project_id)
            hosts = tx.groups.places(found.id)
            with self.live.fresh(tx) as snapshot:
                places = places_of(hosts.values(), scopes_of(found), snapshot.fleet, obfuscation)
                members = list(zip(hosts, places, strict=True))
                placed = {str(server): host for server, host in hosts.items() if host is not None}
                return Audit(found.id, members, violations(found.policies, placed, snapshot.fleet), obfuscation)


def scopes_of(group: Group) -> list[ScopeRef]:
    """The scopes that a group's policies speak of, each once, in their order."""
    return list(dict.fromkeys(policy.scope for policy in group.policies))


def places_of(
    hosts: Iterable[HostId | None], scopes: Sequence[ScopeRef], fleet: Fleet, obfuscation: Obfuscation
) -> Iterator[Destinations]:
    """The domains of each host, as the caller knows them; worked out once for each, however often it comes."""
    known: dict[HostId | None, Destinations] = {None: {scope.name: None for scope in scopes}}
    for host in hosts:
        if host is not None and host not in known:
            known[host] = _places_on(host, scopes, fleet, obfuscation)
        yield known[host]


def _places_on(host: HostId, scopes: Sequence[ScopeRef], fleet: Fleet, obfuscation: Obfuscation) -> Destinations:
    row = fleet.row_of.get(host)
    found: dict[str, str | None] = {}
    for scope in scopes:
        domains = fleet.domains(scope.id)
        number = NO_DOMAIN if row is None else int(domains.of_host[row])
        found[scope.name] = None if number == NO_DOMAIN else obfuscation.shown(scope, domains.names[number])
    return found
