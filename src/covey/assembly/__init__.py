"""Connects the services of a process and what its workers run, on one store, by the operator's options."""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from oslo_config import cfg

from covey import remote_api
from covey.assembly.parts import Parts, build_notifications, build_parts
from covey.assembly.services import build_services
from covey.clock_and_ids import new_uuid, random_uuid
from covey.model.agents import AgentState
from covey.model.ids import ProjectId, UserId
from covey.model.servers import Server
from covey.model.work import JobKind
from covey.notifications import build_publisher
from covey.ports import Access, Accounts, Clock
from covey.request_slots import RequestSlots
from covey.scheduler.request_spec import HostRequirements
from covey.services import Services
from covey.services.agents.fenced_hosts import FencedHosts
from covey.services.agents.fencing import Fencing
from covey.services.agents.host_evacuations import HostEvacuations
from covey.services.agents.host_watch import HostWatch
from covey.services.builds import Builds
from covey.services.call_pool import CallPool
from covey.services.clustering.engine import build_executor
from covey.services.clustering.engine.executor import Executor
from covey.services.clustering.engines import Heartbeat
from covey.services.compute_service_drains import ComputeServiceDrains
from covey.services.drain_steps import DrainSteps
from covey.services.host_retries import HostRetries
from covey.services.leases import Leases
from covey.services.live_fleet import LiveFleet
from covey.services.maintenance import Maintenance
from covey.services.movers import Movers, OwnMover
from covey.services.nova_moves import NovaApi, NovaMover, NovaServices
from covey.services.rebalance_steps import RebalanceSteps
from covey.services.server_creation import LocalQueue
from covey.services.server_tasks import ServerTasks
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction
from covey.worker import LARGE_BATCH, SMALL_BATCH, Batch, Handler, Worker

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
    """Build all services, and what the workers run.

    `claim_conflict` is called for every claim that must be decided again; `report_parked` once a minute with the
    number of parked jobs, `report_agents` with the number of agents in each state, and `report_nova_read` with the time
    of the last reading of Nova.
    """
    parts = build_parts(conf, store, access, now, request_slots, claim_conflict)
    driver, scheduler = parts.driver, conf.scheduler
    pool = CallPool(1 if driver.is_instant else conf.worker.calls)
    nova = NovaApi(
        lambda: remote_api.connect_by_options(
            "compute", conf, "nova", url=conf.nova.url, timeout_s=_WORKER_TIMEOUT_S, retries=0
        )
    )
    movers = _movers(parts, nova)
    return Assembled(
        services=build_services(parts, accounts),
        store=store,
        clock=now,
        live=parts.live,
        builds=Builds(
            store,
            now,
            driver,
            parts.destinations,
            _requirements_of(parts.servers),
            parts.notifications,
            scheduler.max_attempts,
            pool,
            driver.spawn_all if driver.takes_batches else None,
        ),
        server_tasks=ServerTasks(
            store,
            now,
            driver,
            parts.destinations,
            parts.notifications,
            HostRetries(store, now, parts.destinations, _requirements_of(parts.servers), scheduler.max_attempts),
        ),
        # Workers hold no slot of a request.
        rebalances=RebalanceSteps(store, now, replace(parts.planner, request_slots=RequestSlots()), movers),
        drains=DrainSteps(store, now, replace(parts.drain_planner, request_slots=RequestSlots()), movers),
        compute_service_drains=ComputeServiceDrains(store, now, NovaServices(nova)),
        executor=build_executor(
            store,
            access,
            now,
            random_uuid,
            parts.clustering_limits,
            scheduler.default_availability_zone,
            parts.groups,
            parts.servers,
            parts.power,
            parts.moves,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        ),
        publish=build_publisher(conf, store),
        local_queue=parts.local_queue,
        host_evacuations=HostEvacuations(
            store, parts.moves, parts.group_evacuations, new_uuid, _fencing(conf.agents, store)
        ),
        host_watch=HostWatch(store, parts.notifications, conf.agents.down_after, conf.agents.evacuate, report_agents),
        heartbeat=Heartbeat(store, now, new_uuid(), socket.gethostname()),
        maintenance=Maintenance(
            store,
            now,
            report_parked,
            report_nova_read,
            timedelta(days=conf.clustering.history_days),
            conf.clustering.max_history_per_project,
            parts.images.files,
        ),
        leases=parts.leases,
        pool=pool,
        local_batch=LARGE_BATCH if driver.is_instant else SMALL_BATCH,
        max_attempts=conf.worker.max_attempts,
        poll_interval_s=conf.worker.poll_interval_s,
    )


def _movers(parts: Parts, nova: NovaApi) -> Movers:
    options, store = parts.conf.nova, parts.store
    timeout = timedelta(seconds=options.move_timeout_s)
    nova_mover = NovaMover(store, nova, parts.clock, timeout, cold_migrate_running=options.cold_migrate_running)
    return Movers(store, OwnMover(store, parts.moves), nova_mover)


def fenced_hosts(conf: cfg.ConfigOpts, store: Store, now: Clock) -> FencedHosts:
    """Return the service behind `covey host fence`."""
    return FencedHosts(store, build_notifications(conf, now), _fencing(conf.agents, store), 2 * conf.agents.heartbeat_s)


def _fencing(options: cfg.ConfigOpts, store: Store) -> Fencing | None:
    if not options.fence_command:
        return None
    return Fencing(store, random_uuid, options.fence_command, options.fence_timeout_s)


def _requirements_of(servers: Servers) -> Callable[[Transaction, Server], HostRequirements]:
    def requirements(tx: Transaction, server: Server) -> HostRequirements:
        return servers.requirements_for(server.project_id, server.flavor, server.request, tx)

    return requirements
