"""Applies and exports fleet files.

The command line calls this with direct access to the database, so no access rules apply.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from covey.model.access import OPERATORS
from covey.model.errors import Conflict
from covey.model.flavors import FlavorFilter
from covey.model.fleet_export import export_fleet
from covey.model.fleet_file import FleetFile, ImageEntry
from covey.model.fleet_plan import FleetPlan, FleetState, Ratios, desired_aggregates, plan_changes
from covey.model.hosts import NewHost
from covey.model.ids import AggregateId, HostId, ImageId, ScopeId
from covey.model.images import Image, ImageFilter, ImageStatus, Visibility
from covey.model.nova import NovaKind
from covey.model.scopes import Scope
from covey.model.vocabulary import STANDARD_CLASSES
from covey.ports import Clock, NewUuid
from covey.services.domains import reject_targeted
from covey.services.scopes import new_namespace
from covey.storage.store import Store, Transaction

T = TypeVar("T")

Progress = Callable[[int], None]
"""Called with the number of changes since the last call."""

_BATCH = 1000
_MAX_NAMES = 5  # in a message


@dataclass(frozen=True, slots=True)
class Fleets:
    """Operations with fleet files."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    default_ratios: Ratios

    def compare(self, file: FleetFile, *, prune: bool = False) -> FleetPlan:
        """Return the changes that `apply` would make. Raises Conflict, and ReadOnly for an object of Nova."""
        with self.store.read() as tx:
            return self._plan(tx, file, prune=prune)

    def apply(self, file: FleetFile, progress: Progress, *, prune: bool = False) -> FleetPlan:
        """Make the service match the file in one transaction.

        Raises Conflict when another request interferes, and ReadOnly for an object of Nova.
        """
        reported = 0

        def report(changes: int) -> None:
            nonlocal reported
            reported += changes
            progress(changes)

        with self.store.write() as tx:
            plan = self._plan(tx, file, prune=prune)
            self._apply_flavors_and_images(tx, plan, report)
            self._add_scopes(tx, plan, report)
            self._add_hosts(tx, plan, report)
            ids = self._add_aggregates(tx, plan, report)
            # On PostgreSQL claims wait from here to the commit.
            self._prune_aggregates(tx, plan.removed)
            self._change_hosts(tx, plan, ids)
            self._change_aggregates(tx, plan, ids)
            self._prune_hosts(tx, plan.removed)
            self._change_scopes(tx, plan)
            self._apply_inventories(tx, plan)
        progress(plan.size - reported)
        return plan

    def export(self) -> FleetFile:
        """Return the fleet as a file; applying that file changes nothing."""
        with self.store.read() as tx:
            return export_fleet(_state(tx), self.default_ratios)

    def _plan(self, tx: Transaction, file: FleetFile, *, prune: bool) -> FleetPlan:
        """Raises ReadOnly for an object of Nova, and Conflict for a new host with the name of a resource provider."""
        _reject_mirrored(tx, file)
        plan = plan_changes(file, _state(tx), self.default_ratios, self.new_uuid, prune=prune)
        taken = tx.providers.names_in_use([entry.name for entry, _ in plan.new_hosts])
        if taken:
            named = ", ".join(taken[:_MAX_NAMES])
            if len(taken) > _MAX_NAMES:
                named += f" and {len(taken) - _MAX_NAMES} more"
            raise Conflict(
                f"Resource providers have the names of hosts of the file: {named}. They were created by the Placement "
                "API, by a Nova cloud for instance. Delete them there, or leave these hosts out of the file."
            )
        return plan

    def _add_scopes(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> None:
        tx.scopes.add(
            [
                Scope(ScopeId(self.new_uuid()), e.name, e.allow_identifiers, e.obfuscate_identifiers, new_namespace())
                for e in plan.new_scopes
            ]
        )
        progress(len(plan.new_scopes))

    def _add_hosts(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> None:
        totals_of_all = (totals for _, totals in (*plan.new_hosts, *plan.changed_hosts))
        for name in sorted({kind for totals in totals_of_all for kind in totals} - set(STANDARD_CLASSES)):
            tx.resource_classes.add(name, self.clock())
        for batch in _batches(plan.new_hosts):
            new = [NewHost(self.new_uuid(), entry.name, totals, entry.traits) for entry, totals in batch]
            tx.hosts.add(new, self.clock())
            progress(len(batch))

    def _add_aggregates(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> "_Ids":
        """Add the new aggregates, and lock all that change; add new hosts to aggregates that have their domain."""
        now = self.clock()
        scopes = {scope.name: scope.id for scope in tx.scopes.all()}
        new = [(self.new_uuid(), a.name, a.zone, scopes[a.scope] if a.scope else None) for a in plan.new_aggregates]
        tx.aggregates.add(new, now)
        progress(len(new))
        ids = _Ids(
            {host.name: host.id for host in tx.hosts.find()} if _names_hosts(plan) else {},
            {aggregate.name: aggregate.id for aggregate in tx.aggregates.all()},
            scopes,
        )
        _lock(tx, plan, ids)
        early, _ = _split_members(plan)
        for batch in _batches(early):
            tx.aggregates.add_hosts(ids.of(batch), now)
            progress(len(batch))
        return ids

    def _change_hosts(self, tx: Transaction, plan: FleetPlan, ids: "_Ids") -> None:
        tx.hosts.add_traits((ids.hosts[host], trait) for host, trait in plan.new_traits)
        tx.hosts.remove_traits((ids.hosts[host], trait) for host, trait in plan.removed_traits)

    def _change_scopes(self, tx: Transaction, plan: FleetPlan) -> None:
        """Runs after the aggregates: until then one may be a domain of a pruned scope."""
        if plan.changed_scopes or plan.removed.scopes:
            tx.topology.begin_change()  # a claim waits for a group, and a change of the group for the scope
        for _, changed in plan.changed_scopes:
            tx.scopes.set_flags(changed)
        for scope in plan.removed.scopes:
            tx.scopes.delete(scope.id)

    def _apply_inventories(self, tx: Transaction, plan: FleetPlan) -> None:
        """Raises Conflict for an inventory that the file removes while servers use it."""
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

    def _change_aggregates(self, tx: Transaction, plan: FleetPlan, ids: "_Ids") -> None:
        now = self.clock()
        pruned = {aggregate.name for aggregate in plan.removed.aggregates}
        tx.aggregates.remove_hosts(ids.of([pair for pair in plan.removed_members if pair[0] not in pruned]), now)
        for aggregate, zone in plan.changed_zones:
            tx.aggregates.set_zone(aggregate.id, zone, now)
        for aggregate, _ in plan.changed_domains:
            reject_targeted(tx, aggregate)
        for aggregate, _ in plan.changed_domains:  # clear all scopes before setting any: two aggregates may swap
            tx.aggregates.set_scope(aggregate.id, None, now)
        for aggregate, scope in plan.changed_domains:
            tx.aggregates.set_scope(aggregate.id, ids.scopes[scope] if scope else None, now)
        for name, changes in plan.changed_metadata:
            tx.aggregates.set_metadata(ids.aggregates[name], changes, now)
        _, late = _split_members(plan)
        tx.aggregates.add_hosts(ids.of(late), now)

    def _apply_flavors_and_images(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> None:
        """Pruned ones go first: new ones may have their names."""
        now, removed = self.clock(), plan.removed
        for flavor in removed.flavors:
            tx.flavors.delete(flavor.id)
        for image in removed.images:
            tx.images.delete(image.id)
        tx.flavors.add(plan.new_flavors, now)
        for old, changed in plan.changed_flavors:
            tx.flavors.update(changed, now)
            cleared: dict[str, str | None] = dict.fromkeys(old.extra_specs)
            tx.flavors.set_specs(old.id, cleared | dict(changed.extra_specs))
        tx.images.add([_image(ImageId(self.new_uuid()), entry, now) for entry in plan.new_images])
        for _, image in plan.changed_images:
            tx.images.update(image)
        progress(len(plan.new_flavors) + len(plan.changed_flavors) + len(plan.new_images) + len(plan.changed_images))
        progress(len(removed.flavors) + len(removed.images))

    def _prune_aggregates(self, tx: Transaction, removed: FleetState) -> None:
        """Runs before other changes of aggregates, since their hosts may join other domains of the same scope."""
        members = [(a.id, host) for a in removed.aggregates for host in tx.aggregates.host_ids(a.id)]
        tx.aggregates.remove_hosts(members, self.clock())
        for aggregate in removed.aggregates:
            reject_targeted(tx, aggregate)
            tx.aggregates.delete(aggregate.id)

    def _prune_hosts(self, tx: Transaction, removed: FleetState) -> None:
        """Raises Conflict for a host with servers."""
        names = {host.id: host.name for host in removed.hosts}
        if names:
            tx.topology.begin_change()  # from here on no server comes to these hosts
        for server in tx.servers.at_hosts(list(names)):
            host = next(names[each] for each in (server.host_id, server.migration_host_id) if each in names)
            raise Conflict(
                f"Host {host} can't be removed: server {server.id} is on it. Move or delete its servers first, or "
                "keep the host in the file."
            )
        tx.hosts.delete(list(names))


@dataclass(frozen=True, slots=True)
class _Ids:
    """The ids of objects by name."""

    hosts: Mapping[str, HostId]
    aggregates: Mapping[str, AggregateId]
    scopes: Mapping[str, ScopeId]

    def of(self, members: Iterable[tuple[str, str]]) -> list[tuple[AggregateId, HostId]]:
        return [(self.aggregates[aggregate], self.hosts[host]) for aggregate, host in members]


def _names_hosts(plan: FleetPlan) -> bool:
    """Return whether a plan refers to hosts by name."""
    return bool(plan.new_traits or plan.removed_traits or plan.new_members or plan.removed_members)


def _lock(tx: Transaction, plan: FleetPlan, ids: _Ids) -> None:
    """Lock the aggregates that change, then the hosts, each by id. Claims do not wait for these locks."""
    members = [*plan.new_members, *plan.removed_members]
    aggregates = {a.id for a in plan.removed.aggregates} | {
        a.id for a, _ in (*plan.changed_zones, *plan.changed_domains)
    }
    aggregates |= {ids.aggregates[name] for name, _ in (*members, *plan.changed_metadata)}
    tx.aggregates.lock(aggregates)
    hosts = {ids.hosts[name] for _, name in members} | {host.id for host in plan.removed.hosts}
    tx.aggregates.lock_hosts(hosts.union(*(tx.aggregates.host_ids(aggregate) for aggregate in aggregates)))


def _split_members(plan: FleetPlan) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the new members that no claim can know yet, as their hosts are new, and the others.

    A host joins an aggregate that changes its scope after that: until then it could be in two domains of a scope.
    """
    new = {entry.name for entry, _ in plan.new_hosts}
    changing = {aggregate.name for aggregate, _ in plan.changed_domains}
    early = [(a, host) for a, host in plan.new_members if host in new and a not in changing]
    return early, [pair for pair in plan.new_members if pair[1] not in new or pair[0] in changing]


def _state(tx: Transaction) -> FleetState:
    """Return what fleet files manage; private flavors, images of projects and what Nova manages are excluded."""
    aggregates, flavors = tx.nova_mirror.owned(NovaKind.AGGREGATE), tx.nova_mirror.owned(NovaKind.FLAVOR)
    return FleetState(
        hosts=tuple(tx.hosts.find()),
        scopes=tuple(tx.scopes.all()),
        aggregates=tuple(each for each in tx.aggregates.all() if each.uuid not in aggregates),
        flavors=tuple(each for each in tx.flavors.find(FlavorFilter(is_public=True)) if each.id not in flavors),
        images=tuple(tx.images.find(ImageFilter(owner=OPERATORS, hidden=None, sort_key="name", descending=False))),
    )


def _reject_mirrored(tx: Transaction, file: FleetFile) -> None:
    """Raise ReadOnly if the file names an aggregate or a flavor that belongs to Nova."""
    aggregates, flavors = tx.nova_mirror.owned(NovaKind.AGGREGATE), tx.nova_mirror.owned(NovaKind.FLAVOR)
    named = desired_aggregates(file) if aggregates else {}
    for aggregate in tx.aggregates.all() if named else ():
        if aggregate.uuid in aggregates and aggregate.name in named:
            tx.nova_mirror.reject(NovaKind.AGGREGATE, aggregate.uuid, aggregate.name)
    taken = {name for entry in file.flavors for name in (entry.name, entry.id)} if flavors else set()
    for flavor in tx.flavors.find(FlavorFilter(is_public=None)) if taken else ():
        if flavor.id in flavors and taken & {flavor.id, flavor.name}:
            tx.nova_mirror.reject(NovaKind.FLAVOR, flavor.id, flavor.name)


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
