"""The initial states of simulations: from a fleet file, from the service's database, or synthetic."""

from collections import defaultdict
from dataclasses import replace

from oslo_config import cfg

from covey import bootstrap
from covey.model.aggregates import required_traits, reserved_projects
from covey.model.claims import Allocations
from covey.model.errors import Invalid
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.fleet_file import FleetFile
from covey.model.fleet_plan import desired_aggregates, inventories
from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.ids import FlavorId, HostId, ScopeId
from covey.model.inventory import Inventory
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import ResourceRequest, resource_request, server_disk_gb, server_resources
from covey.model.servers import Server, ServerFilter
from covey.scheduler.fleet import Weights
from covey.scheduler.request_spec import HostRequirements
from covey.simulation.initial_state import InitialState, RunningServer, Size
from covey.simulation.synthetic import Synthetic
from covey.storage import schema


def from_file(file: FleetFile, conf: cfg.ConfigOpts) -> InitialState:
    """Return the empty fleet of a fleet file, as `covey fleet apply` creates it."""
    ratios = bootstrap.fleets(conf).default_ratios
    desired = dict(enumerate(desired_aggregates(file).values(), start=1))
    zones = {host: aggregate.zone for aggregate in desired.values() if aggregate.zone for host in aggregate.hosts}
    within: dict[str, set[int]] = defaultdict(set)
    for i, aggregate in desired.items():
        for name in aggregate.hosts:
            within[name].add(i)
    providers, hosts = [], []
    for i, entry in enumerate(file.hosts, start=1):
        has = inventories(entry, ratios)
        records = {k: InventoryRecord(v.total, v.reserved, *v.units, v.allocation_ratio) for k, v in has.items()}
        providers.append(ProviderRecord(i, entry.name, entry.name, None, None, 0, records, entry.traits))
        aggregates = frozenset(within[entry.name])
        hosts.append(HostRecord(HostId(i), entry.name, zone=zones.get(entry.name), aggregates=aggregates))
    domains = [
        AggregateRecord(
            i,
            aggregate.name,
            ScopeId(aggregate.scope) if aggregate.scope else None,
            reserved_projects(aggregate.metadata or {}),
            required_traits(aggregate.metadata or {}),
        )
        for i, aggregate in desired.items()
    ]
    flavors = [
        Flavor(FlavorId(f.name), f.name, f.vcpus, f.memory_mb, f.disk_gb, extra_specs=f.extra_specs)
        for f in file.flavors
    ]
    state = InitialState(
        providers,
        hosts,
        domains,
        {i: aggregate.name for i, aggregate in desired.items()},
        {scope.name: ScopeId(scope.name) for scope in file.scopes},
    )
    return _configured(state, conf, flavors)


def from_service(conf: cfg.ConfigOpts) -> InitialState:
    """Return the state of the service's database, which is only read. Raises Invalid."""
    connected = bootstrap.engine(conf)
    current = schema.current(connected)
    connected.dispose()
    if current != schema.head():
        raise Invalid(f"The database has schema {current or 'none'}; this version requires {schema.head()}.")
    with bootstrap.store(conf).read() as tx:
        providers, hosts, aggregates = tx.fleet_records.all()
        names = {int(aggregate.id): aggregate.name for aggregate in tx.aggregates.all()}
        scopes = {scope.name: scope.id for scope in tx.scopes.all()}
        flavors = tx.flavors.find(FlavorFilter(is_public=None))
        groups = {str(group.id): group.policies for group in tx.groups.find(None)}
        servers = tx.servers.find(ServerFilter(sort_key="created_at", descending=False))
        alone = len(providers) == len(hosts)  # no host has child providers, and none shares with it
        held = {} if alone else tx.allocations.held_by([server.id for server in servers])
    state = _configured(InitialState(providers, hosts, aggregates, names, scopes), conf, flavors)
    known = {host.id for host in hosts}
    running = tuple(_running(server, held.get(server.id)) for server in servers if server.host_id in known)
    return replace(state, groups=groups, servers=running)


def synthetic_fleet(
    conf: cfg.ConfigOpts, hosts: int, zones: int, racks_per_zone: int | None, size: tuple[int, int, int]
) -> InitialState:
    """Return a synthetic fleet with the service's allocation ratios and weights."""
    ratios = bootstrap.fleets(conf).default_ratios.values()
    cpu, memory, disk = (Inventory(n, allocation_ratio=ratio).capacity for ratio, n in zip(ratios, size, strict=True))
    weights, subset = _scheduler_options(conf)
    synthetic = Synthetic(hosts, zones, racks_per_zone, server_resources(cpu, memory, disk))
    return replace(synthetic.start(), weights=weights, subset=subset)


def _scheduler_options(conf: cfg.ConfigOpts) -> tuple[Weights, int]:
    scheduler = conf.scheduler
    weights = scheduler.cpu_weight_multiplier, scheduler.ram_weight_multiplier, scheduler.disk_weight_multiplier
    return Weights(*weights), scheduler.host_subset_size


def _configured(state: InitialState, conf: cfg.ConfigOpts, flavors: list[Flavor]) -> InitialState:
    """Return the state with the flavors as sizes, and with the service's options."""
    weights, subset = _scheduler_options(conf)
    aggregates = state.aggregates
    if not conf.scheduler.enable_forbidden_aggregates_filter:
        aggregates = [replace(aggregate, traits=frozenset()) for aggregate in aggregates]
    sizes, notes = list[Size](), list[str]()
    for flavor in flavors:
        try:
            sizes.append(_size(flavor))
        except Invalid as error:
            notes.append(f"The flavor {flavor.name} is left out. {error.message}")
    return replace(
        state,
        aggregates=aggregates,
        sizes=tuple(sizes),
        notes=tuple(notes),
        weights=weights,
        default_zone=conf.scheduler.default_availability_zone,
        subset=subset,
    )


def _running(server: Server, held: Allocations | None) -> RunningServer:
    assert server.host_id is not None
    asked, image = _asked(server.flavor), server.request
    requirements = HostRequirements(
        server.project_id,
        image.zone,
        asked.required | {*image.image_required_traits},
        asked.forbidden | {*image.image_forbidden_traits},
        granular_traits=asked.granular_traits,
    )
    group = None if server.group_id is None else str(server.group_id)
    return RunningServer(
        server.id, server.host_id, asked.amounts, requirements, group, held, asked.groups, asked.isolate
    )


def _size(flavor: Flavor) -> Size:
    asked = resource_request(flavor)
    return Size(
        asked.amounts, tuple(sorted(asked.required)), tuple(sorted(asked.forbidden)), asked.groups, asked.isolate
    )


def _asked(flavor: Flavor) -> ResourceRequest:
    """Return what a running server asks of another host: its size, if its flavor asks for what Covey does not know."""
    try:
        return resource_request(flavor)
    except Invalid:
        return ResourceRequest(server_resources(flavor.vcpus, flavor.memory_mb, server_disk_gb(flavor)))
