"""Host aggregates: their hosts, metadata, availability zones and scopes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.aggregates import SCOPE_KEY, ZONE_KEY, Aggregate
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.ids import AggregateId, HostId
from covey.model.nova import NovaKind
from covey.ports import Access, Clock, NewUuid
from covey.services.domains import add_to_scope, get_scope_by_name, reject_second_domain, reject_targeted
from covey.services.hosts import reject_node
from covey.storage.store import Store, Transaction

_RULE, _SCOPE_RULE = "os_compute_api:os-aggregates:", "os_compute_api:os-policy-scopes:"
_IN_NOVA = "`openstack aggregate` adds and removes it"
_MAX_ID = 2**31 - 1  # of an integer column


@dataclass(frozen=True, slots=True)
class AggregateChange:
    """The requested changes; with `rezone`, a zone of None removes the zone."""

    name: str | None = None
    rezone: bool = False
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Operations on aggregates."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid

    def all(self, actor: Actor) -> list[Aggregate]:
        self.access.require(actor, f"{_RULE}index")
        with self.store.read() as tx:
            return tx.aggregates.all()

    def get(self, actor: Actor, aggregate: int) -> Aggregate:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}show")
        with self.store.read() as tx:
            return get_aggregate(tx, aggregate)

    def create(self, actor: Actor, name: str, zone: str | None) -> Aggregate:
        """Raises Conflict when the name is taken."""
        self.access.require(actor, f"{_RULE}create")
        with self.store.write() as tx:
            (new,) = tx.aggregates.add([(self.new_uuid(), name, zone, None)], self.clock())
            return get_aggregate(tx, new)

    def update(self, actor: Actor, aggregate: int, change: AggregateChange) -> Aggregate:
        """Change the name or the zone. Raises NotFound, Conflict, Invalid."""
        self.access.require(actor, f"{_RULE}update")
        with self.store.write() as tx:
            found = get_aggregate(tx, aggregate, lock=True)
            if change.name is not None and change.name != found.name:
                tx.aggregates.rename(found.id, change.name, self.clock())
            if change.rezone:
                self._set_zone(tx, found, change.zone, "update")
            return get_aggregate(tx, found.id)

    def delete(self, actor: Actor, aggregate: int, *, force: bool = False) -> None:
        """Raises NotFound, Invalid while it has hosts, and Conflict while hard policies name it, unless `force`."""
        self.access.require(actor, f"{_RULE}delete")
        with self.store.write() as tx:
            found = get_aggregate(tx, aggregate, lock=True)
            if found.hosts:
                raise Invalid(f"Cannot remove host from aggregate {found.id}. Reason: Host aggregate is not empty.")
            reject_targeted(tx, found, force=force)
            tx.aggregates.delete([found.id])

    def set_metadata(self, actor: Actor, aggregate: int, changes: Mapping[str, str | None]) -> Aggregate:
        """Merge the changes; None removes a key. availability_zone sets the zone, policy_scope the scope.

        Raises Conflict for another scope while hard policies name the aggregate.
        """
        self.access.require(actor, f"{_RULE}set_metadata")
        with self.store.write() as tx:
            found = get_aggregate(tx, aggregate, lock=True)
            if ZONE_KEY in changes:
                self._set_zone(tx, found, changes[ZONE_KEY], "update metadata of")
            if SCOPE_KEY in changes:
                self._set_scope(tx, actor, found, changes[SCOPE_KEY])
            plain = {key: value for key, value in changes.items() if key not in {ZONE_KEY, SCOPE_KEY}}
            tx.aggregates.set_metadata(found.id, plain, self.clock())
            return get_aggregate(tx, found.id)

    def add_host(self, actor: Actor, aggregate: int, name: str) -> Aggregate:
        """Raises NotFound, and Conflict when the host is already in it or would be in two zones or domains.

        Raises ReadOnly for a compute node of Nova.
        """
        self.access.require(actor, f"{_RULE}add_host")
        with self.store.write() as tx:
            found = get_aggregate(tx, aggregate, lock=True)
            host = tx.hosts.by_name(name)
            if host is None:
                reject_node(tx, self.access, actor, name, _IN_NOVA)
                raise NotFound(f"Compute host {name} could not be found.")
            if name in found.hosts:
                raise Conflict(f"Aggregate {found.id} already has host {name}.")
            if found.zone is not None and (reason := _zone_conflict(tx, found.id, found.zone, [host.id])):
                raise Conflict(f"Cannot add host to aggregate {found.id}. Reason: {reason}.")
            if found.scope is not None:
                reject_second_domain(tx, found, found.scope, str(found.scope_name), [host.id])
            tx.aggregates.add_hosts([(found.id, host.id)], self.clock())
            return get_aggregate(tx, found.id)

    def remove_host(self, actor: Actor, aggregate: int, name: str) -> Aggregate:
        """Raises NotFound for an unknown aggregate, or a host that is not in it; ReadOnly for a node of Nova."""
        self.access.require(actor, f"{_RULE}remove_host")
        with self.store.write() as tx:
            found = get_aggregate(tx, aggregate, lock=True)
            host = tx.hosts.by_name(name) if name in found.hosts else None
            if host is None:
                reject_node(tx, self.access, actor, name, _IN_NOVA)
                raise NotFound(f"Cannot remove host {name} in aggregate {found.id}")
            tx.aggregates.remove_hosts([(found.id, host.id)], self.clock())
            return get_aggregate(tx, found.id)

    def cache_images(self, actor: Actor, aggregate: int, images: tuple[str, ...]) -> None:
        """Check that the images exist, and do nothing else: an agent downloads an image when a server needs it."""
        self.access.require(actor, "compute:aggregates:images")
        with self.store.read() as tx:
            get_aggregate(tx, aggregate)
            for image in images:
                if tx.images.by_id(image) is None:
                    raise Invalid(f"Image {image} is not found or is not available.")

    def _set_zone(self, tx: Transaction, aggregate: Aggregate, zone: str | None, verb: str) -> None:
        if zone == aggregate.zone:
            return
        reason = None
        if zone == "":
            reason = f"Aggregate {aggregate.name} does not support empty named availability zone"
        elif zone is not None:
            reason = _zone_conflict(tx, aggregate.id, zone, tx.aggregates.host_ids(aggregate.id))
        if reason:
            raise Invalid(f"Cannot {verb} aggregate {aggregate.id}. Reason: {reason}.")
        tx.aggregates.set_zone(aggregate.id, zone, self.clock())

    def _set_scope(self, tx: Transaction, actor: Actor, aggregate: Aggregate, name: str | None) -> None:
        """Change the scope under the same access rules as the os-policy-scopes API."""
        if name == aggregate.scope_name:
            return
        self.access.require(actor, f"{_SCOPE_RULE}{'remove' if name is None else 'add'}_aggregate")
        reject_targeted(tx, aggregate)
        if name is None:
            tx.aggregates.set_scope([aggregate.id], None, self.clock())
        else:
            add_to_scope(tx, aggregate, get_scope_by_name(tx, name), self.clock())


def get_aggregate(tx: Transaction, aggregate: int | str, *, lock: bool = False) -> Aggregate:
    """Return the aggregate with this id or uuid; with `lock`, for a change. Raises NotFound, ReadOnly."""
    if isinstance(aggregate, str):
        found = tx.aggregates.by_uuid(aggregate, lock=lock)
    else:
        found = tx.aggregates.by_id(aggregate, lock=lock) if 0 < aggregate <= _MAX_ID else None
    if found is None:
        raise NotFound(f"Aggregate {aggregate} could not be found.")
    if lock:
        tx.nova_mirror.reject(NovaKind.AGGREGATE, found.uuid, found.name)
    return found


def _zone_conflict(tx: Transaction, aggregate: AggregateId, zone: str, hosts: Sequence[HostId]) -> str | None:
    """Return why the hosts can't be in the zone, or None: a host has at most one zone.

    The rows of the hosts are locked, so that no concurrent request puts them into another zone.
    """
    tx.aggregates.lock_hosts(hosts)
    others = sorted({z for _, z, a in tx.aggregates.zones_of(hosts) if a != aggregate and z != zone})
    return f"One or more hosts already in availability zone(s) {others}" if others else None
