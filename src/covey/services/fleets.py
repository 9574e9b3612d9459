"""Making the service match a fleet file, and writing a fleet file of what it has.

Operators do this with the database in their hands, from the command line; there is no actor to ask about.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from covey.model.flavors import FlavorFilter
from covey.model.fleet_export import as_file
from covey.model.fleet_file import FleetFile, ImageEntry
from covey.model.fleet_plan import FleetPlan, FleetState, Ratios, plan
from covey.model.hosts import NewHost
from covey.model.ids import ImageId, ProjectId, ScopeId
from covey.model.images import Image, ImageFilter, ImageStatus, Visibility
from covey.model.scopes import Scope
from covey.ports import Clock, NewUuid
from covey.services.scopes import new_namespace
from covey.storage.store import Store, Transaction

T = TypeVar("T")

Progress = Callable[[int], None]
"""Told how many more changes were made."""

OPERATORS = ProjectId("")  # the owner of what belongs to no tenant
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Fleets:
    """What can be done with fleet files."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    default_ratios: Ratios

    def compare(self, file: FleetFile, *, prune: bool = False) -> FleetPlan:
        """What `apply` would change."""
        with self.store.read() as tx:
            return plan(file, _state(tx), self.default_ratios, self.new_uuid, prune=prune)

    def apply(self, file: FleetFile, progress: Progress, *, prune: bool = False) -> FleetPlan:
        """Make the service match the file: all changes, or none. Raises Conflict when others change it too."""
        with self.store.write() as tx:
            made = plan(file, _state(tx), self.default_ratios, self.new_uuid, prune=prune)
            self._prune(tx, made.removed, progress)  # first: what goes may be in the way of what comes
            self._scopes(tx, made, progress)
            self._hosts(tx, made, progress)
            self._aggregates(tx, made, progress)
            self._flavors_and_images(tx, made, progress)
            self._prune_scopes(tx, made.removed, progress)
        return made

    def export(self) -> FleetFile:
        """The fleet as a file that, applied again, changes nothing."""
        with self.store.read() as tx:
            return as_file(_state(tx), self.default_ratios)

    def _scopes(self, tx: Transaction, made: FleetPlan, progress: Progress) -> None:
        tx.scopes.add(
            [
                Scope(ScopeId(self.new_uuid()), e.name, e.allow_identifiers, e.obfuscate_identifiers, new_namespace())
                for e in made.new_scopes
            ]
        )
        for _, wanted in made.changed_scopes:
            tx.scopes.set_flags(wanted)
        progress(len(made.new_scopes) + len(made.changed_scopes))

    def _hosts(self, tx: Transaction, made: FleetPlan, progress: Progress) -> None:
        for some in _batches(made.new_hosts):
            new = [NewHost(self.new_uuid(), entry.name, has, entry.traits) for entry, has in some]
            tx.hosts.add(new, self.clock())
            progress(len(some))
        tx.hosts.set_inventories((host.id, has) for host, has in made.changed_hosts)
        ids = {host.name: host.id for host in tx.hosts.find()} if made.new_traits or made.gone_traits else {}
        tx.hosts.add_traits((ids[host], trait) for host, trait in made.new_traits)
        tx.hosts.remove_traits((ids[host], trait) for host, trait in made.gone_traits)
        progress(len(made.changed_hosts) + len(made.new_traits) + len(made.gone_traits))

    def _aggregates(self, tx: Transaction, made: FleetPlan, progress: Progress) -> None:
        now = self.clock()
        scopes = {scope.name: scope.id for scope in tx.scopes.all()}
        new = [(self.new_uuid(), w.name, w.zone, scopes[w.scope] if w.scope else None) for w in made.new_aggregates]
        tx.aggregates.add(new, now)
        ids = {aggregate.name: aggregate.id for aggregate in tx.aggregates.all()}
        hosts = {host.name: host.id for host in tx.hosts.find()} if made.new_members or made.gone_members else {}
        for some in _batches(made.gone_members):  # some of which went with what was pruned
            left = [(ids[a], hosts[h]) for a, h in some if a in ids and h in hosts]
            tx.aggregates.remove_hosts(left, now)
            progress(len(some))
        for aggregate, zone in made.changed_zones:
            tx.aggregates.set_zone(aggregate.id, zone, now)
        for aggregate, _ in made.changed_domains:  # out of all before into any: two may swap
            tx.aggregates.set_scope(aggregate.id, None, now)
        for aggregate, scope in made.changed_domains:
            tx.aggregates.set_scope(aggregate.id, scopes[scope] if scope else None, now)
        for name, changes in made.changed_metadata:
            tx.aggregates.set_metadata(ids[name], changes, now)
        progress(len(new) + len(made.changed_zones) + len(made.changed_domains) + len(made.changed_metadata))
        for some in _batches(made.new_members):
            tx.aggregates.add_hosts([(ids[a], hosts[h]) for a, h in some], now)
            progress(len(some))

    def _flavors_and_images(self, tx: Transaction, made: FleetPlan, progress: Progress) -> None:
        now = self.clock()
        tx.flavors.add(made.new_flavors, now)
        for old, wanted in made.changed_flavors:
            tx.flavors.update(wanted, now)
            gone: dict[str, str | None] = dict.fromkeys(old.extra_specs)
            tx.flavors.set_specs(old.id, gone | dict(wanted.extra_specs))
        tx.images.add([_image(ImageId(self.new_uuid()), entry, now) for entry in made.new_images])
        for _, image in made.changed_images:
            tx.images.update(image)
        progress(len(made.new_flavors) + len(made.changed_flavors) + len(made.new_images) + len(made.changed_images))

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
        """Last: until then an aggregate may still be a domain of one."""
        for scope in removed.scopes:
            tx.scopes.delete(scope.id)
        progress(len(removed.scopes))


def _state(tx: Transaction) -> FleetState:
    """What operators own: public flavors, and images that belong to no tenant."""
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
