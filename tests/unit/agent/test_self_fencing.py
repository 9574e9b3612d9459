"""A host that has lost the service stops its guests, and remembers which."""

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from covey.agent.hypervisor import HypervisorFault, ObservedGuest
from covey.agent.self_fencing import SelfFencing
from covey.agent.simulated import Simulated
from covey.agent.simulated_world import World
from covey.agent.state_directory import StateDirectory
from tests.simulated_guests import running
from tests.unit.agent.build import a_guest


class Clock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def __call__(self) -> float:
        return self.at_s


@pytest.fixture
def hypervisor() -> Simulated:
    simulated = Simulated("node-1", World())
    simulated.spawn(a_guest("s1"), None, 5)
    simulated.spawn(a_guest("s2", power="shutdown"), None, 5)
    return simulated


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path)


def test_guests_run_on_without_a_limit(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    fencing = SelfFencing(hypervisor, state, None, clock)
    clock.at_s += 1e6
    fencing.check()
    assert running(hypervisor.world) == {"s1": ["node-1"]}


def test_guests_stop_when_the_last_contact_is_too_long_ago(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    fencing = SelfFencing(hypervisor, state, 30, clock)
    clock.at_s += 20
    fencing.contact(110)  # the answer took 10 seconds; only the time before the request counts
    clock.at_s = 139.9
    fencing.check()
    assert running(hypervisor.world) == {"s1": ["node-1"]}
    clock.at_s = 140
    fencing.check()
    assert running(hypervisor.world) == {}
    assert fencing.is_engaged
    assert fencing.resumed() == {"s1"}


def test_guest_that_starts_after_the_fencing_is_stopped_too(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    fencing = SelfFencing(hypervisor, state, 30, clock)
    clock.at_s += 31
    fencing.check()
    hypervisor.spawn(a_guest("s3"), None, 6)
    fencing.check()
    assert running(hypervisor.world) == {}
    assert fencing.resumed() == {"s1", "s3"}


def test_guests_stop_although_the_disk_is_full(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    fencing = SelfFencing(hypervisor, state, 30, clock)
    (state.path / "fenced.json.partial").symlink_to("/dev/full")
    clock.at_s += 31
    fencing.check()
    assert running(hypervisor.world) == {}


def test_contact_alone_does_not_let_guests_run_again(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    fencing = SelfFencing(hypervisor, state, 30, clock)
    clock.at_s += 31
    fencing.check()
    fencing.contact(clock())
    hypervisor.power("s1", "start", 6)
    fencing.check()
    assert running(hypervisor.world) == {}
    fencing.release()
    hypervisor.power("s1", "start", 6)
    fencing.check()
    assert running(hypervisor.world) == {"s1": ["node-1"]}


def test_next_agent_has_the_last_contact_and_the_stopped_guests(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    SelfFencing(hypervisor, state, 30, clock).contact(100)
    clock.at_s += 31
    fencing = SelfFencing(hypervisor, state, 30, clock)
    fencing.check()
    assert running(hypervisor.world) == {}
    assert SelfFencing(hypervisor, state, 30, clock).resumed() == {"s1"}
    fencing.forget()
    assert SelfFencing(hypervisor, state, 30, clock).resumed() == frozenset()


def test_agent_that_leaves_in_agreement_leaves_no_contact(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    fencing = SelfFencing(hypervisor, state, 30, clock)
    fencing.contact(100)
    fencing.disarm()
    clock.at_s += 31
    fencing.check()
    SelfFencing(hypervisor, state, 30, clock).check()
    assert running(hypervisor.world) == {"s1": ["node-1"]}


class Stubborn(Simulated):
    """It does not stop one of its guests."""

    def power(self, server: str, verb: str, epoch: int) -> None:
        if server == "s1":
            raise HypervisorFault("It does not end.")
        super().power(server, verb, epoch)


class Immortal(Stubborn):
    """Nor does the guest end when its process is killed."""

    def kill(self, server: str) -> None:
        raise HypervisorFault(f"Process 1 of the guest {server} does not end.")


class Hanging(Simulated):
    """It does not answer, until it may."""

    may_answer: threading.Event

    def observed(self) -> list[ObservedGuest]:
        assert self.may_answer.wait(60)
        return super().observed()


def test_all_guests_are_stopped_even_if_one_fails(hypervisor: Simulated, state: StateDirectory) -> None:
    immortal, clock = Immortal("node-1", hypervisor.world), Clock()
    immortal.spawn(a_guest("s0"), None, 5)
    immortal.spawn(a_guest("s9"), None, 5)
    fencing = SelfFencing(immortal, state, 30, clock)
    clock.at_s += 31
    with pytest.raises(HypervisorFault, match="does not end"):
        fencing.check()
    assert running(hypervisor.world) == {"s1": ["node-1"]}


def test_guest_that_the_hypervisor_does_not_stop_is_killed(hypervisor: Simulated, state: StateDirectory) -> None:
    stubborn, clock = Stubborn("node-1", hypervisor.world), Clock()
    fencing = SelfFencing(stubborn, state, 30, clock)
    clock.at_s += 31
    with pytest.raises(HypervisorFault, match="does not end"):  # so it is tried again
        fencing.check()
    assert running(hypervisor.world) == {}
    fencing.check()
    assert fencing.resumed() == {"s1"}


def test_guests_of_a_hypervisor_that_hangs_are_killed(hypervisor: Simulated, state: StateDirectory) -> None:
    hanging, clock = Hanging("node-1", hypervisor.world), Clock()
    hanging.may_answer = threading.Event()
    fencing = SelfFencing(hanging, state, 30, clock)
    clock.at_s += 31
    with pytest.raises(HypervisorFault, match="does not answer"):
        fencing.check()
    assert running(hypervisor.world) == {}
    assert fencing.resumed() == {"s1"}
    with pytest.raises(HypervisorFault, match="still stops guests"):
        fencing.release()
    hanging.may_answer.set()
    while fencing.is_engaged:
        with suppress(HypervisorFault):
            fencing.release()
    assert not fencing.is_engaged


def test_guardian_stops_no_guest_once_the_agent_has_contact_again(hypervisor: Simulated, state: StateDirectory) -> None:
    clock = Clock()
    fencing = SelfFencing(hypervisor, state, 30, clock, is_over=lambda: False)
    clock.at_s += 31
    fencing.check()
    assert running(hypervisor.world) == {"s1": ["node-1"]}
    assert fencing.resumed() == set()
