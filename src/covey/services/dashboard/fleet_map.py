"""The fleet map: the servers, domain, zone and usage of every host, of Covey's hosts and Nova's compute nodes alike."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from covey.model.access import Actor, Target
from covey.model.aggregates import Aggregate
from covey.model.allocations import ConsumerAllocations
from covey.model.compute_nodes import ComputeNode
from covey.model.errors import Invalid, NotFound
from covey.model.event_feed import Subject
from covey.model.groups import HOST, ScopeRef
from covey.model.hosts import Host
from covey.model.ids import GroupId, HostId
from covey.model.providers import InventoryRecord
from covey.ports import Access
from covey.scheduler.fleet import NO_DOMAIN, RESOURCES, Fleet, Rows
from covey.services.dashboard.visibility import OPERATE, scopes_for, sees_all
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.storage.store import Store, Transaction

UP, DISABLED, DOWN = 0, 1, 2

Placements = Sequence[tuple[HostId, str, GroupId | None]]
Nodes = Mapping[HostId, ComputeNode]


@dataclass(frozen=True, slots=True)
class UsageColumns:
    """The usage and capacity of one resource class, by host."""

    used: list[int]
    capacity: list[int]


@dataclass(frozen=True, slots=True)
class HostColumns:
    """Columns with one entry for each host; amounts include its child providers.

    State, usage and capacity are empty for tenants.
    """

    id: list[str]
    name: list[str]
    domain: list[int]
    zone: list[str]
    state: list[int]
    vcpus_used: list[int]
    vcpus: list[int]
    memory_used: list[int]
    memory: list[int]
    disk_used: list[int]
    disk: list[int]
    others: dict[str, UsageColumns]  # by resource class: every other one that hosts have
    services: dict[str, int]  # the rows of Nova's compute services that have other names than their nodes


@dataclass(frozen=True, slots=True)
class ServerColumns:
    """Columns with one entry for each server: the row of its host, the index of its group (-1: none), its id."""

    host: list[int]
    group: list[int]
    id: list[str]


@dataclass(frozen=True, slots=True)
class FleetMap:
    """The fleet as the caller may see it. `seq` is the position in the fleet's change log."""

    scope: str
    scopes: list[str]
    domains: list[str]
    domain_ids: list[str]
    hosts: HostColumns
    servers: ServerColumns
    groups: list[dict[str, str]]
    seq: int


@dataclass(frozen=True, slots=True)
class Permissions:
    """Whether the caller is an operator, and which scopes the caller's policies may use."""

    operates: bool
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostDetails:
    """One host with its allocations, aggregates, the names of its servers by id, and the inventories of its tree."""

    host: Host | ComputeNode
    traits: frozenset[str]
    allocations: Sequence[ConsumerAllocations]
    servers: Mapping[str, str]
    aggregates: Sequence[Aggregate]
    inventories: Mapping[str, Sequence[InventoryRecord]]  # by class: of the host, and of the providers below it


@dataclass(frozen=True, slots=True)
class FleetMaps:
    """Builds fleet maps."""

    store: Store
    access: Access
    live: LiveFleet

    def permissions(self, actor: Actor) -> Permissions:
        """Return what the actor may see and use."""
        with self.store.read() as tx:
            usable = scopes_for(tx, self.access, actor, "use")
        return Permissions(sees_all(self.access, actor), tuple(scope.name for scope in usable))

    def version_key(self, actor: Actor, scope: str | None) -> object | None:
        """Return the cache key of an operator's map, or None for tenants, whose maps are not cached."""
        if not sees_all(self.access, actor):
            return None
        with self.store.read() as tx:
            scopes = tuple(scopes_for(tx, self.access, actor))
            markers = (m for m in tx.dashboard.markers() if m.subject in {Subject.FLEET, Subject.GROUPS})
            return _select_scope(scopes, scope), scopes, frozenset(markers)

    def get(self, actor: Actor, scope: str | None) -> FleetMap:
        """Return the whole fleet for operators, the project's servers for tenants.

        Raises Forbidden, and Invalid for an unknown scope.
        """
        whole = sees_all(self.access, actor)
        if not whole:
            self.access.require(actor, "os_compute_api:servers:index", Target(project_id=actor.project_id))
        project = None if whole else actor.own_project
        with self.store.read() as tx:
            scopes = scopes_for(tx, self.access, actor)
            selected = _select_scope(scopes, scope)
            markers = (m for m in tx.dashboard.markers() if m.subject is Subject.FLEET and not m.lasting)
            seq = max((int(marker.mark) for marker in markers), default=0)
            nodes = {node.id: node for node in tx.compute_nodes.all()}
            placed: Placements = [*tx.dashboard.placed(project), *tx.compute_nodes.instances(project)]
            names = dict(tx.dashboard.group_names(project))
            domain_names = _domain_names(tx, selected) if whole else {}
            obfuscation = obfuscation_for(tx, self.access, actor, actor.project_id)
            fleet = self.live.read(tx).fleet
        if whole:
            hosts = _all_hosts(fleet, selected, nodes)
            known = hosts.name if selected == HOST else list(fleet.domains(selected.id).names)
            domains = [domain_names.get(name, name) for name in known]
            rows = {HostId(int(host)): row for row, host in enumerate(hosts.id)}
        else:
            placed = sorted(placed, key=lambda each: each[1])
            rows = {host: row for row, host in enumerate(_hosts_in_server_order(placed, fleet))}
            hosts, known = _tenant_hosts(fleet, selected, list(rows), nodes, obfuscation)
            domains = known
        servers, groups = _servers(placed, rows, names)
        seq = seq if whole else 0
        return FleetMap(selected.name, [s.name for s in scopes], domains, known, hosts, servers, groups, seq)

    def host(self, actor: Actor, name: str) -> HostDetails:
        """Return one host. Raises Forbidden, NotFound."""
        self.access.require(actor, OPERATE)
        with self.store.read() as tx:
            found = tx.hosts.by_name(name) or tx.compute_nodes.by_name(name)
            if found is None:
                raise NotFound(f"Host {name!r} could not be found.")
            tree = [provider.id for provider in tx.providers.trees([found.id])]
            inventories: dict[str, list[InventoryRecord]] = defaultdict(list)
            for by_class in tx.inventories.of(tree).values():
                for kind, inventory in by_class.items():
                    inventories[kind].append(inventory)
            uuids = tx.providers.aggregates(found.id) if isinstance(found, ComputeNode) else ()
            aggregates = [each for each in tx.aggregates.all() if name in each.hosts or each.uuid in uuids]
            held = tx.allocations.of_providers(tree)
            servers = {server: server_name for server_name, server in tx.servers.names_on([found.id])[found.id]}
            servers |= tx.nova_mirror.names([holding.consumer.uuid for holding in held])
            return HostDetails(found, tx.traits.of(found.id), held, servers, aggregates, inventories)


def _select_scope(scopes: Sequence[ScopeRef], name: str | None) -> ScopeRef:
    """Return the scope with this name; by default the first one other than `host`. Raises Invalid."""
    if name is None:
        return next((scope for scope in scopes if scope != HOST), HOST)
    found = next((scope for scope in scopes if scope.name == name), None)
    if found is None:
        raise Invalid(f"Scope {name!r} does not exist; use one of {', '.join(scope.name for scope in scopes)}.")
    return found


def _domain_names(tx: Transaction, scope: ScopeRef) -> dict[str, str]:
    """Return the names of domains by identifier; in the host scope identifiers are names."""
    return {} if scope.id is None else {str(each): name for each, name in tx.dashboard.aggregate_names()}


def _all_hosts(fleet: Fleet, scope: ScopeRef, nodes: Nodes) -> HostColumns:
    rows = np.union1d(fleet.host_rows, fleet.rows(nodes))
    usage = {name: _usage(fleet, line, rows) for name, line in fleet.inventories.classes.items()}
    cpu, memory, disk = (usage[name] for name in RESOURCES)
    return HostColumns(
        id=fleet.ids[rows].astype(str).tolist(),
        name=[fleet.names[row] for row in rows.tolist()],
        domain=(np.arange(rows.size) if scope == HOST else fleet.domains(scope.id).of_host[rows]).tolist(),
        zone=_zones(fleet, rows, nodes),
        state=_states(fleet, rows, nodes),
        vcpus_used=cpu.used,
        vcpus=cpu.capacity,
        memory_used=memory.used,
        memory=memory.capacity,
        disk_used=disk.used,
        disk=disk.capacity,
        others={name: usage[name] for name in sorted(usage.keys() - set(RESOURCES)) if any(usage[name].capacity)},
        services=_services(fleet.ids[rows].tolist(), nodes),
    )


def _services(hosts: Sequence[HostId], nodes: Nodes) -> dict[str, int]:
    known = ((row, nodes[host]) for row, host in enumerate(hosts) if host in nodes)
    return {node.service_host: row for row, node in known if node.service_host not in {None, node.name}}


def _zones(fleet: Fleet, rows: Rows, nodes: Nodes) -> list[str]:
    in_nova = {row: node.zone for host, node in nodes.items() if (row := fleet.row_of.get(host)) is not None}
    return [in_nova.get(row) or fleet.zone_of(row) for row in rows.tolist()]


def _states(fleet: Fleet, rows: Rows, nodes: Nodes) -> list[int]:
    states = np.where(fleet.up, np.where(fleet.enabled, UP, DISABLED), DOWN)
    known = [node for host, node in nodes.items() if host in fleet.row_of]
    in_nova = [DOWN if not node.up else DISABLED if node.disabled else UP for node in known]
    states[fleet.rows(node.id for node in known)] = in_nova
    found: list[int] = states[rows].tolist()
    return found


def _usage(fleet: Fleet, line: int, rows: Rows) -> UsageColumns:
    """Return the usage of one class by host, each with the providers of its tree."""
    exists = fleet.inventories.exists[line]
    capacity, free = (np.zeros(len(fleet), dtype=np.int64) for _ in range(2))
    np.add.at(capacity, fleet.root[exists], fleet.capacity[line][exists])
    np.add.at(free, fleet.root[exists], fleet.free[line][exists])
    return UsageColumns((capacity - free)[rows].tolist(), capacity[rows].tolist())


def _hosts_in_server_order(placed: Placements, fleet: Fleet) -> list[HostId]:
    """Return the hosts in the order of their servers, which reveals nothing about the fleet."""
    return [host for host in dict.fromkeys(host for host, _, _ in placed) if host in fleet.row_of]


def _tenant_hosts(
    fleet: Fleet, scope: ScopeRef, hosts: Sequence[HostId], nodes: Nodes, obfuscation: Obfuscation
) -> tuple[HostColumns, list[str]]:
    """Return hosts with obfuscated names, and their obfuscated domains."""
    rows = fleet.rows(hosts)
    names = [obfuscation.display_identifier(HOST, fleet.names[row]) for row in rows.tolist()]
    domains = fleet.domains(scope.id)
    numbers = domains.of_host[rows].tolist()
    order = {number: i for i, number in enumerate(n for n in dict.fromkeys(numbers) if n != NO_DOMAIN)}
    columns = HostColumns(
        id=names,
        name=names,
        domain=[order.get(number, NO_DOMAIN) for number in numbers],
        zone=_zones(fleet, rows, nodes),
        state=[],
        vcpus_used=[],
        vcpus=[],
        memory_used=[],
        memory=[],
        disk_used=[],
        disk=[],
        others={},
        services={},
    )
    return columns, [obfuscation.display_identifier(scope, domains.names[number]) for number in order]


def _servers(
    placed: Placements, rows: Mapping[HostId, int], names: Mapping[GroupId, str]
) -> tuple[ServerColumns, list[dict[str, str]]]:
    known = [each for each in placed if each[0] in rows]
    groups = {group: i for i, group in enumerate(dict.fromkeys(group for _, _, group in known if group in names))}
    columns = ServerColumns(
        host=[rows[host] for host, _, _ in known],
        group=[-1 if group is None else groups.get(group, -1) for _, _, group in known],
        id=[server for _, server, _ in known],
    )
    return columns, [{"id": group, "name": names[group]} for group in groups if group is not None]
