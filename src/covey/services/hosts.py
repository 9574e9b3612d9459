"""Hosts in the Compute API: hypervisors, compute services and availability zones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.errors import Conflict, Invalid, NotFound, ReadOnly
from covey.model.hosts import COMPUTE_BINARY, Host, HostSummary
from covey.model.ids import HostId
from covey.model.zones import Zone
from covey.ports import Access, Clock
from covey.storage.store import Store, Transaction

SEES_HOSTS = "os_compute_api:os-services:list"
RUNS_INSTANCES = "only Nova's instances run there"
_IN_NOVA, _SHOWN_BY_NOVA = "`openstack compute service` changes it", "`openstack hypervisor` shows it"
_HYPERVISORS, _SERVICES, _ZONES = (f"os_compute_api:os-{x}:" for x in ("hypervisors", "services", "availability-zone"))


IN_USE = "Unable to delete compute service that is hosting instances. Migrate or delete the instances first."


@dataclass(frozen=True, slots=True)
class HostPage:
    """A page of hosts, and whether more follow."""

    hosts: list[HostSummary]
    more: bool


@dataclass(frozen=True, slots=True)
class HostQuery:
    """The filter and page of a host listing."""

    name_has: str | None = None
    marker: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class HostChange:
    """The requested changes of a host; None keeps a value."""

    disabled: bool | None = None
    reason: str | None = None
    forced_down: bool | None = None

    def apply(self, host: Host) -> Host:
        """Return the changed host; enabling a host clears its disabled reason."""
        if self.disabled is not None:
            host = replace(host, disabled=self.disabled, disabled_reason=self.reason if self.disabled else None)
        if self.forced_down is not None:
            host = replace(host, forced_down=self.forced_down)
        return host


@dataclass(frozen=True, slots=True)
class Hosts:
    """Operations on hosts."""

    store: Store
    access: Access
    clock: Clock
    default_zone: str

    def hypervisors(self, actor: Actor, query: HostQuery, rule: str = "list", *, usage: bool = False) -> HostPage:
        """Return a page of hosts by id, on request with their usage.

        Raises Invalid for an unknown marker, NotFound for a part of names that no host has.
        """
        self.access.require(actor, _HYPERVISORS + rule)
        with self.store.read() as tx:
            after = None
            if query.marker is not None:
                found = _find_host(tx, query.marker)
                if found is None:
                    raise Invalid(f"marker [{query.marker}] not found")
                after = found.id
            limit = None if query.limit is None else query.limit + 1
            hosts = tx.host_summaries.find(after=after, limit=limit, name_has=query.name_has, usage=usage)
            if query.name_has is not None and not hosts:
                raise NotFound(
                    self._about_missing(tx, actor, query.name_has, "No hypervisor matching '{}' could be found.")
                )
        return HostPage(hosts[: query.limit], more=query.limit is not None and 0 < query.limit < len(hosts))

    def hypervisor(self, actor: Actor, key: str, rule: str = "show") -> HostSummary:
        """Return one host with its usage, by its uuid or numeric id. Raises NotFound."""
        self.access.require(actor, _HYPERVISORS + rule)
        with self.store.read() as tx:
            host = self._shown_host(tx, actor, key)
            (found,) = tx.host_summaries.find(only=host.id, usage=True)
            return found

    def servers_on(self, hosts: Sequence[HostSummary]) -> dict[HostId, list[tuple[str, str]]]:
        """Return (name, id) of the servers on each host. The caller has already authorized access to the hosts."""
        with self.store.read() as tx:
            return tx.servers.names_on([host.id for host in hosts])

    def services(self, actor: Actor) -> list[HostSummary]:
        self.access.require(actor, f"{_SERVICES}list")
        with self.store.read() as tx:
            return tx.host_summaries.find()

    def change(self, actor: Actor, key: str, change: HostChange) -> Host:
        """Enable, disable or force down the host with this uuid. Raises NotFound, ReadOnly for a node of Nova."""

        def find_host(tx: Transaction) -> Host:
            return self._own_host(tx, actor, key, f"Service {key} could not be found.")

        return self._change(actor, change, find_host)

    def change_by_name(self, actor: Actor, name: str, binary: str, change: HostChange) -> Host:
        """Like `change`, by host name and binary. Raises NotFound, ReadOnly, and Invalid for other binaries."""

        def find_host(tx: Transaction) -> Host:
            found = tx.hosts.by_name(name)
            if found is None:
                reject_node(tx, self.access, actor, name, _IN_NOVA)
                raise NotFound(f"Could not find binary {binary} on host {name}.")
            return found

        if binary != COMPUTE_BINARY:
            raise Invalid(
                f"Updating a {binary} service is not supported. Only {COMPUTE_BINARY} services can be updated."
            )
        return self._change(actor, change, find_host)

    def delete(self, actor: Actor, key: str) -> None:
        """Remove a host from the fleet. Raises NotFound, Conflict while it has servers, ReadOnly for a node of Nova."""
        self.access.require(actor, f"{_SERVICES}delete")
        with self.store.write() as tx:
            host = self._own_host(tx, actor, key, f"Service {key} not found.")
            if tx.servers.names_on([host.id])[host.id]:
                raise Conflict(IN_USE)
            tx.hosts.delete([host.id])

    def zones(self, actor: Actor) -> list[Zone]:
        """Return every availability zone that has hosts."""
        self.access.require(actor, f"{_ZONES}list")
        with self.store.read() as tx:
            available: dict[str, bool] = {}
            for name, all_disabled in tx.hosts.zones():
                zone = name or self.default_zone
                available[zone] = available.get(zone, False) or not all_disabled
        return [Zone(name, available[name]) for name in sorted(available)]

    def zones_with_hosts(self, actor: Actor) -> list[Zone]:
        """Return every availability zone with its hosts."""
        self.access.require(actor, f"{_ZONES}detail")
        with self.store.read() as tx:
            members: dict[str, list[HostSummary]] = {}
            for host in tx.host_summaries.find():
                members.setdefault(host.zone or self.default_zone, []).append(host)
        return [
            Zone(name, any(not host.disabled for host in members[name]), tuple(members[name]))
            for name in sorted(members)
        ]

    def _change(self, actor: Actor, change: HostChange, find: Callable[[Transaction], Host]) -> Host:
        self.access.require(actor, f"{_SERVICES}update")
        with self.store.write() as tx:
            tx.aggregates.lock_hosts([find(tx).id])  # so that no concurrent change is lost
            changed = change.apply(find(tx))
            tx.hosts.set_state(changed, self.clock())
            found = tx.hosts.by_id(changed.id)
            assert found is not None
            return found

    def _shown_host(self, tx: Transaction, actor: Actor, key: str) -> Host:
        found = _find_host(tx, key)
        if found is None:
            raise NotFound(self._about_missing(tx, actor, key, "Hypervisor with ID '{}' could not be found."))
        return found

    def _about_missing(self, tx: Transaction, actor: Actor, key: str, sentence: str) -> str:
        return with_node(tx, self.access, actor, key, sentence.format(key), _SHOWN_BY_NOVA)

    def _own_host(self, tx: Transaction, actor: Actor, key: str, message: str) -> Host:
        """Return a host for a change. Raises NotFound, and ReadOnly for a compute node of Nova."""
        found = _find_host(tx, key)
        if found is None:
            reject_node(tx, self.access, actor, key, _IN_NOVA)
            raise NotFound(message)
        return found


def reject_node(tx: Transaction, access: Access, actor: Actor, key: str, where: str) -> None:
    """Raise ReadOnly for the uuid or the name of a compute node of Nova, if the actor may see hosts."""
    sentence = _about_node(tx, access, actor, key, where)
    if sentence is not None:
        raise ReadOnly(sentence)


def with_node(
    tx: Transaction, access: Access, actor: Actor, key: str, message: str, where: str = RUNS_INSTANCES
) -> str:
    """Return why a host is not found; of a compute node of Nova, also whose it is, if the actor may see hosts."""
    sentence = _about_node(tx, access, actor, key, where)
    return message if sentence is None else f"{message} {sentence}"


def _about_node(tx: Transaction, access: Access, actor: Actor, key: str, where: str) -> str | None:
    return tx.nova_mirror.about_host(key, where) if access.allows(actor, SEES_HOSTS) else None


def _find_host(tx: Transaction, key: str) -> Host | None:
    return tx.hosts.by_uuid(key) or tx.hosts.by_id(_numeric_id(key))


def _numeric_id(key: str) -> int:
    """Return the numeric id of old microversions, or 0, which no host has, for any other text."""
    return int(key) if key.isascii() and key.isdecimal() and len(key) < len(str(2**31)) else 0
