"""Flavors, their extra specs, and the access lists of private flavors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from covey.model.access import Actor, Restricted, Target
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.ids import ProjectId
from covey.model.nova import NovaKind
from covey.ports import Access, Clock
from covey.storage.store import Store, Transaction

_SPECS, _MANAGE, _ACCESS = (f"os_compute_api:os-flavor-{x}" for x in ("extra-specs", "manage", "access"))


@dataclass(frozen=True, slots=True)
class FlavorQuery:
    """The filters, order and page of a flavor listing."""

    is_public: bool | None = True
    min_memory_mb: int = 0
    min_disk_gb: int = 0
    sort_key: str = "flavorid"
    descending: bool = False
    marker: str | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class Flavors:
    """Operations on flavors."""

    store: Store
    access: Access
    clock: Clock

    def find(self, actor: Actor, query: FlavorQuery) -> tuple[list[Flavor], bool]:
        """Return a page of the usable flavors, and whether more follow. Raises Invalid for a bad marker."""
        filters = FlavorFilter(query.is_public, None, query.min_memory_mb, query.min_disk_gb)
        markers = FlavorFilter(is_public=None)
        if not self._is_admin(actor):
            # Tenants see the flavors that they may use: public ones, and private ones with access.
            public = True if actor.project_id is None else None
            filters = replace(filters, is_public=public, visible_to=actor.project_id)
            markers = replace(markers, is_public=public, visible_to=actor.project_id)
        with self.store.read() as tx:
            found = tx.flavors.find(filters, query.sort_key, descending=query.descending)
            if query.marker is not None:  # the marker need not match the filters
                everything = tx.flavors.find(markers, query.sort_key, descending=query.descending)
                later = {flavor.id for flavor in _after(everything, query.marker)}
                found = [flavor for flavor in found if flavor.id in later]
        return found[: query.limit], 0 < query.limit < len(found)

    def get(self, actor: Actor, flavor: str) -> Flavor:
        """Raises NotFound, also for a private flavor without access."""
        found = self.load(flavor)
        if found.projects is None or actor.project_id in found.projects or self._is_admin(actor):
            return found.record
        raise _not_found(flavor)

    def load(self, flavor: str) -> Restricted[Flavor]:
        """Return a flavor and the projects that may use it. Raises NotFound."""
        with self.store.read() as tx:
            found = _get_flavor(tx, flavor)
            return Restricted(found, None if found.is_public else frozenset(tx.flavors.access(found.id)))

    def create(self, actor: Actor, new: Flavor) -> Flavor:
        """Raises Conflict when the id or the name is taken."""
        self.access.require(actor, f"{_MANAGE}:create")
        with self.store.write() as tx:
            tx.flavors.add([new], self.clock())
        return new

    def set_description(self, actor: Actor, flavor: str, description: str | None) -> Flavor:
        """Set the description, the only attribute of a flavor that can change. Raises NotFound."""
        self.access.require(actor, f"{_MANAGE}:update")
        with self.store.write() as tx:
            changed = replace(_get_own(tx, flavor), description=description)
            tx.flavors.update(changed, self.clock())
        return changed

    def delete(self, actor: Actor, flavor: str) -> None:
        self.access.require(actor, f"{_MANAGE}:delete")
        with self.store.write() as tx:
            tx.flavors.delete(_get_own(tx, flavor).id)

    def can_see_specs(self, actor: Actor) -> bool:
        """Return whether the actor may see extra specs."""
        return self.access.allows(actor, f"{_SPECS}:index", Target(project_id=actor.project_id))

    def specs(self, actor: Actor, flavor: str) -> Mapping[str, str]:
        self.access.require(actor, f"{_SPECS}:index", Target(project_id=actor.project_id))
        return self.get(actor, flavor).extra_specs

    def spec(self, actor: Actor, flavor: str, key: str) -> str:
        """Raises NotFound for an unknown flavor or key."""
        self.access.require(actor, f"{_SPECS}:show", Target(project_id=actor.project_id))
        return _spec(self.get(actor, flavor), key)

    def set_specs(self, actor: Actor, flavor: str, specs: Mapping[str, str], rule: str = "create") -> None:
        """Add or replace extra specs. Raises NotFound."""
        self.access.require(actor, f"{_SPECS}:{rule}")
        with self.store.write() as tx:
            tx.flavors.set_specs(_get_own(tx, flavor).id, specs)

    def delete_spec(self, actor: Actor, flavor: str, key: str) -> None:
        self.access.require(actor, f"{_SPECS}:delete")
        with self.store.write() as tx:
            found = _get_own(tx, flavor)
            _spec(found, key)
            tx.flavors.set_specs(found.id, {key: None})

    def projects(self, actor: Actor, flavor: str) -> list[ProjectId]:
        """Return the access list of a private flavor. Raises NotFound for a public one, which has none."""
        self.access.require(actor, _ACCESS)
        with self.store.read() as tx:
            found = _get_flavor(tx, flavor)
            if found.is_public:
                raise NotFound("Access list not available for public flavors.")
            return list(tx.flavors.access(found.id))

    def add_project(self, actor: Actor, flavor: str, project: ProjectId) -> list[ProjectId]:
        """Raises NotFound, and Conflict for a public flavor or a project that already has access."""
        self.access.require(actor, f"{_ACCESS}:add_tenant_access")
        with self.store.write() as tx:
            found = _get_own(tx, flavor)
            if found.is_public:
                raise Conflict("Can not add access to a public flavor.")
            tx.flavors.add_access(found.id, project)
            return list(tx.flavors.access(found.id))

    def remove_project(self, actor: Actor, flavor: str, project: ProjectId) -> list[ProjectId]:
        """Raises NotFound, also when the project has no access."""
        self.access.require(actor, f"{_ACCESS}:remove_tenant_access")
        with self.store.write() as tx:
            found = _get_own(tx, flavor)
            tx.flavors.remove_access(found.id, project)
            return list(tx.flavors.access(found.id))

    def _is_admin(self, actor: Actor) -> bool:
        return self.access.allows(actor, "context_is_admin")


def _get_flavor(tx: Transaction, flavor: str) -> Flavor:
    found = tx.flavors.by_id(flavor)
    if found is None:
        raise _not_found(flavor)
    return found


def _get_own(tx: Transaction, flavor: str) -> Flavor:
    """Return a flavor for a change. Raises NotFound, ReadOnly."""
    found = _get_flavor(tx, flavor)
    tx.nova_mirror.reject(NovaKind.FLAVOR, found.id, found.name)
    return found


def _not_found(flavor: str) -> NotFound:
    return NotFound(f"Flavor {flavor} could not be found.")


def _spec(flavor: Flavor, key: str) -> str:
    if key not in flavor.extra_specs:
        raise NotFound(f"Flavor {flavor.id} has no extra specs with key {key}.")
    return flavor.extra_specs[key]


def _after(flavors: list[Flavor], marker: str) -> list[Flavor]:
    for position, flavor in enumerate(flavors):
        if flavor.id == marker:
            return flavors[position + 1 :]
    raise Invalid(f"marker [{marker}] not found")
