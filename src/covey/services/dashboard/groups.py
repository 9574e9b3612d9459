"""Groups on the dashboard: their policies, the domains of their members, and violations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from covey.model.access import Actor, Target
from covey.model.groups import Group, GroupPolicy
from covey.model.ids import GroupId, HostId
from covey.model.rebalances import Rebalance
from covey.model.servers import Server
from covey.ports import Access
from covey.scheduler.fleet import Fleet
from covey.scheduler.violations import Violation, violations
from covey.services.audits import MemberDomains, domains_of_hosts
from covey.services.dashboard.visibility import scopes_for
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.services.policies import PolicyParser
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-server-groups:"

_MAX_CACHED = 20_000  # groups with cached counts

Counts = tuple[int, int]  # (all, hard) violations


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """One group. `violations` contain real identifiers; show them through `obfuscation`."""

    group: Group
    members: Sequence[tuple[Server, MemberDomains]]
    violations: Sequence[Violation]
    rebalance: Rebalance | None
    obfuscation: Obfuscation
    domain_names: Mapping[str, str]  # by identifier; empty for tenants


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """The violations that the group would have with other policies."""

    group: Group
    violations: Sequence[Violation]
    obfuscation: Obfuscation


@dataclass(slots=True)
class _CountCache:
    """Violation counts by group and version, valid for the fleet snapshot with this tag."""

    counts: tuple[str, dict[tuple[GroupId, int], Counts]] = ("", {})


@dataclass(frozen=True, slots=True)
class DashboardGroups:
    """Reads groups for the dashboard; changes nothing."""

    store: Store
    access: Access
    live: LiveFleet
    groups: Groups
    _cache: _CountCache = field(default_factory=_CountCache)

    def find(self, actor: Actor, offset: int, limit: int) -> list[tuple[Group, Counts]]:
        """Return a page of the project's groups, or of all groups for operators, with their violation counts."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        all_projects = self.access.allows(actor, f"{_RULE}index:all_projects")
        with self.store.read() as tx:
            found = tx.groups.find(None if all_projects else actor.project_id, offset, limit)
            obfuscation = obfuscation_for(tx, self.access, actor, actor.project_id)
            places: dict[GroupId, dict[str, HostId]] = defaultdict(dict)
            for group, server, host in tx.dashboard.members([group.id for group in found]):
                if host is not None:
                    places[group][server] = host
            snapshot = self.live.read(tx)
        fleet, token = snapshot.fleet, snapshot.token
        cached_token, cached = self._cache.counts
        known = cached if cached_token == token else {}
        counted = {(g.id, g.version): known.get((g.id, g.version)) or _count(g, places[g.id], fleet) for g in found}
        self._cache.counts = token, known | counted if len(known) < _MAX_CACHED else counted
        return [(obfuscation.obfuscate_group(group), counted[group.id, group.version]) for group in found]

    def get(self, actor: Actor, group: str) -> GroupDetails:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "audit")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            scopes = list(dict.fromkeys([*(p.scope for p in found.policies), *scopes_for(tx, self.access, actor)]))
            order = {server: i for i, server in enumerate(found.members)}
            members = sorted(tx.servers.by_ids(found.members), key=lambda server: order[server.id])
            latest = tx.rebalances.latest(found.id)
            names = {str(each): name for each, name in tx.dashboard.aggregate_names()} if obfuscation.sees_all else {}
            placed = {str(server.id): server.host_id for server in members if server.host_id is not None}
            fleet = self.live.read(tx).fleet
        domains = list(domains_of_hosts([server.host_id for server in members], scopes, fleet, obfuscation))
        broken = violations(found.policies, placed, fleet)
        shown = obfuscation.obfuscate_group(found)
        return GroupDetails(shown, list(zip(members, domains, strict=True)), broken, latest, obfuscation, names)

    def preview(self, actor: Actor, group: str, policies: Sequence[str], rules: Mapping[str, int]) -> PolicyPreview:
        """Return the violations under the proposed policies. Raises NotFound, Invalid, Forbidden."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "audit")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            proposed = PolicyParser(tx, self.access, actor, obfuscation).parse(policies, rules)
            broken = self._violations(tx, found, proposed)
        return PolicyPreview(obfuscation.obfuscate_group(replace(found, policies=proposed)), broken, obfuscation)

    def _violations(self, tx: Transaction, group: Group, policies: Sequence[GroupPolicy]) -> list[Violation]:
        hosts = tx.groups.places(group.id)
        placed = {str(server): host for server, host in hosts.items() if host is not None}
        return violations(policies, placed, self.live.read(tx).fleet)


def _count(group: Group, places: Mapping[str, HostId], fleet: Fleet) -> Counts:
    broken = violations(group.policies, places, fleet)
    return len(broken), sum(not violation.soft for violation in broken)
