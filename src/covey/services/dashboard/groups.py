"""Groups on the dashboard: their policies, the domains of their members, and violations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from covey.model.access import Actor, Target
from covey.model.groups import Group
from covey.model.ids import GroupId
from covey.model.rebalances import Rebalance
from covey.ports import Access
from covey.scheduler.violations import Violation
from covey.services.audits import MemberDomains, domains_of_hosts, find_violations
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
class GroupRow:
    """A group in a list, with the number of its members and of its violations."""

    group: Group
    members: int
    violations: Counts


@dataclass(frozen=True, slots=True)
class Member:
    """A server of Covey's, or an instance of Nova; name and status of the latter are None until it is mirrored."""

    id: str
    name: str | None
    status: str | None


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """One group. `violations` contain real identifiers; show them through `obfuscation`."""

    group: Group
    members: Sequence[tuple[Member, MemberDomains]]
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

    def find(self, actor: Actor, offset: int, limit: int) -> list[GroupRow]:
        """Return a page of the project's groups, or of all groups for operators."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        all_projects = self.access.allows(actor, f"{_RULE}index:all_projects")
        with self.store.read() as tx:
            found = tx.groups.find(None if all_projects else actor.own_project, offset, limit)
            obfuscation = obfuscation_for(tx, self.access, actor, actor.project_id)
            member_hosts = tx.groups.member_hosts([group.id for group in found])
            snapshot = self.live.read(tx)
            cached_token, cached = self._cache.counts
            known = cached if cached_token == snapshot.token else {}
            unknown = [group for group in found if (group.id, group.version) not in known]
            violated = find_violations(tx, unknown, member_hosts, snapshot.fleet)
        counted = known | {(group.id, group.version): _count(violated[group.id]) for group in unknown}
        self._cache.counts = snapshot.token, counted if len(counted) < _MAX_CACHED else {}
        return [
            GroupRow(obfuscation.obfuscate_group(each), len(member_hosts[each.id]), counted[each.id, each.version])
            for each in found
        ]

    def get(self, actor: Actor, group: str) -> GroupDetails:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "audit")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            scopes = list(dict.fromkeys([*(p.scope for p in found.policies), *scopes_for(tx, self.access, actor)]))
            member_hosts, members = tx.groups.member_hosts([found.id]), _members(tx, found)
            latest = tx.rebalances.latest(found.id)
            names = {str(each): name for each, name in tx.dashboard.aggregate_names()} if obfuscation.sees_all else {}
            fleet = self.live.read(tx).fleet
            broken = find_violations(tx, [found], member_hosts, fleet)[found.id]
        hosts = member_hosts[found.id]
        domains = domains_of_hosts(hosts.values(), scopes, fleet, obfuscation)
        placed = list(zip(map(members.__getitem__, hosts), domains, strict=True))
        return GroupDetails(obfuscation.obfuscate_group(found), placed, broken, latest, obfuscation, names)

    def preview(self, actor: Actor, group: str, policies: Sequence[str], rules: Mapping[str, int]) -> PolicyPreview:
        """Return the violations under the proposed policies. Raises NotFound, Invalid, Forbidden."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "audit")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            proposed = PolicyParser(tx, self.access, actor, obfuscation).parse(policies, rules)
            changed = replace(found, policies=proposed)
            member_hosts, fleet = tx.groups.member_hosts([found.id]), self.live.read(tx).fleet
            broken = find_violations(tx, [changed], member_hosts, fleet)[found.id]
        return PolicyPreview(obfuscation.obfuscate_group(changed), broken, obfuscation)


def _members(tx: Transaction, group: Group) -> dict[str, Member]:
    own = (Member(server.id, server.name, server.status) for server in tx.servers.by_ids(group.members))
    others = (Member(each.id, each.name, each.status) for each in tx.group_consumers.instances([group.id]))
    return {member.id: member for member in (*own, *others)}


def _count(violated: Sequence[Violation]) -> Counts:
    return len(violated), sum(not violation.soft for violation in violated)
