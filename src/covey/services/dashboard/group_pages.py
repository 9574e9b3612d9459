"""Groups on the dashboard: what each wants, in words, where its members are, and what does not hold."""

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
from covey.services.audits import Destinations, places_of
from covey.services.dashboard.visibility import scopes_for
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, disguise_for
from covey.services.policies import Reader
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-server-groups:"

_REMEMBERED = 20_000  # groups

Counts = tuple[int, int]  # violations in all, and hard ones


@dataclass(frozen=True, slots=True)
class GroupPage:
    """One group; violations have real identifiers, to be shown through `disguise`."""

    group: Group
    members: Sequence[tuple[Server, Destinations]]
    violations: Sequence[Violation]
    rebalance: Rebalance | None
    obfuscation: Obfuscation
    domain_names: Mapping[str, str]  # by identifier, for operators


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """What would not hold if the group had these policies now."""

    group: Group
    violations: Sequence[Violation]
    obfuscation: Obfuscation


@dataclass(slots=True)
class _Known:
    """Counts that hold for one picture of the fleet, by its tag: of each group at a version."""

    counts: tuple[str, dict[tuple[GroupId, int], Counts]] = ("", {})


@dataclass(frozen=True, slots=True)
class GroupPages:
    """Looks at groups; changes nothing."""

    store: Store
    access: Access
    live: LiveFleet
    groups: Groups
    _known: _Known = field(default_factory=_Known)

    def find(self, actor: Actor, offset: int, limit: int) -> list[tuple[Group, Counts]]:
        """The project's groups, an operator's view of everybody's; each with how many of its policies are broken."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        everywhere = self.access.allows(actor, f"{_RULE}index:all_projects")
        with self.store.read() as tx:
            found = tx.groups.find(None if everywhere else actor.project_id, offset, limit)
            obfuscation = disguise_for(tx, self.access, actor, actor.project_id)
            places: dict[GroupId, dict[str, HostId]] = defaultdict(dict)
            for group, server, host in tx.dashboard.members([group.id for group in found]):
                if host is not None:
                    places[group][server] = host
            with self.live.fresh(tx) as snapshot:
                fleet, tag = snapshot.fleet.copy(), snapshot.tag
        of, known = self._known.counts
        known = known if of == tag else {}
        counted = {(g.id, g.version): known.get((g.id, g.version)) or _count(g, places[g.id], fleet) for g in found}
        self._known.counts = tag, known | counted if len(known) < _REMEMBERED else counted
        return [(obfuscation.group(group), counted[group.id, group.version]) for group in found]

    def page(self, actor: Actor, group: str) -> GroupPage:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            found = self.groups.own(tx, actor, group, "audit")
            obfuscation = disguise_for(tx, self.access, actor, found.project_id)
            scopes = list(dict.fromkeys([*(p.scope for p in found.policies), *scopes_for(tx, self.access, actor)]))
            order = {server: i for i, server in enumerate(found.members)}
            members = sorted(tx.servers.by_ids(found.members), key=lambda server: order[server.id])
            latest = tx.rebalances.latest(found.id)
            names = {str(each): name for each, name in tx.dashboard.aggregate_names()} if obfuscation.sees_all else {}
            placed = {str(server.id): server.host_id for server in members if server.host_id is not None}
            with self.live.fresh(tx) as snapshot:
                places = list(places_of([server.host_id for server in members], scopes, snapshot.fleet, obfuscation))
                broken = violations(found.policies, placed, snapshot.fleet)
        shown = obfuscation.group(found)
        return GroupPage(shown, list(zip(members, places, strict=True)), broken, latest, obfuscation, names)

    def preview(self, actor: Actor, group: str, policies: Sequence[str], rules: Mapping[str, int]) -> PolicyPreview:
        """Changes nothing. Raises NotFound, and for the policies what a change to them would raise."""
        with self.store.read() as tx:
            found = self.groups.own(tx, actor, group, "audit")
            obfuscation = disguise_for(tx, self.access, actor, found.project_id)
            wanted = Reader(tx, self.access, actor, obfuscation).read(policies, rules)
            broken = self._broken(tx, found, wanted)
        return PolicyPreview(obfuscation.group(replace(found, policies=wanted)), broken, obfuscation)

    def _broken(self, tx: Transaction, group: Group, wanted: Sequence[GroupPolicy]) -> list[Violation]:
        hosts = tx.groups.places(group.id)
        placed = {str(server): host for server, host in hosts.items() if host is not None}
        with self.live.fresh(tx) as snapshot:
            return violations(wanted, placed, snapshot.fleet)


def _count(group: Group, places: Mapping[str, HostId], fleet: Fleet) -> Counts:
    broken = violations(group.policies, places, fleet)
    return len(broken), sum(not violation.soft for violation in broken)
