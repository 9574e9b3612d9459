"""Builds the services of a process and the handlers of its jobs, on one store, by the operator's options."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from oslo_config import cfg

from covey.clock_and_ids import new_seed, new_uuid, random_uuid
from covey.drivers.simulated import Simulated
from covey.model.clustering.sizes import Limits
from covey.model.quotas import DEFAULTS
from covey.model.servers import Server
from covey.model.work import JobKind
from covey.notifications import build_publisher
from covey.ports import Access, Clock
from covey.request_slots import RequestSlots
from covey.scheduler.explain import Explanation
from covey.scheduler.fleet import Weights
from covey.scheduler.request_spec import HostRequirements
from covey.services import Services
from covey.services.aggregates import Aggregates
from covey.services.audits import Audits
from covey.services.builds import Builds
from covey.services.clustering import Clustering
from covey.services.clustering.engine import build_executor
from covey.services.clustering.engine.executor import Executor
from covey.services.clustering.engines import Heartbeat
from covey.services.dashboard import Dashboard
from covey.services.destinations import Destinations
from covey.services.explanations import Explanations
from covey.services.flavors import Flavors
from covey.services.groups import Groups
from covey.services.histories import Histories
from covey.services.hosts import Hosts
from covey.services.images import Images
from covey.services.live_fleet import LiveFleet
from covey.services.maintenance import Maintenance
from covey.services.memberships import Memberships
from covey.services.moves import Moves
from covey.services.notifications import NotificationEmitter
from covey.services.placement import Placement
from covey.services.power import Power
from covey.services.previews import Previews
from covey.services.quotas import Quotas
from covey.services.rebalance_steps import RebalanceSteps
from covey.services.rebalances import Planner, Rebalances
from covey.services.scopes import Scopes
from covey.services.server_creation import LocalQueue, ServerCreation
from covey.services.server_tasks import ServerTasks
from covey.services.servers import Servers, TtlCache
from covey.storage.store import Store
from covey.worker import Batch, Handler, Worker

_CACHE_S = 1.0  # how long a flavor or an image stays in the cache for further boots


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
    executor: Executor
    publish: Callable[[], int]
    local_queue: LocalQueue
    heartbeat: Heartbeat
    maintenance: Maintenance
    lease_s: float
    poll_interval_s: float

    def worker(self) -> Worker:
        """Return a new worker of this process."""
        return Worker(
            self.store,
            self.clock,
            self._handlers(),
            self.builds.start,
            self.publish,
            self.local_queue,
            lease_s=self.lease_s,
            poll_interval_s=self.poll_interval_s,
            periodic=(self.heartbeat.beat, self.maintenance.run_if_due),
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
            JobKind.CLUSTER_ACTION: self.executor.execute,
        }


def assemble(
    conf: cfg.ConfigOpts,
    store: Store,
    access: Access,
    now: Clock,
    request_slots: RequestSlots,
    claim_conflict: Callable[[], None] = lambda: None,
) -> Assembled:
    """Build all services. `claim_conflict` is called for every claim that another claim made stale."""
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
    notifications = NotificationEmitter(conf.notifications.driver != "noop", now, scheduler.default_availability_zone)
    quotas = Quotas(store, access, {name: conf.quota[name] for name in DEFAULTS})
    flavors, images = Flavors(store, access, now), Images(store, access, now)
    local_queue = LocalQueue(conf.worker.lease_s)
    server_creation = ServerCreation(
        store,
        live,
        quotas.defaults,
        tenant_message,
        notifications,
        local_queue,
        scheduler.host_subset_size,
        request_slots=request_slots,
        claim_conflict=claim_conflict,
    )
    servers = Servers(store, access, now, server_creation, flavors, images, TtlCache(_CACHE_S), TtlCache(_CACHE_S))
    destinations = Destinations(store, live, new_seed, tenant_message, scheduler.host_subset_size)
    groups = Groups(store, access, now, new_uuid, quotas, notifications)
    driver = Simulated(conf.driver.latency_s, conf.driver.failure_rate, conf.driver.seed, now)
    moves = Moves(store, access, now, new_uuid, servers, destinations, quotas.limits_in)
    planner = Planner(servers, live, request_slots, new_seed, scheduler.rebalance_time_limit_s)
    power, limits = Power(store, access, now, servers), _limits(conf.clustering)
    return Assembled(
        services=Services(
            aggregates=Aggregates(store, access, now, new_uuid),
            audits=Audits(store, access, groups, live),
            clustering=Clustering.build(store, access, now, random_uuid, scheduler.default_availability_zone, limits),
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
            explanations=Explanations(store, access, live, servers),
            flavors=flavors,
            groups=groups,
            histories=Histories(store, access, servers),
            hosts=Hosts(store, access, now, scheduler.default_availability_zone),
            images=images,
            memberships=Memberships(store, access, live, groups, servers, quotas, notifications),
            moves=moves,
            placement=Placement.build(store, access, now, new_uuid, request_slots, live),
            power=power,
            previews=Previews(store, access, groups, servers, live, tenant_message),
            quotas=quotas,
            rebalances=Rebalances(store, access, now, new_uuid, groups, planner),
            scopes=Scopes(store, access, now, new_uuid),
            servers=servers,
        ),
        store=store,
        clock=now,
        live=live,
        builds=Builds(
            store, now, driver, destinations, _requirements_of(servers), notifications, scheduler.max_attempts
        ),
        server_tasks=ServerTasks(store, now, driver, destinations, notifications),
        rebalances=RebalanceSteps(store, now, replace(planner, request_slots=RequestSlots()), moves),  # takes no slot
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
        heartbeat=Heartbeat(store, now, new_uuid(), socket.gethostname()),
        maintenance=Maintenance(store, now),
        lease_s=conf.worker.lease_s,
        poll_interval_s=conf.worker.poll_interval_s,
    )


def _limits(options: cfg.ConfigOpts) -> Limits:
    return Limits(options.max_clusters_per_project, options.max_nodes_per_cluster, options.default_action_timeout)


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
