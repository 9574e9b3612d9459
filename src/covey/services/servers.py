"""Servers: create, list, show, update, delete."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from covey.model.access import Actor, Restricted, Target
from covey.model.claims import ResolvedRequest, ServerRequest
from covey.model.errors import Conflict, Invalid, NotFound, OutdatedRequest
from covey.model.flavors import Flavor
from covey.model.ids import HostId, ProjectId
from covey.model.images import Image
from covey.model.keypairs import KeyPair
from covey.model.resources import resource_request
from covey.model.servers import BootData, PlacementRequest, Server, ServerFilter, ServerName, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock
from covey.scheduler.planning import reject_much_metadata
from covey.scheduler.request_spec import HostRequirements
from covey.services.flavors import Flavors
from covey.services.hosts import with_node
from covey.services.images import Images
from covey.services.instances import missing_server
from covey.services.quotas import Quotas
from covey.services.server_creation import ServerCreation
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:servers:"
_NO_IMAGE = "Can not find requested image"
_NO_HOST = HostId(0)  # stands for a forced host that does not exist; the fault of the server names it

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Servers:
    """What clients do with servers, except moves and power."""

    store: Store
    access: Access
    clock: Clock
    server_creation: ServerCreation
    flavors: Flavors
    images: Images
    quotas: Quotas
    isolate_forced_hosts: bool = True  # a forced host is in no aggregate that is closed to the server
    boots_image_data: bool = False  # by the hosts; otherwise records of the catalogue do

    def create(self, actor: Actor, request: ServerRequest) -> list[Server]:
        """Return the new servers. Raises Invalid, Forbidden, OverQuota, Conflict, Busy."""
        with suppress(OutdatedRequest):
            return self.server_creation.create(self._resolve_cached(actor, request))
        return self.server_creation.create(self._resolve(actor, request, cached=False))

    def creating(
        self, actor: Actor, requests: Sequence[ServerRequest]
    ) -> AbstractContextManager[tuple[Transaction, list[Server]]]:
        """Create servers for several requests together with what the block writes, or create nothing.

        Raises NoValidHost when one of the servers has no host, and all that create raises.
        """
        return self.server_creation.creating([self._resolve(actor, request, cached=False) for request in requests])

    def _resolve_cached(self, actor: Actor, request: ServerRequest) -> ResolvedRequest:
        """Resolve a request by cached records. What they refuse is decided by the stored ones: no plan follows."""
        with suppress(Invalid):
            return self._resolve(actor, request)
        return self._resolve(actor, request, cached=False)

    def _resolve(self, actor: Actor, request: ServerRequest, *, cached: bool = True) -> ResolvedRequest:
        """Return the request with what its references stand for. Raises Forbidden, Invalid.

        Cached flavors and images may be outdated, which the plan finds out: OutdatedRequest.
        """
        own = Target(project_id=actor.project_id, user_id=actor.user_id)
        self.access.require(actor, f"{_RULE}create", own)
        if request.forced_host is not None:
            self.access.require(actor, f"{_RULE}create:forced_host", own)
        if request.requested_host is not None:
            self.access.require(actor, "compute:servers:create:requested_destination", own)
        versions: tuple[int, int] | None = None
        if cached:
            flavor_version, flavor = self._cached_flavor(actor, request.flavor_ref)
            image_version, image = self._cached_image(actor, request.image_ref)
            versions = flavor_version, image_version
        else:
            flavor, image = self.flavor_for(actor, request.flavor_ref), self.image_for(actor, request.image_ref)
        if self.boots_image_data:
            _reject_without_data(image, cached=cached)
        reject_small_flavor(flavor, image, volume_backed=request.volume_backed)
        if request.details.key_name is not None:
            key = self._key_pair(actor, request.details.key_name)
            boot = replace(request.boot or BootData(), key_name=key.name, public_key=key.public_key)
            request = replace(request, boot=boot)
        if image is not None and image.properties:
            request = replace(request, details=replace(request.details, image_properties=image.properties))
        placement = self._placement(actor, request, image)
        return ResolvedRequest(
            request,
            flavor,
            resource_request(flavor),
            placement,
            self.requirements_for(request.project_id, flavor, placement),
            f"No such host - host: {request.forced_host} node: None " if _NO_HOST in placement.hosts else None,
            versions,
        )

    def find(self, actor: Actor, filters: ServerFilter, all_projects: bool) -> list[Server]:  # noqa: FBT001
        """Return a page of servers of the project, or of all projects. Raises Invalid, Forbidden."""
        filters = self._visible(actor, filters, "detail", all_projects=all_projects)
        with self._page(filters) as tx:
            return tx.servers.find(filters)

    def find_names(self, actor: Actor, filters: ServerFilter, all_projects: bool) -> list[ServerName]:  # noqa: FBT001
        """Return the same page without details."""
        filters = self._visible(actor, filters, "index", all_projects=all_projects)
        with self._page(filters) as tx:
            return tx.servers.find_names(filters)

    @contextmanager
    def _page(self, filters: ServerFilter) -> Iterator[Transaction]:
        """Read a page by one statement; after a marker, by two that see the same rows. Raises Invalid."""
        if not filters.after:
            with self.store.read_once() as tx:
                yield tx
            return
        with self.store.read() as tx:
            marker = tx.servers.by_id(filters.after)
            if marker is None or filters.project_id not in {None, marker.project_id}:
                raise Invalid(f"marker [{filters.after}] not found")
            yield tx

    def _visible(self, actor: Actor, filters: ServerFilter, rule: str, *, all_projects: bool) -> ServerFilter:
        """Return the filters, limited to what the actor may list. Raises Forbidden."""
        self.access.require(actor, _RULE + rule, Target(project_id=actor.project_id))
        if all_projects:
            self.access.require(actor, f"{_RULE}{rule}:get_all_tenants", Target(project_id=actor.project_id))
        else:
            filters = replace(filters, project_id=actor.own_project)
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
        """Store what `change` returns for the server, and return it.

        Raises Conflict if a lock forbids that, OverQuota for too much metadata.
        """
        with self.store.write() as tx:
            found = self.get_authorized(tx, actor, server, rule, lock=True)
            if check_lock:
                reject_locked(found, actor, self.access)
            changed = replace(change(found), updated_at=self.clock())
            if len(changed.details.metadata) > len(found.details.metadata):
                limits = self.quotas.limits_in(tx, found.project_id)
                reject_much_metadata(len(changed.details.metadata), limits)
            tx.servers.update(changed)
            if changed.tags != found.tags:
                tx.servers.set_tags(found.id, changed.tags)
        return changed

    def delete(self, actor: Actor, server: str, request_id: str, rule: str = f"{_RULE}delete") -> None:
        """Begin to delete a server; a worker removes it from its host. Raises NotFound, Conflict for a locked one."""
        now = self.clock()
        with self.store.write() as tx:
            found = self.get_authorized(tx, actor, server, rule, lock=True)
            reject_locked(found, actor, self.access)
            if found.task is Task.DELETING:
                return
            tx.servers.update(replace(found, task=Task.DELETING, updated_at=now))
            tx.actions.add(found, "delete", request_id, actor, now)
            tx.work.drop_waiting(found.id)  # one that a worker carries out ends first
            tx.work.add(JobKind.DESTROY, found.id)

    def requirements_for(
        self, project: ProjectId, flavor: Flavor, request: PlacementRequest, tx: Transaction | None = None
    ) -> HostRequirements:
        """Return what a server requires of any host, independent of the host's use and the server's group.

        A caller that holds a transaction passes it, since a second connection may not be free.
        """
        requested = resource_request(flavor)
        only: frozenset[HostId] | None = frozenset(request.hosts) if request.hosts else None
        if request.same_host:
            near = self._hosts_of(request.same_host, project, tx)
            only = near if only is None else only & near
        return HostRequirements(
            project_id=project,
            zone=request.zone,
            required_traits=required_traits(flavor, request),
            forbidden_traits=requested.forbidden | frozenset(request.image_forbidden_traits),
            only_hosts=only,
            ignored_hosts=self._hosts_of(request.different_host, project, tx),
            ignores_isolation=request.forced and not self.isolate_forced_hosts,
            granular_traits=requested.granular_traits,
        )

    def get_authorized(
        self, tx: Transaction, actor: Actor, server: str, rule: str, *, lock: bool = False, changes: bool = False
    ) -> Server:
        """Return a server that the actor may see; with `lock`, or after a look that locked nothing, for a change.

        Raises NotFound for any other, Forbidden if the rule refuses, ReadOnly for a change of an instance of Nova.
        """
        found = tx.servers.by_id(server, lock=lock)
        target = None if found is None else Target(project_id=found.project_id, user_id=found.user_id)
        if found is None or target is None:
            raise missing_server(tx, self.access, actor, server, changes=lock or changes)
        if not self.access.allows(actor, f"{_RULE}show", target):
            raise NotFound(f"Instance {server} could not be found.")
        if rule != f"{_RULE}show":
            self.access.require(actor, rule, target)
        return found

    def _key_pair(self, actor: Actor, name: str) -> KeyPair:
        with self.store.read_once() as tx:
            found = tx.key_pairs.by_name(actor.user_id, name)
        if found is None:
            raise Invalid("Invalid key_name provided.")
        return found

    def _hosts_of(self, servers: tuple[str, ...], project: ProjectId, tx: Transaction | None) -> frozenset[HostId]:
        """Return the hosts of those of the servers that the project owns; any other is like one that does not exist."""
        if not servers:
            return frozenset()
        with self.store.read() if tx is None else nullcontext(tx) as reading:
            found = reading.servers.find(ServerFilter(ids=servers, project_id=project))
        return frozenset(server.host_id for server in found if server.host_id is not None)

    def flavor_for(self, actor: Actor, flavor: str) -> Flavor:
        """Return a flavor that the actor may use. Raises Invalid for any other."""
        with _MISSING_FLAVOR:
            return self.flavors.get(actor, flavor)

    def image_for(self, actor: Actor, image: str | None) -> Image | None:
        """Return an image that the actor may use. Raises Invalid for any other."""
        with _MISSING_IMAGE:
            return None if image is None else self.images.get(actor, image)

    def _cached_flavor(self, actor: Actor, flavor: str) -> tuple[int, Flavor]:
        """Return the version and the record of a flavor, as `flavor_for` does."""
        with _MISSING_FLAVOR:
            version, found = self.server_creation.live.flavors.get(flavor, self.flavors.load)
        if not self._may_use(actor, found, "context_is_admin"):
            raise Invalid(f"Flavor {flavor} could not be found.")
        return version, found.record

    def _cached_image(self, actor: Actor, image: str | None) -> tuple[int, Image | None]:
        """Return the version and the record of an image, as `image_for` does."""
        if image is None:
            return 0, None
        self.access.require(actor, "image:get_image")
        with _MISSING_IMAGE:
            version, found = self.server_creation.live.images.get(image, self.images.load)
        if not self._may_use(actor, found, "image:any_project"):
            raise Invalid(_NO_IMAGE)
        return version, found.record

    def _may_use(self, actor: Actor, found: Restricted[V], any_project: str) -> bool:
        """Return whether a record of the catalogue is for the actor's project, or the actor for any project."""
        projects = found.projects
        return projects is None or actor.project_id in projects or self.access.allows(actor, any_project)

    def _placement(self, actor: Actor, request: ServerRequest, image: Image | None) -> PlacementRequest:
        required, forbidden = image_traits(image)
        return PlacementRequest(
            image_id=None if request.volume_backed else request.image_ref,
            zone=request.zone,
            hosts=self._destination(actor, request),
            forced=request.forced_host is not None,
            image_required_traits=required,
            image_forbidden_traits=forbidden,
            same_host=request.same_host,
            different_host=request.different_host,
            hints=request.hints,
        )

    def _destination(self, actor: Actor, request: ServerRequest) -> tuple[HostId, ...]:
        name = request.forced_host or request.requested_host
        if name is None:
            return ()
        with self.store.read() as tx:
            host = tx.hosts.by_name(name)
            if host is None and request.requested_host is not None:
                raise Invalid(with_node(tx, self.access, actor, name, f"Compute host {name} could not be found."))
        if host is not None:
            return (host.id,)
        return (_NO_HOST,)


@dataclass(frozen=True, slots=True)
class _MissingAsInvalid:
    """Raises Invalid for what is not found: the path exists, but the body refers to nothing."""

    message: str | None = None  # by default, that of the error

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, NotFound):
            raise Invalid(self.message or error.message) from error


_MISSING_FLAVOR, _MISSING_IMAGE = _MissingAsInvalid(), _MissingAsInvalid(_NO_IMAGE)


def reject_locked(server: Server, actor: Actor, access: Access) -> None:
    """Raise Conflict for a locked server, unless the actor is an administrator."""
    if server.details.locked and not access.allows(actor, "context_is_admin"):
        raise Conflict(f"Instance {server.id} is locked")


def reject_small_flavor(flavor: Flavor, image: Image | None, *, volume_backed: bool = False) -> None:
    """Raise Invalid, in Nova's words, for a flavor below the image's minimum. A disk of 0 or a volume fits."""
    if image is not None and flavor.memory_mb < image.min_ram_mb:
        raise Invalid("Flavor's memory is too small for requested image.")
    if image is not None and not volume_backed and 0 < flavor.disk_gb < image.min_disk_gb:
        raise Invalid("Flavor's disk is too small for requested image.")


def _reject_without_data(image: Image | None, *, cached: bool) -> None:
    """Raise Invalid, in Nova's words, for an image without data; OutdatedRequest if a cached record says so."""
    if image is not None and image.sha512 is None:
        raise OutdatedRequest if cached else Invalid(f"Image {image.id} is not active.")


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
    if image is None or not image.properties:
        return (), ()
    traits = {key.partition(":")[2]: value for key, value in image.properties.items() if key.startswith("trait:")}
    required = tuple(trait for trait, value in traits.items() if value == "required")
    return required, tuple(trait for trait, value in traits.items() if value == "forbidden")
