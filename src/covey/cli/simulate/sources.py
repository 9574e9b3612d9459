"""The initial states of simulations: from a fleet file, from the service's database, or synthetic."""

from dataclasses import replace
from datetime import UTC, datetime

from oslo_config import cfg

from covey import bootstrap
from covey.model.aggregates import Aggregate
from covey.model.claims import amounts_of
from covey.model.errors import Invalid
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.fleet_file import FleetFile
from covey.model.fleet_plan import desired_aggregates, inventories
from covey.model.hosts import Host
from covey.model.ids import AggregateId, FlavorId, HostId, ScopeId
from covey.model.inventory import Inventory
from covey.model.servers import PlacementRequest, Server, ServerFilter
from covey.scheduler.fleet import Weights
from covey.scheduler.request_spec import HostRequirements
from covey.services.live_fleet import build_fleet
from covey.services.servers import required_traits, traits
from covey.simulation.initial_state import Amounts, InitialState, RunningServer, Size
from covey.simulation.synthetic import Synthetic
from covey.storage import schema

_NEVER = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def from_file(file: FleetFile, conf: cfg.ConfigOpts) -> InitialState:
    """Return the empty fleet of a fleet file, as `covey fleet apply` creates it."""
    ratios = bootstrap.fleets(conf).default_ratios
    desired = desired_aggregates(file)
    zones = {host: aggregate.zone for aggregate in desired.values() if aggregate.zone for host in aggregate.hosts}
    hosts = [
        Host(
            id=HostId(number),
            uuid="",
            name=entry.name,
            zone=zones.get(entry.name),
            disabled=False,
            disabled_reason=None,
            forced_down=False,
            updated_at=_NEVER,
            inventories=inventories(entry, ratios),
            traits=entry.traits,
        )
        for number, entry in enumerate(file.hosts, start=1)
    ]
    order = {host.name: number for number, host in enumerate(file.hosts)}
    aggregates = [
        Aggregate(
            AggregateId(i),
            aggregate.name,
            aggregate.name,
            aggregate.zone,
            ScopeId(aggregate.scope) if aggregate.scope else None,
            _NEVER,
            None,
            aggregate.metadata or {},
            tuple(sorted(aggregate.hosts, key=order.__getitem__)),
        )
        for i, aggregate in enumerate(desired.values(), start=1)
    ]
    flavors = [
        Flavor(FlavorId(f.name), f.name, f.vcpus, f.memory_mb, f.disk_gb, extra_specs=f.extra_specs)
        for f in file.flavors
    ]
    scopes = {scope.name: ScopeId(scope.name) for scope in file.scopes}
    return _state(conf, hosts, aggregates, scopes, flavors)


def from_service(conf: cfg.ConfigOpts) -> InitialState:
    """Return the state of the service's database, which is only read. Raises Invalid."""
    connected = bootstrap.engine(conf)
    current = schema.current(connected)
    connected.dispose()
    if current != schema.head():
        raise Invalid(f"The database has schema {current or 'none'}; this version requires {schema.head()}.")
    with bootstrap.store(conf).read() as tx:
        hosts, aggregates = tx.hosts.find(), tx.aggregates.all()
        scopes = {scope.name: scope.id for scope in tx.scopes.all()}
        flavors = tx.flavors.find(FlavorFilter(is_public=None))
        groups = {str(group.id): group.policies for group in tx.groups.find(None)}
        servers = tx.servers.find(ServerFilter(sort_key="created_at", descending=False))
    state = _state(conf, hosts, aggregates, scopes, flavors)
    known = {host.id for host in hosts}
    running = tuple(_running(server) for server in servers if server.host_id in known)
    return replace(state, groups=groups, servers=running)


def synthetic_fleet(
    conf: cfg.ConfigOpts, hosts: int, zones: int, racks_per_zone: int | None, size: Amounts
) -> InitialState:
    """Return a synthetic fleet with the service's allocation ratios and weights."""
    ratios = bootstrap.fleets(conf).default_ratios.values()
    cpu, memory, disk = (Inventory(n, allocation_ratio=ratio).capacity for ratio, n in zip(ratios, size, strict=True))
    weights, subset = _scheduler_options(conf)
    return replace(Synthetic(hosts, zones, racks_per_zone, (cpu, memory, disk)).start(), weights=weights, subset=subset)


def _scheduler_options(conf: cfg.ConfigOpts) -> tuple[Weights, int]:
    scheduler = conf.scheduler
    weights = scheduler.cpu_weight_multiplier, scheduler.ram_weight_multiplier, scheduler.disk_weight_multiplier
    return Weights(*weights), scheduler.host_subset_size


def _state(
    conf: cfg.ConfigOpts,
    hosts: list[Host],
    aggregates: list[Aggregate],
    scopes: dict[str, ScopeId],
    flavors: list[Flavor],
) -> InitialState:
    weights, subset = _scheduler_options(conf)
    zone, isolate_aggregates = (
        conf.scheduler.default_availability_zone,
        conf.scheduler.enable_forbidden_aggregates_filter,
    )
    fleet = build_fleet(hosts, aggregates, weights, zone, isolate_aggregates=isolate_aggregates)
    return InitialState(
        fleet.hosts,
        fleet.aggregates,
        {aggregate.id: aggregate.name for aggregate in aggregates},
        scopes,
        tuple(
            Size(amounts_of(flavor), tuple(sorted(required_traits(flavor, PlacementRequest()))))
            for flavor in flavors
            if any(amounts_of(flavor))
        ),
        weights=weights,
        default_zone=zone,
        subset=subset,
    )


def _running(server: Server) -> RunningServer:
    assert server.host_id is not None
    forbidden = {*traits(server.flavor.extra_specs, "forbidden"), *server.request.image_forbidden_traits}
    requirements = HostRequirements(
        server.project_id, server.request.zone, required_traits(server.flavor, server.request), frozenset(forbidden)
    )
    group = None if server.group_id is None else str(server.group_id)
    return RunningServer(server.id, server.host_id, amounts_of(server.flavor), requirements, group)
