"""The fleet as a map: where every server is, in which rack or zone, and how full each host is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.aggregates import Aggregate
from covey.model.allocations import Holding
from covey.model.errors import Invalid, NotFound
from covey.model.event_feed import Subject
from covey.model.groups import HOST, ScopeRef
from covey.model.hosts import Host
from covey.model.ids import GroupId, HostId, ServerId
from covey.ports import Access
from covey.scheduler.fleet import NO_DOMAIN, Fleet
from covey.services.dashboard.visibility import OPERATE, scopes_for, sees_all
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, disguise_for
from covey.storage.store import Store, Transaction

UP, DISABLED, DOWN = 0, 1, 2

PlacementRecord = Sequence[tuple[HostId, ServerId, GroupId | None]]


@dataclass(frozen=True, slots=True)
class HostColumns:
    """Hosts, an entry each; tenants get neither state, use nor capacity, and so empty columns."""

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


@dataclass(frozen=True, slots=True)
class ServerColumns:
    """Servers, an entry each: the row of its host, its group as an index (-1: none), its id."""

    host: list[int]
    group: list[int]
    id: list[str]


@dataclass(frozen=True, slots=True)
class FleetMap:
    """All of it, as the caller may see it; `seq` grows with the fleet's log."""

    scope: str
    scopes: list[str]
    domains: list[str]
    domain_ids: list[str]
    hosts: HostColumns
    servers: ServerColumns
    groups: list[dict[str, str]]
    seq: int


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether the caller sees everything, and which scopes their policies may name."""

    operates: bool
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostPage:
    """One host, with all that is known of it; names of servers by their ids."""

    host: Host
    holdings: Sequence[Holding]
    servers: Mapping[str, str]
    aggregates: Sequence[Aggregate]


@dataclass(frozen=True, slots=True)
class FleetMaps:
    """Draws the map."""

    store: Store
    access: Access
    live: LiveFleet

    def rights(self, actor: Actor) -> Rights:
        """What the caller may see and use."""
        with self.store.read() as tx:
            usable = scopes_for(tx, self.access, actor, "use")
        return Rights(sees_all(self.access, actor), tuple(scope.name for scope in usable))

    def stamp(self, actor: Actor, scope: str | None) -> object | None:
        """What an operator's map depends on: equal stamps, equal maps. None for tenants, whose maps are not kept."""
        if not sees_all(self.access, actor):
            return None
        with self.store.read() as tx:
            seen = tuple(scopes_for(tx, self.access, actor))
            signs = (t for t in tx.dashboard.traces() if t.subject in {Subject.FLEET, Subject.GROUPS})
            return _chosen(seen, scope), seen, frozenset(signs)

    def draw(self, actor: Actor, scope: str | None) -> FleetMap:
        """The whole fleet for operators, their own servers for tenants. Raises Invalid for an unknown scope."""
        whole = sees_all(self.access, actor)
        if not whole:
            self.access.require(actor, "os_compute_api:servers:index", Target(project_id=actor.project_id))
        project = None if whole else actor.project_id
        with self.store.read() as tx:
            scopes = scopes_for(tx, self.access, actor)
            chosen = _chosen(scopes, scope)
            signs = (t for t in tx.dashboard.traces() if t.subject is Subject.FLEET and not t.lasting)
            seq = max((int(sign.mark) for sign in signs), default=0)
            placed, names = tx.dashboard.placed(project), dict(tx.dashboard.group_names(project))
            called = _domain_names(tx, chosen) if whole else {}
            obfuscation = disguise_for(tx, self.access, actor, actor.project_id)
            with self.live.fresh(tx) as snapshot:
                fleet = snapshot.fleet.copy()  # what follows takes a while, and nobody shall wait for it
        ids = fleet.domains(chosen.id).names
        if whole:
            domains, known, hosts = [called.get(name, name) for name in ids], list(ids), _all_hosts(fleet, chosen)
            rows: Mapping[HostId, int] = fleet.row_of
        else:
            placed = sorted(placed, key=lambda each: each[1])
            rows = {host: row for row, host in enumerate(_in_order(placed, fleet))}
            hosts, known = _some_hosts(fleet, chosen, list(rows), obfuscation)
            domains = known
        servers, groups = _servers(placed, rows, names)
        seq = seq if whole else 0
        return FleetMap(chosen.name, [s.name for s in scopes], domains, known, hosts, servers, groups, seq)

    def host(self, actor: Actor, name: str) -> HostPage:
        """One host. Raises Forbidden, NotFound."""
        self.access.require(actor, OPERATE)
        with self.store.read() as tx:
            found = tx.hosts.by_name(name)
            if found is None:
                raise NotFound(f"There is no host {name!r}.")
            servers = {server: called for called, server in tx.servers.names_on([found.id])[found.id]}
            aggregates = [aggregate for aggregate in tx.aggregates.all() if name in aggregate.hosts]
            return HostPage(found, tx.allocations.on(found.id), servers, aggregates)


def _chosen(scopes: Sequence[ScopeRef], wanted: str | None) -> ScopeRef:
    """The scope of that name; unless one is named, the first that is more than a host."""
    if wanted is None:
        return next((scope for scope in scopes if scope != HOST), HOST)
    found = next((scope for scope in scopes if scope.name == wanted), None)
    if found is None:
        raise Invalid(f"There is no scope {wanted!r}. Ask for one of {', '.join(scope.name for scope in scopes)}.")
    return found


def _domain_names(tx: Transaction, scope: ScopeRef) -> dict[str, str]:
    """What operators call the domains, by identifier; hosts go by their names anyway."""
    return {} if scope.id is None else {str(each): name for each, name in tx.dashboard.aggregate_names()}


def _all_hosts(fleet: Fleet, scope: ScopeRef) -> HostColumns:
    cpu, memory, disk = fleet.capacity.tolist()
    cpu_used, memory_used, disk_used = (fleet.capacity - fleet.free).tolist()
    return HostColumns(
        id=[str(host.id) for host in fleet.hosts],
        name=[host.name for host in fleet.hosts],
        domain=fleet.domains(scope.id).of_host.tolist(),
        zone=[fleet.zone_of(host) for host in fleet.hosts],
        state=[DOWN if not host.up else UP if host.enabled else DISABLED for host in fleet.hosts],
        vcpus_used=cpu_used,
        vcpus=cpu,
        memory_used=memory_used,
        memory=memory,
        disk_used=disk_used,
        disk=disk,
    )


def _in_order(placed: PlacementRecord, fleet: Fleet) -> list[HostId]:
    """The hosts of servers, in an order that tells nothing but the servers' own."""
    return [host for host in dict.fromkeys(host for host, _, _ in placed) if host in fleet.row_of]


def _some_hosts(
    fleet: Fleet, scope: ScopeRef, hosts: Sequence[HostId], obfuscation: Obfuscation
) -> tuple[HostColumns, list[str]]:
    """Hosts under the names that a tenant knows them by, and the domains that they are in."""
    records = [fleet.hosts[fleet.row_of[host]] for host in hosts]
    names = [obfuscation.shown(HOST, record.name) for record in records]
    domains = fleet.domains(scope.id)
    numbers = domains.of_host[fleet.rows(hosts)].tolist()
    order = {number: i for i, number in enumerate(n for n in dict.fromkeys(numbers) if n != NO_DOMAIN)}
    columns = HostColumns(
        id=names,
        name=names,
        domain=[order.get(number, NO_DOMAIN) for number in numbers],
        zone=[fleet.zone_of(record) for record in records],
        state=[],
        vcpus_used=[],
        vcpus=[],
        memory_used=[],
        memory=[],
        disk_used=[],
        disk=[],
    )
    return columns, [obfuscation.shown(scope, domains.names[number]) for number in order]


def _servers(
    placed: PlacementRecord, rows: Mapping[HostId, int], names: Mapping[GroupId, str]
) -> tuple[ServerColumns, list[dict[str, str]]]:
    known = [each for each in placed if each[0] in rows]
    groups = {group: i for i, group in enumerate(dict.fromkeys(group for _, _, group in known if group in names))}
    columns = ServerColumns(
        host=[rows[host] for host, _, _ in known],
        group=[-1 if group is None else groups.get(group, -1) for _, _, group in known],
        id=[server for _, server, _ in known],
    )
    return columns, [{"id": group, "name": names[group]} for group in groups if group is not None]
