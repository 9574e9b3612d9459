"""What the services and the workers of a process share: the fleet, the driver, and the services that others use."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from covey.clock_and_ids import new_seed, new_uuid, random_uuid
from covey.drivers.agents import Agents as AgentDriver
from covey.drivers.simulated import Simulated
from covey.model.clustering.sizes import Limits
from covey.model.images import ImageLimits
from covey.model.quotas import DEFAULTS
from covey.ports import Access, Clock, Driver
from covey.request_slots import RequestSlots
from covey.scheduler.explain import Explanation
from covey.scheduler.fleet import Weights
from covey.services.agents.call_polls import CallPolls
from covey.services.agents.driver_calls import DriverCalls
from covey.services.destinations import Destinations
from covey.services.drains import DrainPlanner
from covey.services.flavors import Flavors
from covey.services.group_evacuations import GroupEvacuations
from covey.services.groups import Groups
from covey.services.images import Images
from covey.services.leases import FencedDriver, Leases
from covey.services.live_fleet import LiveFleet
from covey.services.moves import Moves
from covey.services.notifications import NotificationEmitter
from covey.services.power import Power
from covey.services.quotas import Quotas
from covey.services.rebalances import Planner
from covey.services.server_creation import LocalQueue, ServerCreation
from covey.services.servers import Servers
from covey.storage.image_files import ImageFiles
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """The shared parts of a process, each built once."""

    conf: cfg.ConfigOpts
    store: Store
    access: Access
    clock: Clock
    request_slots: RequestSlots
    live: LiveFleet
    tenant_message: Callable[[Explanation], str]
    notifications: NotificationEmitter
    quotas: Quotas
    flavors: Flavors
    images: Images
    local_queue: LocalQueue
    servers: Servers
    destinations: Destinations
    groups: Groups
    leases: Leases
    polls: CallPolls
    driver: FencedDriver
    moves: Moves
    planner: Planner
    drain_planner: DrainPlanner
    group_evacuations: GroupEvacuations
    power: Power
    clustering_limits: Limits


def build_parts(
    conf: cfg.ConfigOpts,
    store: Store,
    access: Access,
    now: Clock,
    request_slots: RequestSlots,
    claim_conflict: Callable[[], None],
) -> Parts:
    """Build the shared parts by the operator's options."""
    scheduler = conf.scheduler
    weights = Weights(
        scheduler.cpu_weight_multiplier, scheduler.ram_weight_multiplier, scheduler.disk_weight_multiplier
    )
    live = LiveFleet(
        store,
        new_uuid,
        weights,
        scheduler.default_availability_zone,
        isolate_aggregates=scheduler.enable_forbidden_aggregates_filter,
    )
    tenant_message = TENANT_MESSAGES[conf.api.explain_to_tenants]
    notifications = build_notifications(conf, now)
    quotas = Quotas(store, access, {name: conf.quota[name] for name in DEFAULTS})
    flavors, images = Flavors(store, access, now), _images(conf.image, store, access, now)
    local_queue = LocalQueue(conf.worker.lease_s)
    server_creation = ServerCreation(
        store,
        live,
        quotas.defaults,
        tenant_message,
        notifications,
        local_queue,
        scheduler.host_subset_size,
        max_group_members=conf.quota.max_members_per_group,
        request_slots=request_slots,
        claim_conflict=claim_conflict,
    )
    servers = Servers(
        *(store, access, now, server_creation, flavors, images, quotas),
        isolate_forced_hosts=scheduler.isolate_forced_hosts,
        boots_image_data=conf.driver.backend == "agents",
    )
    destinations = Destinations(live, new_seed, tenant_message, scheduler.host_subset_size)
    groups = Groups(store, access, now, new_uuid, quotas, notifications)
    leases = Leases(store, conf.worker.lease_s)
    polls = CallPolls(store, conf.agents.call_lease_s, conf.agents.max_polls)
    driver = FencedDriver(_driver(conf, store, polls, now), leases, conf.worker.calls_per_host)
    moves = Moves(store, access, now, new_uuid, servers, destinations, quotas)
    planner = Planner(servers, live, request_slots, new_seed, scheduler.rebalance_time_limit_s)
    group_evacuations = GroupEvacuations(store, groups, moves)
    drain_planner = DrainPlanner(servers, live, request_slots, new_seed)
    return Parts(
        conf=conf,
        store=store,
        access=access,
        clock=now,
        request_slots=request_slots,
        live=live,
        tenant_message=tenant_message,
        notifications=notifications,
        quotas=quotas,
        flavors=flavors,
        images=images,
        local_queue=local_queue,
        servers=servers,
        destinations=destinations,
        groups=groups,
        leases=leases,
        polls=polls,
        driver=driver,
        moves=moves,
        planner=planner,
        drain_planner=drain_planner,
        group_evacuations=group_evacuations,
        power=Power(store, access, now, servers),
        clustering_limits=_limits(conf.clustering),
    )


def _images(options: cfg.ConfigOpts, store: Store, access: Access, now: Clock) -> Images:
    limits = ImageLimits(
        options.max_images_per_project, options.max_properties, options.max_tags, options.max_bytes_per_project
    )
    files = ImageFiles(Path(options.data_dir) if options.data_dir else None)
    return Images(store, access, now, limits, files, random_uuid)


def _driver(conf: cfg.ConfigOpts, store: Store, polls: CallPolls, now: Clock) -> Driver:
    if conf.driver.backend == "agents":
        return AgentDriver(DriverCalls(store, polls, conf.agents.call_lease_s))
    return Simulated(conf.driver.latency_s, conf.driver.failure_rate, conf.driver.seed, now)


def build_notifications(conf: cfg.ConfigOpts, now: Clock) -> NotificationEmitter:
    """Return what emits notifications, which is off for the driver noop."""
    return NotificationEmitter(conf.notifications.driver != "noop", now, conf.scheduler.default_availability_zone)


def _limits(options: cfg.ConfigOpts) -> Limits:
    return Limits(
        options.max_clusters_per_project,
        options.max_nodes_per_cluster,
        options.default_action_timeout,
        options.max_profiles_per_project,
        options.max_policies_per_project,
        options.max_receivers_per_project,
        options.max_orphan_nodes_per_project,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# What tenants read of an explanation, by [api] explain_to_tenants.
TENANT_MESSAGES: dict[str, Callable[[Explanation], str]] = {
    "counts": lambda explanation: _sentence(explanation.sentence()),
    "reasons": lambda explanation: _sentence(explanation.without_numbers()),
    "none": lambda _: "There are not enough hosts available.",
}
