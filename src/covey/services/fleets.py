"""Applies and exports fleet files.

The command line calls this with direct access to the database, so no access rules apply.
"""

from dataclasses import dataclass

from covey.model.access import OPERATORS
from covey.model.errors import Conflict
from covey.model.flavors import FlavorFilter
from covey.model.fleet_export import export_fleet
from covey.model.fleet_file import FleetFile
from covey.model.fleet_plan import FleetPlan, FleetState, Ratios, desired_aggregates, plan_changes
from covey.model.images import ImageFilter
from covey.model.nova import NovaKind
from covey.ports import Clock, NewUuid
from covey.services.fleet_steps import FleetFileChange, Progress
from covey.storage.store import Store, Transaction

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
            FleetFileChange(tx, plan, self.clock(), self.new_uuid, report).make()
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
