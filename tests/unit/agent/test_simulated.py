"""The simulated hypervisor keeps the promises of the port."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from covey.agent.hypervisor import Hypervisor, HypervisorFault, ObservedGuest, StaleEpoch
from covey.agent.simulated import Simulated
from covey.agent.simulated_world import World
from tests.simulated_guests import set_power
from tests.unit.agent.build import a_guest

VERBS: dict[str, Callable[[Hypervisor, int], None]] = {
    "spawn": lambda host, epoch: host.spawn(a_guest(), None, epoch),
    "destroy": lambda host, epoch: host.destroy("s1", epoch),
    "detach": lambda host, epoch: host.detach("s1", epoch),
    "power": lambda host, epoch: host.power("s1", "stop", epoch),
    "migrate": lambda host, epoch: host.migrate(a_guest(), "node-2", epoch, live=True),
}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def host(world: World) -> Simulated:
    return Simulated("node-1", world)


def test_it_is_a_hypervisor(host: Simulated) -> None:
    port: Hypervisor = host
    assert port.kind == "simulated"
    assert port.inventories() == {"VCPU": 16, "MEMORY_MB": 65536, "DISK_GB": 1000}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_may_be_repeated(host: Simulated, world: World, verb: str) -> None:
    host.spawn(a_guest(), None, 1)
    VERBS[verb](host, 2)
    state = world.read("SELECT host, server, power FROM guests"), world.read("SELECT boots FROM disks")
    VERBS[verb](host, 3)
    assert [list(map(tuple, rows)) for rows in state] == [
        list(map(tuple, world.read("SELECT host, server, power FROM guests"))),
        list(map(tuple, world.read("SELECT boots FROM disks"))),
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_older_epoch_does_nothing(host: Simulated, verb: str) -> None:
    host.spawn(a_guest(), None, 5)
    with pytest.raises(StaleEpoch):
        VERBS[verb](host, 4)
    assert host.observed() == [ObservedGuest("s1", "running", 5)]


def test_guest_keeps_the_epoch_of_its_last_verb(host: Simulated) -> None:
    host.spawn(a_guest(), None, 5)
    host.power("s1", "reboot", 6)
    assert host.observed() == [ObservedGuest("s1", "running", 6)]
    assert host.console_log("s1", None) == "s1 on node-1, boot 1\ns1 on node-1, boot 2\n"
    assert host.console_log("s1", 1) == "s1 on node-1, boot 2\n"


def test_server_that_should_be_shut_down_is_defined_and_not_started(host: Simulated) -> None:
    host.spawn(a_guest(power="shutdown"), None, 1)
    assert host.observed() == [ObservedGuest("s1", "shutdown", 1)]


def test_shelved_guest_finds_its_disk_again(host: Simulated, world: World) -> None:
    host.spawn(a_guest(), None, 1)
    host.detach("s1", 2)
    Simulated("node-2", world).spawn(a_guest(), None, 3)
    assert [tuple(row) for row in world.read("SELECT server, boots FROM disks")] == [("s1", 2)]


@pytest.mark.parametrize("shares_disks", [True, False])
@pytest.mark.parametrize("live", [True, False])
def test_migrated_guest_is_only_at_its_destination(world: World, live: bool, shares_disks: bool) -> None:
    source, destination = (Simulated(name, world, shares_disks=shares_disks) for name in ("node-1", "node-2"))
    source.spawn(a_guest(), None, 1)
    source.migrate(a_guest(), destination.address(), 2, live=live)
    assert source.observed() == []
    assert destination.observed() == [ObservedGuest("s1", "running", 2)]
    assert [row["boots"] for row in world.read("SELECT boots FROM disks")] == [1 if live else 2]
    assert world.read("SELECT * FROM double_runs") == []
    destination.destroy("s1", 3)
    assert world.read("SELECT * FROM disks") == []


def test_migration_can_be_watched_and_aborted(world: World) -> None:
    source = Simulated("node-1", world)
    source.spawn(a_guest(), None, 1)
    source.latency_s = 30
    outcome: list[HypervisorFault] = []

    def migrate() -> None:
        try:
            source.migrate(a_guest(), "node-2", 2, live=True)
        except HypervisorFault as fault:
            outcome.append(fault)

    thread = threading.Thread(target=migrate)
    thread.start()
    pause = threading.Event()
    while (progress := source.progress("s1")) is None:
        pause.wait(0.01)
    assert progress.total_bytes == 512 << 20
    assert progress.processed_bytes + progress.remaining_bytes == progress.total_bytes
    source.abort("s1")
    thread.join(10)
    assert "aborted" in outcome[0].message
    assert source.observed() == [ObservedGuest("s1", "running", 1)]
    assert source.progress("s1") is None


def test_guest_that_runs_twice_is_recorded(world: World) -> None:
    for name in ("node-1", "node-2"):
        Simulated(name, world).spawn(a_guest(), None, 1)
    assert [tuple(row) for row in world.read("SELECT * FROM double_runs")] == [("s1", "node-2", "node-1")]


def test_guests_outlive_the_process(tmp_path: Path) -> None:
    file = tmp_path / "world.sqlite"
    Simulated("node-1", World(file)).spawn(a_guest(), None, 7)
    assert Simulated("node-1", World(file)).observed() == [ObservedGuest("s1", "running", 7)]


def test_watcher_is_called_for_a_guest_that_another_process_crashed(tmp_path: Path) -> None:
    file = tmp_path / "world.sqlite"
    host, seen, changed = Simulated("node-1", World(file)), [], threading.Event()
    host.spawn(a_guest(), None, 1)

    def notice(server: str, power: str) -> None:
        seen.append((server, power))
        changed.set()

    host.watch(notice)
    while not host.world._seen:  # the first look has been taken
        changed.wait(0.01)
    set_power(World(file), "s1", "crashed")
    assert changed.wait(10)
    assert seen == [("s1", "crashed")]


def test_failures_are_reproducible(world: World) -> None:
    def outcomes(seed: int) -> list[bool]:
        host, found = Simulated(f"node-{seed}", world, failure_rate=0.5, seed=seed), []
        for number in range(20):
            try:
                host.spawn(a_guest(f"s{number}", power="shutdown"), None, 1)
            except HypervisorFault:
                found.append(False)
            else:
                found.append(True)
        return found

    assert outcomes(1) == outcomes(1)
    assert len(set(outcomes(1))) == 2
