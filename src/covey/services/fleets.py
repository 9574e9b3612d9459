"""Applies and exports fleet files.

The command line calls this with direct access to the database, so no access rules apply.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from covey.model.flavors import FlavorFilter
from covey.model.fleet_export import export_fleet
from covey.model.fleet_file import FleetFile, ImageEntry
from covey.model.fleet_plan import FleetPlan, FleetState, Ratios, plan_changes
from covey.model.hosts import NewHost
from covey.model.ids import ImageId, ProjectId, ScopeId
from covey.model.images import Image, ImageFilter, ImageStatus, Visibility
from covey.model.scopes import Scope
from covey.ports import Clock, NewUuid
from covey.services.scopes import new_namespace
from covey.storage.store import Store, Transaction

T = TypeVar("T")

Progress = Callable[[int], None]
"""Called with the number of changes since the last call."""

OPERATORS = ProjectId("")  # the owner of images that belong to no project
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Fleets:
    """Operations with fleet files."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    default_ratios: Ratios

    def compare(self, file: FleetFile, *, prune: bool = False) -> FleetPlan:
        """Return the changes that `apply` would make."""
        with self.store.read() as tx:
            return plan_changes(file, _state(tx), self.default_ratios, self.new_uuid, prune=prune)

    def apply(self, file: FleetFile, progress: Progress, *, prune: bool = False) -> FleetPlan:
        """Make the service match the file in one transaction. Raises Conflict when another request interferes."""
        with self.store.write() as tx:
            plan = plan_changes(file, _state(tx), self.default_ratios, self.new_uuid, prune=prune)
            self._prune(tx, plan.removed, progress)  # first: pruned objects may conflict with new ones
            self._apply_scopes(tx, plan, progress)
            self._apply_hosts(tx, plan, progress)
            self._apply_aggregates(tx, plan, progress)
            self._apply_flavors_and_images(tx, plan, progress)
            self._prune_scopes(tx, plan.removed, progress)
            # Last: claims on these hosts wait from here to the commit.
            tx.hosts.set_inventories((host.id, totals) for host, totals in plan.changed_hosts)
            progress(len(plan.changed_hosts))
        return plan

    def export(self) -> FleetFile:
        """Return the fleet as a file; applying that file changes nothing."""
        with self.store.read() as tx:
            return export_fleet(_state(tx), self.default_ratios)

    def _apply_scopes(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> None:
        tx.scopes.add(
            [
                Scope(ScopeId(self.new_uuid()), e.name, e.allow_identifiers, e.obfuscate_identifiers, new_namespace())
                for e in plan.new_scopes
            ]
        )
        for _, changed in plan.changed_scopes:
            tx.scopes.set_flags(changed)
        progress(len(plan.new_scopes) + len(plan.changed_scopes))

    def _apply_hosts(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> None:
        for batch in _batches(plan.new_hosts):
            new = [NewHost(self.new_uuid(), entry.name, totals, entry.traits) for entry, totals in batch]
            tx.hosts.add(new, self.clock())
            progress(len(batch))
        ids = {host.name: host.id for host in tx.hosts.find()} if plan.new_traits or plan.removed_traits else {}
        tx.hosts.add_traits((ids[host], trait) for host, trait in plan.new_traits)
        tx.hosts.remove_traits((ids[host], trait) for host, trait in plan.removed_traits)
        progress(len(plan.new_traits) + len(plan.removed_traits))

    def _apply_aggregates(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> None:
        now = self.clock()
        scopes = {scope.name: scope.id for scope in tx.scopes.all()}
        new = [(self.new_uuid(), a.name, a.zone, scopes[a.scope] if a.scope else None) for a in plan.new_aggregates]
        tx.aggregates.add(new, now)
        ids = {aggregate.name: aggregate.id for aggregate in tx.aggregates.all()}
        hosts = {host.name: host.id for host in tx.hosts.find()} if plan.new_members or plan.removed_members else {}
        for batch in _batches(plan.removed_members):  # pruning has already removed some of them
            remaining = [(ids[a], hosts[h]) for a, h in batch if a in ids and h in hosts]
            tx.aggregates.remove_hosts(remaining, now)
            progress(len(batch))
        for aggregate, zone in plan.changed_zones:
            tx.aggregates.set_zone(aggregate.id, zone, now)
        for aggregate, _ in plan.changed_domains:  # clear all scopes before setting any: two aggregates may swap
            tx.aggregates.set_scope(aggregate.id, None, now)
        for aggregate, scope in plan.changed_domains:
            tx.aggregates.set_scope(aggregate.id, scopes[scope] if scope else None, now)
        for name, changes in plan.changed_metadata:
            tx.aggregates.set_metadata(ids[name], changes, now)
        progress(len(new) + len(plan.changed_zones) + len(plan.changed_domains) + len(plan.changed_metadata))
        for batch in _batches(plan.new_members):
            tx.aggregates.add_hosts([(ids[a], hosts[h]) for a, h in batch], now)
            progress(len(batch))

    def _apply_flavors_and_images(self, tx: Transaction, plan: FleetPlan, progress: Progress) -> None:
        now = self.clock()
        tx.flavors.add(plan.new_flavors, now)
        for old, changed in plan.changed_flavors:
            tx.flavors.update(changed, now)
            cleared: dict[str, str | None] = dict.fromkeys(old.extra_specs)
            tx.flavors.set_specs(old.id, cleared | dict(changed.extra_specs))
        tx.images.add([_image(ImageId(self.new_uuid()), entry, now) for entry in plan.new_images])
        for _, image in plan.changed_images:
            tx.images.update(image)
        progress(len(plan.new_flavors) + len(plan.changed_flavors) + len(plan.new_images) + len(plan.changed_images))

    def _prune(self, tx: Transaction, removed: FleetState, progress: Progress) -> None:
        members = [(a.id, host) for a in removed.aggregates for host in tx.aggregates.host_ids(a.id)]
        tx.aggregates.remove_hosts(members, self.clock())
        for aggregate in removed.aggregates:
            tx.aggregates.delete(aggregate.id)
        tx.hosts.delete([host.id for host in removed.hosts])
        for flavor in removed.flavors:
            tx.flavors.delete(flavor.id)
        for image in removed.images:
            tx.images.delete(image.id)
        progress(removed.size - len(removed.scopes))

    def _prune_scopes(self, tx: Transaction, removed: FleetState, progress: Progress) -> None:
        """Runs last: until then an aggregate may be a domain of a pruned scope."""
        for scope in removed.scopes:
            tx.scopes.delete(scope.id)
        progress(len(removed.scopes))


def _state(tx: Transaction) -> FleetState:
    """Return what fleet files manage; private flavors and images of projects are excluded."""
    return FleetState(
        hosts=tuple(tx.hosts.find()),
        scopes=tuple(tx.scopes.all()),
        aggregates=tuple(tx.aggregates.all()),
        flavors=tuple(tx.flavors.find(FlavorFilter(is_public=True))),
        images=tuple(tx.images.find(ImageFilter(owner=OPERATORS, hidden=None, sort_key="name", descending=False))),
    )


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
