"""Builds the services of a process and the handlers of its jobs, on one store, by the operator's options."""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from oslo_config import cfg

from covey import remote_api
from covey.clock_and_ids import new_seed, new_uuid, random_uuid
from covey.drivers.agents import Agents as AgentDriver
from covey.drivers.simulated import Simulated
from covey.model.agents import AgentState
from covey.model.clustering.sizes import Limits
from covey.model.ids import ProjectId, UserId
from covey.model.images import ImageLimits
from covey.model.inventory import ResourceClass
from covey.model.quotas import DEFAULTS
from covey.model.servers import Server
from covey.model.work import JobKind
from covey.notifications import build_publisher
from covey.ports import Access, Accounts, Clock, Driver
from covey.request_slots import ProjectLimit, RequestSlots
from covey.scheduler.explain import Explanation
from covey.scheduler.fleet import Weights
from covey.scheduler.request_spec import HostRequirements
from covey.services import Services
from covey.services.agents import Agents
from covey.services.agents.call_polls import CallPolls
from covey.services.agents.driver_calls import DriverCalls
from covey.services.agents.fenced_hosts import FencedHosts
from covey.services.agents.fencing import Fencing
from covey.services.agents.host_evacuations import HostEvacuations
from covey.services.agents.host_watch import HostWatch
from covey.services.agents.registrations import Registrations
from covey.services.agents.work import AgentWork
from covey.services.aggregates import Aggregates
from covey.services.audits import Audits
from covey.services.builds import Builds
from covey.services.call_pool import CallPool
from covey.services.clustering import Clustering
from covey.services.clustering.engine import build_executor
from covey.services.clustering.engine.executor import Executor
from covey.services.clustering.engines import Heartbeat
from covey.services.compute_service_drains import ComputeServiceDrains
from covey.services.consoles import Consoles
from covey.services.dashboard import Dashboard
from covey.services.destinations import Destinations
from covey.services.drain_steps import DrainSteps
from covey.services.drains import DrainPlanner, Drains
from covey.services.explanations import Explanations
from covey.services.flavors import Flavors
from covey.services.group_evacuations import GroupEvacuations
from covey.services.groups import Groups
from covey.services.host_ids import HostIds
from covey.services.hosts import Hosts
from covey.services.images import Images
from covey.services.instance_actions import InstanceActionLog
from covey.services.instances import Instances
from covey.services.keypairs import KeyPairs
from covey.services.leases import FencedDriver, Leases
from covey.services.live_fleet import LiveFleet
from covey.services.live_migrations import LiveMigrations
from covey.services.maintenance import Maintenance
from covey.services.memberships import Memberships
from covey.services.movers import Movers, OwnMover
from covey.services.moves import Moves
from covey.services.notifications import NotificationEmitter
from covey.services.nova_groups import NovaGroups
from covey.services.nova_moves import NovaApi, NovaMover, NovaServices
from covey.services.nova_sync.nova import Nova
from covey.services.placement import Placement
from covey.services.power import Power
from covey.services.previews import Previews
from covey.services.quotas import Quotas
from covey.services.rebalance_steps import RebalanceSteps
from covey.services.rebalances import Planner, Rebalances, TenantLimits
from covey.services.scopes import Scopes
from covey.services.server_creation import LocalQueue, ServerCreation
from covey.services.server_tasks import ServerTasks
from covey.services.servers import Servers
from covey.storage.image_files import ImageFiles
from covey.storage.store import Store
from covey.worker import LARGE_BATCH, SMALL_BATCH, Batch, Handler, Worker

_NOVA_TIMEOUT_S = 10.0
_WORKER_TIMEOUT_S = 20.0  # a job asks Nova again later; until then it keeps a worker


@dataclass(frozen=True, slots=True)
class Assembled:
    """The services that answer requests, and what the workers of the process run."""

    services: Services
    store: Store
    clock: Clock
    live: LiveFleet
    builds: Builds
    server_tasks: ServerTasks
    rebalances: RebalanceSteps
    drains: DrainSteps
    compute_service_drains: ComputeServiceDrains
    executor: Executor
    publish: Callable[[], int]
    local_queue: LocalQueue
    host_evacuations: HostEvacuations
    heartbeat: Heartbeat
    host_watch: HostWatch
    maintenance: Maintenance
    leases: Leases
    pool: CallPool
    local_batch: int
    max_attempts: int
    poll_interval_s: float

    def worker(self) -> Worker:
        """Return a new worker of this process."""
        return Worker(
            self.store,
            self.leases,
            self._handlers(),
            self.builds.start,
            self.publish,
            self.local_queue,
            pool=self.pool,
            local_batch=self.local_batch,
            max_attempts=self.max_attempts,
            poll_interval_s=self.poll_interval_s,
            periodic=(self.heartbeat.beat, self.host_watch.run_if_due, self.maintenance.run_if_due),
        )

    def _handlers(self) -> dict[JobKind, Handler]:
        """Which handler carries out each kind of job."""
        return {
            JobKind.SPAWN: Batch(self.builds.spawn),
            JobKind.DESTROY: self.builds.destroy,
            JobKind.MOVE: self.server_tasks.move,
            JobKind.REVERT: self.server_tasks.revert,
            JobKind.SHELVE: self.server_tasks.shelve,
            JobKind.UNSHELVE: self.server_tasks.unshelve,
            JobKind.POWER: self.server_tasks.power,
            JobKind.REBALANCE: self.rebalances.run,
            JobKind.DRAIN: self.drains.run,
            JobKind.COMPUTE_SERVICES: self.compute_service_drains.run,
            JobKind.CLUSTER_ACTION: self.executor.execute,
            JobKind.EVACUATE_HOST: self.host_evacuations.run,
        }


class NoAccounts:
    """The accounts of a process that answers no requests."""

    def remaining_roles(self, user: UserId, project: ProjectId, roles: frozenset[str]) -> frozenset[str]:  # noqa: ARG002
        return frozenset()


def assemble(
    conf: cfg.ConfigOpts,
    store: Store,
    access: Access,
    now: Clock,
    request_slots: RequestSlots,
    claim_conflict: Callable[[], None] = lambda: None,
    report_parked: Callable[[int], None] = lambda _: None,
    accounts: Accounts = NoAccounts(),  # noqa: B008 -- it has no state
    report_agents: Callable[[Mapping[AgentState, int]], None] = lambda _: None,
    report_nova_read: Callable[[datetime], None] = lambda _: None,
) -> Assembled:
    """Build all services.

    `claim_conflict` is called for every claim that must be decided again; `report_parked` once a minute with the
    number of parked jobs, `report_agents` with the number of agents in each state, and `report_nova_read` with the time
    of the last reading of Nova.
    """
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
    tenant_message = _TENANT_MESSAGES[conf.api.explain_to_tenants]
    notifications = _notifications(conf, now)
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
    destinations = Destinations(store, live, new_seed, tenant_message, scheduler.host_subset_size)
    groups = Groups(store, access, now, new_uuid, quotas, notifications)
    leases = Leases(store, conf.worker.lease_s)
    polls = CallPolls(store, conf.agents.call_lease_s, conf.agents.max_polls)
    driver = FencedDriver(_driver(conf, store, polls, now), leases, conf.worker.calls_per_host)
    pool = CallPool(1 if driver.is_instant else conf.worker.calls)
    moves = Moves(store, access, now, new_uuid, servers, destinations, quotas.use_in)
    nova = NovaApi(
        lambda: remote_api.connect_by_options(
            "compute", conf, "nova", url=conf.nova.url, timeout_s=_WORKER_TIMEOUT_S, retries=0
        )
    )
    move_timeout = timedelta(seconds=conf.nova.move_timeout_s)
    nova_mover = NovaMover(store, nova, now, move_timeout, cold_migrate_running=conf.nova.cold_migrate_running)
    movers = Movers(store, OwnMover(store, moves), nova_mover)
    planner = Planner(servers, live, request_slots, new_seed, scheduler.rebalance_time_limit_s)
    group_evacuations = GroupEvacuations(store, groups, moves)
    drain_planner = DrainPlanner(servers, live, request_slots, new_seed)
    power, limits = Power(store, access, now, servers), _limits(conf.clustering)
    return Assembled(
        services=Services(
            agents=_agents(conf, store, polls, request_slots, access, now, notifications, images.files),
            aggregates=Aggregates(store, access, now, new_uuid),
            audits=Audits(store, access, groups, live),
            clustering=Clustering.build(
                store, access, accounts, now, random_uuid, scheduler.default_availability_zone, limits
            ),
            consoles=Consoles(store, servers, driver),
            dashboard=Dashboard.build(
                store,
                access,
                now,
                live,
                groups,
                servers,
                conf.api.explain_to_tenants,
                isolate_aggregates=scheduler.enable_forbidden_aggregates_filter,
            ),
            drains=Drains(store, access, now, new_uuid, drain_planner),
            explanations=Explanations(store, access, live, servers),
            flavors=flavors,
            groups=groups,
            host_ids=HostIds(store),
            hosts=Hosts(store, access, now, scheduler.default_availability_zone),
            images=images,
            instance_actions=InstanceActionLog(store, access, servers),
            instances=Instances(store, access, conf.api.explain_to_tenants),
            key_pairs=KeyPairs(store, access, now, quotas),
            live_migrations=LiveMigrations(store, now, servers),
            memberships=Memberships(
                store, access, live, groups, servers, quotas, notifications, conf.quota.max_members_per_group
            ),
            moves=moves,
            nova_groups=NovaGroups(store, now, request_slots, partial(_nova_of_caller, conf), conf.nova.url),
            placement=Placement.build(store, access, now, new_uuid, request_slots, live),
            power=power,
            previews=Previews(
                store,
                access,
                groups,
                servers,
                live,
                quotas,
                tenant_message,
                _TENANT_MESSAGES["counts"],
                exact=conf.api.explain_to_tenants == "counts",
            ),
            quotas=quotas,
            group_evacuations=group_evacuations,
            rebalances=Rebalances(
                store,
                access,
                now,
                new_uuid,
                groups,
                planner,
                ProjectLimit(scheduler.max_rebalance_searches, 1),
                TenantLimits(scheduler.tenant_rebalance_max_moves, scheduler.tenant_rebalance_interval_s),
            ),
            scopes=Scopes(store, access, now, new_uuid),
            servers=servers,
        ),
        store=store,
        clock=now,
        live=live,
        builds=Builds(
            store,
            now,
            driver,
            destinations,
            _requirements_of(servers),
            notifications,
            scheduler.max_attempts,
            pool,
            driver.spawn_all if driver.takes_batches else None,
        ),
        server_tasks=ServerTasks(store, now, driver, destinations, notifications),
        rebalances=RebalanceSteps(store, now, replace(planner, request_slots=RequestSlots()), movers),  # takes no slot
        drains=DrainSteps(store, now, replace(drain_planner, request_slots=RequestSlots()), movers),
        compute_service_drains=ComputeServiceDrains(store, now, NovaServices(nova)),
        executor=build_executor(
            store,
            access,
            now,
            random_uuid,
            limits,
            scheduler.default_availability_zone,
            groups,
            servers,
            power,
            moves,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        ),
        publish=build_publisher(conf, store),
        local_queue=local_queue,
        host_evacuations=HostEvacuations(store, moves, group_evacuations, new_uuid, _fencing(conf.agents, store)),
        host_watch=HostWatch(store, notifications, conf.agents.down_after, conf.agents.evacuate, report_agents),
        heartbeat=Heartbeat(store, now, new_uuid(), socket.gethostname()),
        maintenance=Maintenance(
            store,
            now,
            report_parked,
            report_nova_read,
            timedelta(days=conf.clustering.history_days),
            conf.clustering.max_history_per_project,
        ),
        leases=leases,
        pool=pool,
        local_batch=LARGE_BATCH if driver.is_instant else SMALL_BATCH,
        max_attempts=conf.worker.max_attempts,
        poll_interval_s=conf.worker.poll_interval_s,
    )


def _nova_of_caller(conf: cfg.ConfigOpts, url: str, token: str) -> Nova:
    """Return the Compute API that a caller asks by its own token, within the time of a request."""
    address = remote_api.without_project(url)
    return Nova(
        remote_api.connect_by_token("compute", conf, "nova", url=address, token=token, timeout_s=_NOVA_TIMEOUT_S)
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


def _agents(
    conf: cfg.ConfigOpts,
    store: Store,
    polls: CallPolls,
    request_slots: RequestSlots,
    access: Access,
    now: Clock,
    notifications: NotificationEmitter,
    files: ImageFiles,
) -> Agents:
    ratios = {str(kind): ratio for kind, ratio in default_ratios(conf).items()}
    registrations = Registrations(
        *(store, access, now, new_uuid, notifications, ratios, request_slots, polls),
        auto_register=conf.agents.auto_register,
        binds_by_name=conf.agents.binding == "name",
    )
    work = AgentWork(store, access, now, polls, files, request_slots)
    return Agents(registrations, work, conf.agents.heartbeat_s)


def fenced_hosts(conf: cfg.ConfigOpts, store: Store, now: Clock) -> FencedHosts:
    """Return the service behind `covey host fence`."""
    return FencedHosts(store, _notifications(conf, now), _fencing(conf.agents, store), 2 * conf.agents.heartbeat_s)


def _notifications(conf: cfg.ConfigOpts, now: Clock) -> NotificationEmitter:
    return NotificationEmitter(conf.notifications.driver != "noop", now, conf.scheduler.default_availability_zone)


def _fencing(options: cfg.ConfigOpts, store: Store) -> Fencing | None:
    if not options.fence_command:
        return None
    return Fencing(store, random_uuid, options.fence_command, options.fence_timeout_s)


def default_ratios(conf: cfg.ConfigOpts) -> dict[ResourceClass, float]:
    """Return the overcommit ratios of new hosts, by resource class."""
    return {
        ResourceClass.VCPU: conf.scheduler.cpu_allocation_ratio,
        ResourceClass.MEMORY_MB: conf.scheduler.ram_allocation_ratio,
        ResourceClass.DISK_GB: conf.scheduler.disk_allocation_ratio,
    }


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


def _requirements_of(servers: Servers) -> Callable[[Server], HostRequirements]:
    def requirements(server: Server) -> HostRequirements:
        return servers.requirements_for(server.project_id, server.flavor, server.request)

    return requirements


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# What tenants read of an explanation, by [api] explain_to_tenants.
_TENANT_MESSAGES: dict[str, Callable[[Explanation], str]] = {
    "counts": lambda explanation: _sentence(explanation.sentence()),
    "reasons": lambda explanation: _sentence(explanation.without_numbers()),
    "none": lambda _: "There are not enough hosts available.",
}
