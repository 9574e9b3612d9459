"""Agents, workers, services and libvirtd killed under load, on real hypervisors: afterwards rows and guests agree."""

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.acceptance import storm
from tests.acceptance.invariants import violations
from tests.acceptance.retries import client_thread
from tests.agreement import wait_for_agreement
from tests.budgets import operations
from tests.lab.cloud import PORT, Cloud, Killable
from tests.lab.hosts import Lab, wait_for
from tests.lab.witness import Witness

pytestmark = [
    pytest.mark.needs_program("libvirt"),
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"),
]

SECONDS = operations(120)
SETTLE_S = 180
DOWN_AFTER_S = 10
CLIENTS = 3
VCPUS = 8
FLAVORS = {"small": (1, 16, 1), "big": (2, 32, 2)}
SEED = int(os.environ.get("SEED", "17"))
MANY = 10_000


class GuestClient(storm.RandomClient):
    """A client that also stops and starts servers, and leaves hosts and groups alone."""

    def verbs(self) -> dict[Callable[[], None], int]:
        return {
            self.boot: 14,
            self.boot_several: 1,
            self.delete: 10,
            self.move: 32,
            self.confirm_or_revert: 14,
            self.shelve: 6,
            self.unshelve: 9,
            self.stop: 5,
            self.start: 9,
        }


@dataclass(frozen=True)
class _Patient:
    """Waits mostly until all hosts are up again, so that a slow machine has work under way, too."""

    killable: Killable
    cloud: Cloud
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 -- chance, not secrecy

    def kill(self) -> None:
        self.killable.kill()

    def start(self) -> None:
        self.killable.start()
        if self.rng.random() < 0.7:
            with suppress(TimeoutError):
                wait_for(self.cloud.is_up, 20, 0.3)


@pytest.fixture(params=["shared", "local"])
def cloud(request: pytest.FixtureRequest, lab: Lab, tmp_path: Path) -> Iterator[Cloud]:
    ratio = f"{(VCPUS + 0.1) / (os.cpu_count() or 1):.3f}"
    options = {"AGENT__CPU_ALLOCATION_RATIO": ratio, "AGENT__POWER_SYNC_S": "5"}
    running = Cloud(lab, tmp_path, request.param == "shared", DOWN_AFTER_S, storm.PROJECTS, options)
    fleet = storm.fleet_of(len(lab.hosts), VCPUS, f"hv[1-{len(lab.hosts)}]", FLAVORS)
    storm.apply_fleet_file(tmp_path, running.database, fleet)
    try:
        running.start()
        running.upload(lab.shared / "image.qcow2", storm.IMAGE)
        yield running
    finally:
        running.stop()
        for host in lab.hosts:
            for server in host.powers():
                host.remove(server)
        for root in running.roots.values():
            shutil.rmtree(root, ignore_errors=True)


def test_killed_agents_workers_services_and_libvirtd_leave_rows_and_hypervisors_in_agreement(cloud: Cloud) -> None:
    load_state, over = storm.LoadState(), threading.Event()
    cloud.sdk(lambda _: load_state.create_groups(*(cloud.connect([PORT], project) for project in storm.PROJECTS)))
    clients = [
        cloud.inside(client_thread(load_state, number, [PORT], over, SEED, cloud.connect, GuestClient))
        for number in range(CLIENTS)
    ]
    central, on_hosts = cloud.killable()[:2], cloud.killable()[2:]
    with ExitStack() as stack:
        witness = stack.enter_context(Witness(tuple(cloud.roots.values())))
        threading.Timer(SECONDS, over.set).start()
        killers = [
            storm.kill_at_random(central, MANY + SEED, (5, 20), over),
            storm.kill_at_random([_Patient(each, cloud) for each in on_hosts], MANY + SEED, (0, 3), over, (0, 1)),
        ]
        storm.run_concurrently([*clients, *killers], SECONDS + 2 * storm.TIMEOUT_S)
        rows = storm.connect(cloud.database)
        stack.callback(rows.dispose)
        storm.wait_until_idle(rows)
        wait_for(cloud.is_up, SETTLE_S)
        wait_for_agreement(cloud.disagreements, SETTLE_S)
        print(dict(sorted(load_state.counts.items())), "lines", witness.lines)  # noqa: T201
    assert witness.double_runs == []
    assert load_state.failures == []
    assert storm.lost_servers(rows, load_state) == []
    assert violations(rows, idle=True) == []
    assert storm.crashes(cloud.logs()) == []
    assert any(host.powers() for host in cloud.lab.hosts), "no guest is left"
    assert load_state.counts["unanswered"] > 0, "no request was interrupted"
    assert load_state.counts["live 202"] + load_state.counts["migrate 202"] > 0, "no server was moved"
