"""The path from a claim to the hypervisor: each step is done once, by the holder of the lease."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from covey import clock_and_ids
from covey.assembly import Assembled
from covey.model.errors import LeaseLost
from covey.model.servers import Server
from covey.model.work import Job, JobKind
from covey.services.call_pool import CallPool
from covey.services.leases import FencedDriver, Leases
from covey.storage import tables
from covey.worker import Worker
from tests.functional.agents import BACKEND, agent_of
from tests.functional.fleets import BuildCloud, Cloud

LIVE = {"host": None, "block_migration": "auto"}
TIMEOUT_S = 20


@dataclass
class Hypervisors:
    """What runs where. Each host rejects leases that are older than one that it has seen. A step may be held up."""

    step_s: float = 0.0
    runs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    calls: Counter[str] = field(default_factory=Counter)
    most_at_once: Counter[str] = field(default_factory=Counter)
    held: str | None = None  # the next call of this verb waits for the gate
    gate: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    is_instant: bool = False
    _at_once: Counter[str] = field(default_factory=Counter)
    _epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spawn(self, server: Server, host: str, epoch: int) -> None:
        self._step("spawn", server, epoch, host)
        self.runs[host].add(server.id)

    def destroy(self, server: Server, host: str, epoch: int) -> None:
        self._step("destroy", server, epoch, host)
        self.runs[host].discard(server.id)

    def detach(self, server: Server, host: str, epoch: int) -> None:
        self._step("detach", server, epoch, host)
        self.runs[host].discard(server.id)

    def move(self, server: Server, source: str, destination: str, epoch: int, *, live: bool) -> None:  # noqa: ARG002
        self._step("move", server, epoch, source, destination)
        self.runs[source].discard(server.id)
        self.runs[destination].add(server.id)

    def abort(self, server: Server, source: str, destination: str, epoch: int) -> bool:
        self._step("abort", server, epoch, source, destination)
        return True

    def console_log(self, server: Server, host: str, lines: int | None) -> str:  # noqa: ARG002
        return ""

    def evacuate(self, server: Server, source: str, destination: str, epoch: int) -> None:  # noqa: ARG002
        self._step("evacuate", server, epoch, destination)
        self.runs[destination].add(server.id)

    def power(self, server: Server, host: str, verb: str, epoch: int) -> None:
        self._step(verb, server, epoch, host)

    def hosts_of(self, server: str) -> list[str]:
        return sorted(host for host, servers in self.runs.items() if server in servers)

    def _step(self, verb: str, server: Server, epoch: int, *hosts: str) -> None:
        if verb == self.held:
            self.held = None
            self.begun.set()
            assert self.gate.wait(TIMEOUT_S)
        with self._lock:
            for host in hosts:
                if self._epochs.get((host, server.id), 0) > epoch:
                    raise LeaseLost(server.id, epoch)
                self._epochs[host, server.id] = epoch
            self.calls[server.id] += 1
            self._at_once[hosts[0]] += 1
            self.most_at_once[hosts[0]] = max(self.most_at_once[hosts[0]], self._at_once[hosts[0]])
        time.sleep(self.step_s)
        with self._lock:
            self._at_once[hosts[0]] -= 1


def a_process(cloud: Cloud, driver: Hypervisors, lease_s: float = 30.0, calls_per_host: int = 4) -> Assembled:
    """Return another process of the cloud, with a driver behind its leases."""
    leases, pool = Leases(cloud.store, lease_s), CallPool(8)
    fenced, made = FencedDriver(driver, leases, calls_per_host), cloud.assembled
    return replace(
        made,
        leases=leases,
        pool=pool,
        builds=replace(made.builds, driver=fenced, pool=pool),
        server_tasks=replace(made.server_tasks, driver=fenced),
    )


@pytest.mark.parametrize("action", ["unshelve", "os-migrateLive", "migrate"])
def test_server_deleted_during_a_step_does_not_run_on(cloud: Cloud, action: str) -> None:
    driver = Hypervisors()
    one, two = a_process(cloud, driver).worker(), a_process(cloud, driver).worker()
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    one.run_once()
    if action == "unshelve":
        cloud.act(cloud.admin, server, "shelve", None)
        one.run_once()
    cloud.act(cloud.admin, server, action, LIVE if action == "os-migrateLive" else None)
    driver.held = "spawn" if action == "unshelve" else "move"
    slow = threading.Thread(target=one.run_once)
    slow.start()
    assert driver.begun.wait(TIMEOUT_S)
    assert cloud.alice.delete(f"/servers/{server}").status == 204
    assert two.run_once() == 0, "the server's other job is still carried out"
    driver.gate.set()
    slow.join(TIMEOUT_S)
    two.run_once()
    assert cloud.is_empty()
    assert driver.hosts_of(server) == []


def test_worker_that_is_frozen_past_its_lease_does_no_harm(cloud: Cloud) -> None:
    driver = Hypervisors()
    one, two = a_process(cloud, driver).worker(), a_process(cloud, driver).worker()
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    one.run_once()
    cloud.act(cloud.alice, server, "shelve", None)
    driver.held = "detach"
    frozen = threading.Thread(target=one.run_once)
    frozen.start()
    assert driver.begun.wait(TIMEOUT_S)
    cloud.time.advance(31)
    assert two.run_once() == 1
    cloud.act(cloud.alice, server, "unshelve", None)
    assert two.run_once() == 1
    assert (cloud.status(server), len(driver.hosts_of(server))) == ("ACTIVE", 1)
    driver.gate.set()
    frozen.join(TIMEOUT_S)
    assert (cloud.status(server), len(driver.hosts_of(server))) == ("ACTIVE", 1)
    assert cloud.jobs() == []


def test_steps_that_last_longer_than_a_lease_are_done_once(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3, ("quota", "instances", -1))
    cloud.store.clock = None  # leases end by the database's clock
    driver, stopped = Hypervisors(step_s=0.4), threading.Event()
    for _ in range(4):
        cloud.request_server(cloud.alice, min_count=4, max_count=4)
    processes = [a_process(cloud, driver, lease_s=1.5, calls_per_host=1) for _ in range(3)]

    def work(process: Assembled) -> None:
        while not stopped.is_set():
            process.worker().run_once()

    with ThreadPoolExecutor(3) as threads:
        for process in processes:
            process.leases.start()
        running = [threads.submit(work, process) for process in processes]
        deadline = time.monotonic() + TIMEOUT_S
        while cloud.rows(tables.work) and time.monotonic() < deadline:
            time.sleep(0.1)
        stopped.set()
    for each in running:
        each.result()
    assert len(driver.calls) == 16
    assert set(driver.calls.values()) == {1}
    assert max(driver.most_at_once.values()) <= 3, "each of three processes makes one call at a time for a host"


def test_driver_is_not_called_without_a_lease(cloud: Cloud) -> None:
    driver = Hypervisors()
    process = a_process(cloud, driver, lease_s=0.05)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    with cloud.store.write() as tx:
        jobs = tx.work.take(30, 16)
    assert [(job.kind, job.subject_id) for job in jobs] == [(JobKind.SPAWN, server)]
    process.builds.spawn(jobs)
    assert driver.calls == {}, "it holds no lease"
    with process.leases.held(jobs, time.monotonic()):
        time.sleep(0.1)
        process.builds.spawn(jobs)
        assert driver.calls == {}, "its lease has ended"
    process.leases.lease_s = 30.0
    with process.leases.held(jobs, time.monotonic() - 31):
        process.leases.renew()
        process.builds.spawn(jobs)
    assert driver.calls == {server: 1}
    assert cloud.status(server) == "ACTIVE"


def test_lease_that_another_worker_has_taken_is_not_renewed(cloud: Cloud) -> None:
    driver = Hypervisors()
    process = a_process(cloud, driver)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    with cloud.store.write() as tx:
        late = tx.work.take(0, 16)
    with process.leases.held(late, time.monotonic()):
        with cloud.store.write() as tx:
            (current,) = tx.work.take(30, 16)
        process.leases.renew()
        process.builds.spawn(late)
    assert driver.calls == {}
    assert current == Job(JobKind.SPAWN, server, {}, current.epoch, attempts=2)


@pytest.mark.parametrize(("options", "at_once"), [((), 40), ((("driver", "latency_s", 0.001),), 32), ((BACKEND,), 32)])
def test_worker_holds_few_leases_at_once_unless_servers_start_at_once(
    build_cloud: BuildCloud, options: tuple[tuple[str, str, object], ...], at_once: int
) -> None:
    cloud = build_cloud(5, *options)
    cloud.assembled.local_queue.workers = 1
    for number in range(1, 6):
        if BACKEND in options:
            agent_of(cloud, f"node-{number}").start()
    cloud.set_quota(instances=-1, cores=-1, ram=-1)
    assert cloud.request_server(cloud.alice, min_count=40).status == 202
    worker, held = cloud.assembled.worker(), []

    def start(servers: Sequence[object]) -> None:
        held.append(len(servers))

    worker.start_servers = start
    worker._start_local()
    assert held == [at_once]


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(hours=-1)])
def test_clocks_of_workers_may_differ(build_cloud: BuildCloud, ahead: timedelta) -> None:
    """Leases go by the database's clock. No job is taken twice, whichever clock is ahead."""
    cloud, driver = build_cloud(4), Hypervisors(held="spawn")
    cloud.store.clock = None

    def worker(time_ahead: timedelta) -> Worker:
        made = a_process(cloud, driver)

        def clock() -> datetime:
            return clock_and_ids.now() + time_ahead

        builds, tasks = replace(made.builds, clock=clock), replace(made.server_tasks, clock=clock)
        return replace(made, clock=clock, builds=builds, server_tasks=tasks).worker()

    one, two = worker(timedelta()), worker(ahead)
    servers = [cloud.request_server(cloud.alice).json["server"]["id"] for _ in range(8)]
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(one.run_once)
        assert driver.begun.wait(TIMEOUT_S)
        assert two.run_once() == 0
        driver.gate.set()
        assert working.result(TIMEOUT_S) == 8
    assert (one.run_once(), two.run_once()) == (0, 0)
    assert driver.calls == dict.fromkeys(servers, 1)
    assert {cloud.status(server) for server in servers} == {"ACTIVE"}
