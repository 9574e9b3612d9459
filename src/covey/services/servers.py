"""Servers: asking for them, looking at them, changing what is said of them, deleting them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from covey.model.access import Actor, Target
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.flavors import Flavor
from covey.model.ids import GroupId, HostId, ProjectId
from covey.model.images import Image
from covey.model.servers import Details, PlacementRequest, Server, ServerFilter, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock
from covey.scheduler.request_spec import HostRequirements
from covey.services.announcements import Announcements
from covey.services.flavors import Flavors
from covey.services.images import Images
from covey.services.server_creation import Boot, ServerCreation, Then
from covey.services.ttl_cache import TtlCache
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:servers:"
_NOWHERE = HostId(0)  # a forced host that does not exist has no room, which the fault will say


@dataclass(frozen=True, slots=True)
class NewServer:
    """A request for servers, in the model's words."""

    name: str
    flavor: str
    image: str | None
    details: Details
    request_id: str
    group: str | None = None
    same_host: tuple[str, ...] = ()
    different_host: tuple[str, ...] = ()
    hints: Mapping[str, object] = field(default_factory=dict)
    zone: str | None = None
    forced_host: str | None = None
    host: str | None = None
    count: int = 1
    minimum: int = 1
    tags: frozenset[str] = frozenset()
    key: str | None = None
    fingerprint: str = ""
    each: tuple[tuple[str, Mapping[str, str]], ...] = ()  # names and metadata of several that differ in them


@dataclass(frozen=True, slots=True)
class Servers:
    """What can be done with servers, moves and power aside."""

    store: Store
    access: Access
    clock: Clock
    server_creation: ServerCreation
    flavors: Flavors
    images: Images
    announcements: Announcements
    recent_flavors: TtlCache[tuple[str, str], Flavor]
    recent_images: TtlCache[tuple[str, str], Image]

    def create(self, actor: Actor, new: NewServer) -> list[Server]:
        """The new servers. Raises Invalid for what makes no sense, OverQuota, Busy."""
        return self.server_creation.boot(self._boot(actor, new))

    def create_together(self, actor: Actor, new: Sequence[NewServer], then: Then) -> None:
        """Several requests and what follows, or nothing of it. Raises NoValidHost, and all that create does."""
        self.server_creation.boot_together([self._boot(actor, each) for each in new], then)

    def _boot(self, actor: Actor, new: NewServer) -> Boot:
        own = Target(project_id=actor.project_id, user_id=actor.user_id)
        self.access.require(actor, f"{_RULE}create", own)
        if new.forced_host is not None:
            self.access.require(actor, f"{_RULE}create:forced_host", own)
        if new.host is not None:
            self.access.require(actor, "compute:servers:create:requested_destination", own)
        flavor, image = self.flavor_for(actor, new.flavor), self.image_for(actor, new.image)
        refuse_small(flavor, image)
        wanted = self._wanted(new, image)
        requirements = self.requirements_for(actor.project_id, flavor, wanted)
        return Boot(
            project_id=actor.project_id,
            user_id=actor.user_id,
            name=new.name,
            flavor=flavor,
            wanted=wanted,
            details=replace(new.details, image_properties=image.properties)
            if image and image.properties
            else new.details,
            requirements=requirements,
            request_id=new.request_id,
            now=self.clock(),
            group_id=None if new.group is None else GroupId(new.group),
            count=new.count,
            minimum=new.minimum,
            tags=new.tags,
            key=new.key,
            fingerprint=new.fingerprint,
            each=new.each,
            hopeless=f"No such host - host: {new.forced_host} node: None " if _NOWHERE in wanted.hosts else None,
        )

    def find(self, actor: Actor, wanted: ServerFilter, *, everywhere: bool, rule: str = "index") -> list[Server]:
        """A page of the project's servers; an administrator may ask for everybody's. Raises Invalid, Forbidden."""
        self.access.require(actor, _RULE + rule, Target(project_id=actor.project_id))
        if everywhere:
            self.access.require(actor, f"{_RULE}{rule}:get_all_tenants", Target(project_id=actor.project_id))
        else:
            wanted = replace(wanted, project_id=actor.project_id)
        if wanted.host is not None and not self.access.allows(actor, f"{_RULE}allow_all_filters"):
            wanted = replace(wanted, host=None)  # a tenant's filter by host is ignored, as Nova does
        with self.store.read() as tx:
            marker = None if wanted.after is None else tx.servers.by_id(wanted.after)
            if wanted.after and (marker is None or wanted.project_id not in {None, marker.project_id}):
                raise Invalid(f"marker [{wanted.after}] not found")
            return tx.servers.find(wanted)

    def get(self, actor: Actor, server: str, rule: str = f"{_RULE}show") -> Server:
        """Raises NotFound, also for another project's server."""
        with self.store.read() as tx:
            return self.own(tx, actor, server, rule)

    def change(
        self, actor: Actor, server: str, rule: str, change: Callable[[Server], Server], *, heeds_lock: bool = False
    ) -> Server:
        """Stores what `change` makes of it, tags included. Raises Conflict for a locked one, where that matters."""
        with self.store.write() as tx:
            found = self.own(tx, actor, server, rule, lock=True)
            if heeds_lock:
                refuse_locked(found, actor, self.access)
            changed = replace(change(found), updated_at=self.clock())
            tx.servers.update(changed)
            if changed.tags != found.tags:
                tx.servers.set_tags(found.id, changed.tags)
        return changed

    def delete(self, actor: Actor, server: str, request_id: str) -> None:
        """It is gone as soon as its host has let go of it. Raises NotFound, Conflict for a locked one."""
        now = self.clock()
        with self.store.write() as tx:
            found = self.own(tx, actor, server, f"{_RULE}delete", lock=True)
            refuse_locked(found, actor, self.access)
            if found.task is Task.DELETING:
                return
            tx.servers.update(replace(found, task=Task.DELETING, updated_at=now))
            tx.actions.add(found, "delete", request_id, actor, now)
            tx.work.drop(found.id)
            tx.work.add(JobKind.DESTROY, found.id, now)

    def requirements_for(self, project: ProjectId, flavor: Flavor, wanted: PlacementRequest) -> HostRequirements:
        """What a server asks of any host, whatever its use and its group."""
        only: frozenset[HostId] | None = frozenset(wanted.hosts) if wanted.hosts else None
        if wanted.same_host:
            near = self._hosts_of(wanted.same_host)
            only = near if only is None else only & near
        specs = flavor.extra_specs
        return HostRequirements(
            project_id=project,
            zone=wanted.zone,
            required_traits=required_traits(flavor, wanted),
            forbidden_traits=frozenset(traits(specs, "forbidden")) | frozenset(wanted.image_forbidden_traits),
            only_hosts=only,
            other_hosts=self._hosts_of(wanted.different_host),
        )

    def own(self, tx: Transaction, actor: Actor, server: str, rule: str, *, lock: bool = False) -> Server:
        """One of the actor's own servers. Raises NotFound for others', Forbidden for what the rule refuses."""
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
        """Raises Invalid for a flavor that is not there, or not for the actor."""
        try:
            return self.recent_flavors.get((actor.project_id, flavor), lambda: self.flavors.get(actor, flavor))
        except NotFound as error:
            raise Invalid(error.message) from error

    def image_for(self, actor: Actor, image: str | None) -> Image | None:
        """Raises Invalid for an image that is not there, or not for the actor."""
        if image is None:
            return None
        try:
            return self.recent_images.get((actor.project_id, image), lambda: self.images.get(actor, image))
        except NotFound as error:
            raise Invalid("Can not find requested image") from error

    def _wanted(self, new: NewServer, image: Image | None) -> PlacementRequest:
        required, forbidden = image_traits(image)
        return PlacementRequest(
            image_id=new.image,
            zone=new.zone,
            hosts=self._destination(new),
            forced=new.forced_host is not None,
            image_required_traits=required,
            image_forbidden_traits=forbidden,
            same_host=new.same_host,
            different_host=new.different_host,
            hints=new.hints,
        )

    def _destination(self, new: NewServer) -> tuple[HostId, ...]:
        name = new.forced_host or new.host
        if name is None:
            return ()
        with self.store.read() as tx:
            found = tx.hosts.by_name(name)
        if found is not None:
            return (found.id,)
        if new.host is not None:
            raise Invalid(f"Compute host {name} could not be found.")
        return (_NOWHERE,)


def refuse_locked(server: Server, actor: Actor, access: Access) -> None:
    """Raises Conflict when somebody locked the server against changes; administrators pass."""
    if server.details.locked and not access.allows(actor, "context_is_admin"):
        raise Conflict(f"Instance {server.id} is locked")


def refuse_small(flavor: Flavor, image: Image | None) -> None:
    """Raises Invalid, in Nova's words, for a size that the image says is too small for it; no disk is any disk."""
    if image is not None and flavor.memory_mb < image.min_ram_mb:
        raise Invalid("Flavor's memory is too small for requested image.")
    if image is not None and 0 < flavor.disk_gb < image.min_disk_gb:
        raise Invalid("Flavor's disk is too small for requested image.")


def refuse_state(server: Server, action: str, *allowed: VmState) -> None:
    """Raises Conflict, in Nova's words, unless the server is at rest in one of the states."""
    if server.vm_state not in allowed:
        raise Conflict(f"Cannot '{action}' instance {server.id} while it is in vm_state {server.vm_state}")
    if server.task is not None:
        raise Conflict(f"Cannot '{action}' instance {server.id} while it is in task_state {server.task}")


def traits(specs: Mapping[str, str], word: str) -> list[str]:
    """The traits that extra specs or properties require, or forbid."""
    return [key.partition(":")[2] for key, value in specs.items() if key.startswith("trait") and value == word]


def required_traits(flavor: Flavor, wanted: PlacementRequest) -> frozenset[str]:
    """The traits that flavor and image together require of a host."""
    return frozenset(traits(flavor.extra_specs, "required")) | frozenset(wanted.image_required_traits)


def image_traits(image: Image | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The traits that an image requires of a host, and those it forbids."""
    properties: Mapping[str, str] = {} if image is None else image.properties
    return tuple(traits(properties, "required")), tuple(traits(properties, "forbidden"))
