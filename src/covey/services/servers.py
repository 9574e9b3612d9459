"""Servers: create, list, show, update, delete."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from covey.model.access import Actor, Target
from covey.model.claims import ResolvedRequest, ServerRequest
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.flavor_requests import resource_request
from covey.model.flavors import Flavor
from covey.model.ids import HostId, ProjectId
from covey.model.images import Image
from covey.model.servers import PlacementRequest, Server, ServerFilter, ServerName, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock
from covey.scheduler.request_spec import HostRequirements
from covey.services.flavors import Flavors
from covey.services.images import Images
from covey.services.server_creation import ServerCreation
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:servers:"
_NO_HOST = HostId(0)  # stands for a forced host that does not exist; the fault of the server names it


K = TypeVar("K")
V = TypeVar("V")
_CACHE_SIZE = 10_000


class TtlCache(Generic[K, V]):
    """Keeps the results of look-ups for a short time. Errors are not kept."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._entries: dict[K, tuple[float, V]] = {}

    def get(self, key: K, look_up: Callable[[], V]) -> V:
        """Return the cached value, or look it up."""
        now = time.monotonic()
        entry = self._entries.get(key)
        if entry is not None and now < entry[0]:
            return entry[1]
        value = look_up()
        if len(self._entries) >= _CACHE_SIZE:
            self._entries = {}
        self._entries[key] = (now + self._seconds, value)
        return value


@dataclass(frozen=True, slots=True)
class Servers:
    """What clients do with servers, except moves and power."""

    store: Store
    access: Access
    clock: Clock
    server_creation: ServerCreation
    flavors: Flavors
    images: Images
    recent_flavors: TtlCache[tuple[str, str], Flavor]
    recent_images: TtlCache[tuple[str, str], Image]

    def create(self, actor: Actor, request: ServerRequest) -> list[Server]:
        """Return the new servers. Raises Invalid, Forbidden, OverQuota, Conflict, Busy."""
        return self.server_creation.create(self._resolve(actor, request))

    def creating(
        self, actor: Actor, requests: Sequence[ServerRequest]
    ) -> AbstractContextManager[tuple[Transaction, list[Server]]]:
        """Create servers for several requests together with what the block writes, or create nothing.

        Raises NoValidHost when one of the servers has no host, and all that create raises.
        """
        return self.server_creation.creating([self._resolve(actor, request) for request in requests])

    def _resolve(self, actor: Actor, request: ServerRequest) -> ServerRequest:
        """Return the request with what its references stand for. Raises Forbidden, Invalid."""
        own = Target(project_id=actor.project_id, user_id=actor.user_id)
        self.access.require(actor, f"{_RULE}create", own)
        if request.forced_host is not None:
            self.access.require(actor, f"{_RULE}create:forced_host", own)
        if request.requested_host is not None:
            self.access.require(actor, "compute:servers:create:requested_destination", own)
        flavor, image = self.flavor_for(actor, request.flavor_ref), self.image_for(actor, request.image_ref)
        reject_small_flavor(flavor, image)
        placement = self._placement(request, image)
        resolved = ResolvedRequest(
            flavor,
            placement,
            self.requirements_for(actor.project_id, flavor, placement),
            f"No such host - host: {request.forced_host} node: None " if _NO_HOST in placement.hosts else None,
        )
        if image is None or not image.properties:
            return replace(request, resolved=resolved)
        details = replace(request.details, image_properties=image.properties)
        return replace(request, details=details, resolved=resolved)

    def find(self, actor: Actor, filters: ServerFilter, all_projects: bool) -> list[Server]:  # noqa: FBT001
        """Return a page of servers of the project, or of all projects. Raises Invalid, Forbidden."""
        filters = self._visible(actor, filters, "detail", all_projects=all_projects)
        with self.store.read() as tx:
            _require_marker(tx, filters)
            return tx.servers.find(filters)

    def find_names(self, actor: Actor, filters: ServerFilter, all_projects: bool) -> list[ServerName]:  # noqa: FBT001
        """Return the same page without details."""
        filters = self._visible(actor, filters, "index", all_projects=all_projects)
        with self.store.read() as tx:
            _require_marker(tx, filters)
            return tx.servers.find_names(filters)

    def _visible(self, actor: Actor, filters: ServerFilter, rule: str, *, all_projects: bool) -> ServerFilter:
        """Return the filters, limited to what the actor may list. Raises Forbidden."""
        self.access.require(actor, _RULE + rule, Target(project_id=actor.project_id))
        if all_projects:
            self.access.require(actor, f"{_RULE}{rule}:get_all_tenants", Target(project_id=actor.project_id))
        else:
            filters = replace(filters, project_id=actor.project_id)
        if filters.host is not None and not self.access.allows(actor, f"{_RULE}allow_all_filters"):
            filters = replace(filters, host=None)  # a tenant's filter by host is ignored, as Nova does
        return filters

    def get(self, actor: Actor, server: str, rule: str = f"{_RULE}show") -> Server:
        """Return a server. Raises NotFound, also for a server of another project."""
        with self.store.read_once() as tx:
            return self.get_authorized(tx, actor, server, rule)

    def change(
        self, actor: Actor, server: str, rule: str, change: Callable[[Server], Server], *, check_lock: bool = False
    ) -> Server:
        """Store what `change` returns for the server, and return it. Raises Conflict if a lock forbids that."""
        with self.store.write() as tx:
            found = self.get_authorized(tx, actor, server, rule, lock=True)
            if check_lock:
                reject_locked(found, actor, self.access)
            changed = replace(change(found), updated_at=self.clock())
            tx.servers.update(changed)
            if changed.tags != found.tags:
                tx.servers.set_tags(found.id, changed.tags)
        return changed

    def delete(self, actor: Actor, server: str, request_id: str) -> None:
        """Begin to delete a server; a worker removes it from its host. Raises NotFound, Conflict for a locked one."""
        now = self.clock()
        with self.store.write() as tx:
            found = self.get_authorized(tx, actor, server, f"{_RULE}delete", lock=True)
            reject_locked(found, actor, self.access)
            if found.task is Task.DELETING:
                return
            tx.servers.update(replace(found, task=Task.DELETING, updated_at=now))
            tx.actions.add(found, "delete", request_id, actor, now)
            tx.work.drop(found.id)
            tx.work.add(JobKind.DESTROY, found.id, now)

    def requirements_for(self, project: ProjectId, flavor: Flavor, request: PlacementRequest) -> HostRequirements:
        """Return what a server requires of any host, whatever the host's use and the server's group."""
        only: frozenset[HostId] | None = frozenset(request.hosts) if request.hosts else None
        if request.same_host:
            near = self._hosts_of(request.same_host)
            only = near if only is None else only & near
        return HostRequirements(
            project_id=project,
            zone=request.zone,
            required_traits=required_traits(flavor, request),
            forbidden_traits=resource_request(flavor).forbidden | frozenset(request.image_forbidden_traits),
            only_hosts=only,
            ignored_hosts=self._hosts_of(request.different_host),
        )

    def get_authorized(self, tx: Transaction, actor: Actor, server: str, rule: str, *, lock: bool = False) -> Server:
        """Return a server that the actor may see. Raises NotFound for any other, Forbidden if the rule refuses."""
        found = tx.servers.by_id(server, lock=lock)
        target = None if found is None else Target(project_id=found.project_id, user_id=found.user_id)
        if found is None or target is None or not self.access.allows(actor, f"{_RULE}show", target):
            raise NotFound(f"Instance {server} could not be found.")
        self.access.require(actor, rule, target)
        return found

    def _hosts_of(self, servers: tuple[str, ...]) -> frozenset[HostId]:
        if not servers:
            return frozenset()
        with self.store.read() as tx:
            found = tx.servers.find(ServerFilter(ids=servers))
        return frozenset(server.host_id for server in found if server.host_id is not None)

    def flavor_for(self, actor: Actor, flavor: str) -> Flavor:
        """Return a flavor that the actor may use. Raises Invalid for any other."""
        try:
            return self.recent_flavors.get((actor.project_id, flavor), lambda: self.flavors.get(actor, flavor))
        except NotFound as error:
            raise Invalid(error.message) from error

    def image_for(self, actor: Actor, image: str | None) -> Image | None:
        """Return an image that the actor may use. Raises Invalid for any other."""
        if image is None:
            return None
        try:
            return self.recent_images.get((actor.project_id, image), lambda: self.images.get(actor, image))
        except NotFound as error:
            raise Invalid("Can not find requested image") from error

    def _placement(self, request: ServerRequest, image: Image | None) -> PlacementRequest:
        required, forbidden = image_traits(image)
        return PlacementRequest(
            image_id=request.image_ref,
            zone=request.zone,
            hosts=self._destination(request),
            forced=request.forced_host is not None,
            image_required_traits=required,
            image_forbidden_traits=forbidden,
            same_host=request.same_host,
            different_host=request.different_host,
            hints=request.hints,
        )

    def _destination(self, request: ServerRequest) -> tuple[HostId, ...]:
        name = request.forced_host or request.requested_host
        if name is None:
            return ()
        with self.store.read() as tx:
            host = tx.hosts.by_name(name)
        if host is not None:
            return (host.id,)
        if request.requested_host is not None:
            raise Invalid(f"Compute host {name} could not be found.")
        return (_NO_HOST,)


def _require_marker(tx: Transaction, filters: ServerFilter) -> None:
    marker = None if filters.after is None else tx.servers.by_id(filters.after)
    if filters.after and (marker is None or filters.project_id not in {None, marker.project_id}):
        raise Invalid(f"marker [{filters.after}] not found")


def reject_locked(server: Server, actor: Actor, access: Access) -> None:
    """Raise Conflict for a locked server, unless the actor is an administrator."""
    if server.details.locked and not access.allows(actor, "context_is_admin"):
        raise Conflict(f"Instance {server.id} is locked")


def reject_small_flavor(flavor: Flavor, image: Image | None) -> None:
    """Raise Invalid, in Nova's words, for a flavor below the image's minimum. A disk of 0 has any size."""
    if image is not None and flavor.memory_mb < image.min_ram_mb:
        raise Invalid("Flavor's memory is too small for requested image.")
    if image is not None and 0 < flavor.disk_gb < image.min_disk_gb:
        raise Invalid("Flavor's disk is too small for requested image.")


def require_state(server: Server, action: str, *allowed: VmState) -> None:
    """Raise Conflict, in Nova's words, unless the server is in one of the states and has no task."""
    if server.vm_state not in allowed:
        raise Conflict(f"Cannot '{action}' instance {server.id} while it is in vm_state {server.vm_state}")
    if server.task is not None:
        raise Conflict(f"Cannot '{action}' instance {server.id} while it is in task_state {server.task}")


def required_traits(flavor: Flavor, request: PlacementRequest) -> frozenset[str]:
    """Return the traits that flavor and image together require of a host."""
    return resource_request(flavor).required | frozenset(request.image_required_traits)


def image_traits(image: Image | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the traits that an image requires of a host, and those that it forbids."""
    properties = {} if image is None else image.properties
    traits = {key.partition(":")[2]: value for key, value in properties.items() if key.startswith("trait:")}
    required = tuple(trait for trait, value in traits.items() if value == "required")
    return required, tuple(trait for trait, value in traits.items() if value == "forbidden")
