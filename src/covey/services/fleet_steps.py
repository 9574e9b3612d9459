"""Carries out the plan of `covey fleet apply` in one transaction, so that claims wait for few of its statements."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from covey.model.access import OPERATORS
from covey.model.errors import Conflict
from covey.model.fleet_file import ImageEntry
from covey.model.fleet_plan import FleetPlan
from covey.model.hosts import NewHost
from covey.model.ids import AggregateId, HostId, ImageId, ScopeId
from covey.model.images import Image, ImageStatus, Visibility
from covey.model.scopes import Scope
from covey.model.vocabulary import STANDARD_CLASSES
from covey.ports import NewUuid
from covey.services.domains import reject_targeted
from covey.services.scopes import new_namespace
from covey.storage.store import Transaction

T = TypeVar("T")

Progress = Callable[[int], None]
"""Called with the number of changes since the last call."""

Members = list[tuple[AggregateId, HostId]]

_BATCH = 1000


@dataclass(frozen=True)
class FleetFileChange:
    """The changes of one plan.

    On PostgreSQL claims wait from the first statement that takes the topology token, or locks a row that they need, to
    the commit. So whatever needs neither comes first, and what follows is one statement for all rows of a kind.
    """

    tx: Transaction
    plan: FleetPlan
    now: datetime
    new_uuid: NewUuid
    progress: Progress

    def make(self) -> None:
        """Make all changes. Raises Conflict when another request interferes."""
        self._change_catalogue()
        self._add_scopes()
        self._add_hosts()
        self._add_aggregates()
        self._lock()
        rezoned = self._change_aggregates()
        removed, added = self._change_members()
        self.tx.aggregates.check_keys()
        self.progress(len(self._new_members[1]) + len(self.plan.removed_members))
        # On PostgreSQL claims wait from here to the commit.
        added += self._change_domains()
        self._change_scopes()
        self._reject_servers()
        self._lock_providers(removed, added)
        self.tx.aggregates.mirror_hosts(added=added, removed=removed)
        self.tx.aggregates.set_hosts_zones(rezoned)
        self._change_traits()
        self.tx.hosts.delete(sorted(self._pruned))
        self._change_inventories()

    def _change_catalogue(self) -> None:
        """Pruned flavors and images go first: new ones may have their names."""
        tx, plan, removed = self.tx, self.plan, self.plan.removed
        for flavor in removed.flavors:
            tx.flavors.delete(flavor.id)
        for image in removed.images:
            tx.images.delete(image.id)
        tx.flavors.add(plan.new_flavors, self.now)
        for old, changed in plan.changed_flavors:
            tx.flavors.update(changed, self.now)
            cleared: dict[str, str | None] = dict.fromkeys(old.extra_specs)
            tx.flavors.set_specs(old.id, cleared | dict(changed.extra_specs))
        tx.images.add([_image(ImageId(self.new_uuid()), entry, self.now) for entry in plan.new_images])
        for _, image in plan.changed_images:
            tx.images.update(image)
        self.progress(
            len(plan.new_flavors) + len(plan.changed_flavors) + len(plan.new_images) + len(plan.changed_images)
        )
        self.progress(len(removed.flavors) + len(removed.images))

    def _add_scopes(self) -> None:
        self.tx.scopes.add(
            [
                Scope(ScopeId(self.new_uuid()), e.name, e.allow_identifiers, e.obfuscate_identifiers, new_namespace())
                for e in self.plan.new_scopes
            ]
        )
        self.progress(len(self.plan.new_scopes))

    def _add_hosts(self) -> None:
        plan = self.plan
        totals_of_all = (totals for _, totals in (*plan.new_hosts, *plan.changed_hosts))
        for name in sorted({kind for totals in totals_of_all for kind in totals} - set(STANDARD_CLASSES)):
            self.tx.resource_classes.add(name, self.now)
        # All at once: each waits for another transaction that adds the same trait.
        new_traits = {trait for entry, _ in plan.new_hosts for trait in entry.traits}
        self.tx.traits.add_custom(new_traits | {trait for _, trait in plan.new_traits})
        for batch in _batches(plan.new_hosts):
            new = [NewHost(self.new_uuid(), entry.name, totals, entry.traits) for entry, totals in batch]
            self.tx.hosts.add(new, self.now)
            self.progress(len(batch))

    def _add_aggregates(self) -> None:
        """Add aggregates. They become domains of present scopes later: other changes lock scopes under the token."""
        new, new_scopes = self.plan.new_aggregates, {scope.name for scope in self.plan.new_scopes}
        rows = [
            (self.new_uuid(), a.name, a.zone, self._scopes[a.scope] if a.scope in new_scopes else None) for a in new
        ]
        self.tx.aggregates.add(rows, self.now)
        self.progress(len(new))

    def _lock(self) -> None:
        """Lock the aggregates that change, then the hosts, each by id. Claims do not wait for these locks."""
        tx, plan = self.tx, self.plan
        members = [*plan.new_members, *plan.removed_members]
        aggregates = {a.id for a in plan.removed.aggregates} | {
            a.id for a, _ in (*plan.changed_zones, *plan.changed_domains)
        }
        aggregates |= {self._aggregates[name] for name, _ in (*members, *plan.changed_metadata)}
        tx.aggregates.lock(aggregates)
        hosts = {self._hosts[name] for _, name in members} | {host.id for host in plan.removed.hosts}
        tx.aggregates.lock_hosts(hosts.union(tx.aggregates.host_ids(*aggregates)))

    def _change_aggregates(self) -> set[HostId]:
        """Change metadata and zones. Return the hosts that have to follow their zones."""
        tx, now = self.tx, self.now
        for name, changes in self.plan.changed_metadata:
            tx.aggregates.set_metadata(self._aggregates[name], changes, now)
        rezoned = [tx.aggregates.prepare_zone(a.id, zone, now) for a, zone in self.plan.changed_zones]
        return {host for hosts in rezoned for host in hosts} - self._pruned

    def _change_members(self) -> tuple[Members, Members]:
        """Change which hosts are in which aggregates, except what has to wait for a change of domains.

        Return the hosts that left an aggregate, and those that joined one: their providers have to follow.
        """
        tx, now = self.tx, self.now
        pruned = [aggregate.id for aggregate in self.plan.removed.aggregates]
        removed = [pair for pair in self._pairs(self.plan.removed_members) if pair[0] not in pruned]
        removed += [(aggregate, host) for aggregate in pruned for host in tx.aggregates.host_ids(aggregate)]
        tx.aggregates.prepare_to_remove(removed, now)
        new, present, _ = self._new_members
        for batch in _batches(new):
            tx.aggregates.add_hosts(batch, now)
            self.progress(len(batch))
        tx.aggregates.prepare_to_add(present, now)
        return [pair for pair in removed if pair[1] not in self._pruned], present

    def _change_domains(self) -> Members:
        """Change which aggregates are domains, of which scopes. Return the hosts that join one of them after that."""
        tx, changed = self.tx, self.plan.changed_domains
        pruned = self.plan.removed.aggregates
        reject_targeted(tx, *pruned, *(aggregate for aggregate, _ in changed))
        if pruned:
            tx.aggregates.delete([aggregate.id for aggregate in pruned])
        if changed:  # clear all scopes before setting any: two aggregates may swap
            tx.aggregates.set_scope([aggregate.id for aggregate, _ in changed], None, self.now)
        for scope, domains in sorted(self._new_domains().items()):
            tx.topology.begin_change()
            tx.aggregates.set_scope(domains, self._scopes[scope], self.now)
        late = self._new_members[2]
        tx.aggregates.prepare_to_add(late, self.now)
        return late

    def _new_domains(self) -> Mapping[str, Sequence[AggregateId]]:
        """Return the aggregates that become domains of present scopes, by scope, and those that change theirs."""
        new_scopes = {scope.name for scope in self.plan.new_scopes}
        found: dict[str, list[AggregateId]] = defaultdict(list)
        for aggregate, scope in self.plan.changed_domains:
            if scope:
                found[scope].append(aggregate.id)
        for new in self.plan.new_aggregates:
            if new.scope and new.scope not in new_scopes:
                found[new.scope].append(self._aggregates[new.name])
        return found

    def _change_scopes(self) -> None:
        """Runs after the aggregates: until then one may be a domain of a pruned scope."""
        if self.plan.changed_scopes or self.plan.removed.scopes:
            self.tx.topology.begin_change()  # a claim waits for a group, and a change of the group for the scope
        for _, changed in self.plan.changed_scopes:
            self.tx.scopes.set_flags(changed)
        for scope in self.plan.removed.scopes:
            self.tx.scopes.delete(scope.id)

    def _reject_servers(self) -> None:
        """Raise Conflict for a pruned host with servers."""
        names = {host.id: host.name for host in self.plan.removed.hosts}
        if names:
            self.tx.topology.begin_change()  # from here on no server comes to these hosts
        for server in self.tx.servers.at_hosts(list(names)):
            host = next(names[each] for each in (server.host_id, server.migration_host_id) if each in names)
            raise Conflict(
                f"Host {host} can't be removed: server {server.id} is on it. Move or delete its servers first, or "
                "keep the host in the file."
            )

    def _lock_providers(self, removed: Members, added: Members) -> None:
        """Lock the providers of all hosts that change, at once, so that the common order holds."""
        changed = {host for _, host in (*removed, *added)}
        changed |= {self._hosts[name] for name, _ in (*self.plan.new_traits, *self.plan.removed_traits)}
        changed |= {host.id for host, _ in self.plan.changed_hosts}
        self.tx.topology.begin_change_of(changed, deleted=self._pruned)

    def _change_traits(self) -> None:
        self.tx.hosts.add_traits((self._hosts[host], trait) for host, trait in self.plan.new_traits)
        self.tx.hosts.remove_traits((self._hosts[host], trait) for host, trait in self.plan.removed_traits)

    def _change_inventories(self) -> None:
        """Raises Conflict for an inventory that the file removes while servers use it."""
        tx, plan = self.tx, self.plan
        removed = [
            (host, kind) for host, new in plan.changed_hosts for kind in sorted(host.inventories.keys() - new.keys())
        ]
        if removed:
            current = tx.inventories.of({host.id for host, _ in removed}, lock=True)
            for host, kind in removed:
                if current[host.id][kind].used:
                    raise Conflict(f"Host {host.name}: servers use the inventory of {kind}, which the file removes.")
            tx.inventories.drop((host.id, kind) for host, kind in removed)
        changed = (
            (host.id, {kind: i for kind, i in new.items() if i != host.inventories.get(kind)})
            for host, new in plan.changed_hosts
        )
        tx.hosts.set_inventories(changed)

    @cached_property
    def _hosts(self) -> Mapping[str, HostId]:
        """The hosts by name, with new ones."""
        plan = self.plan
        if not (plan.new_traits or plan.removed_traits or plan.new_members or plan.removed_members):
            return {}
        return {host.name: host.id for host in self.tx.hosts.find()}

    @cached_property
    def _aggregates(self) -> Mapping[str, AggregateId]:
        """The aggregates by name, with new ones."""
        return {aggregate.name: aggregate.id for aggregate in self.tx.aggregates.all()}

    @cached_property
    def _scopes(self) -> Mapping[str, ScopeId]:
        """The scopes by name, with new ones."""
        return {scope.name: scope.id for scope in self.tx.scopes.all()}

    @cached_property
    def _pruned(self) -> frozenset[HostId]:
        return frozenset(host.id for host in self.plan.removed.hosts)

    @cached_property
    def _new_members(self) -> tuple[Members, Members, Members]:
        """New members: those that no claim can know yet, as their hosts are new; others; and those that wait.

        These wait until the domains have changed: before that a host could be in two domains of a scope.
        """
        new = {entry.name for entry, _ in self.plan.new_hosts}
        changing = {aggregate.name for aggregate, _ in self.plan.changed_domains}
        moving = {host for aggregate, _ in self.plan.changed_domains for host in aggregate.hosts}
        late = [(a, host) for a, host in self.plan.new_members if a in changing or host in moving]
        early = [pair for pair in self.plan.new_members if pair[0] not in changing and pair[1] not in moving]
        return (
            self._pairs((a, host) for a, host in early if host in new),
            self._pairs((a, host) for a, host in early if host not in new),
            self._pairs(late),
        )

    def _pairs(self, members: Iterable[tuple[str, str]]) -> Members:
        return [(self._aggregates[aggregate], self._hosts[host]) for aggregate, host in members]


def _image(key: ImageId, entry: ImageEntry, now: datetime) -> Image:
    return Image(
        id=key,
        name=entry.name,
        owner=OPERATORS,
        created_at=now,
        updated_at=now,
        status=ImageStatus.ACTIVE,
        visibility=Visibility.PUBLIC,
        disk_format="raw",
        container_format="bare",
        size_bytes=0,
        properties=dict(entry.properties),
    )


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))
