"""What an agent tells the service of its guests' power."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from covey.agent import power_reports
from covey.agent.hypervisor import ObservedGuest
from covey.agent.power_reports import PowerReports
from covey.agent.service_api import ExpectedServer, PowerEvent, ServiceApi
from covey.agent.simulated import Simulated
from covey.agent.simulated_world import World
from covey.agent.transport import PlainTransport, ServiceUnavailable
from tests.simulated_guests import set_power
from tests.unit.agent.build import a_guest, expected


@dataclass(frozen=True, slots=True)
class Recorder(ServiceApi):
    """Keeps the events; the service does not answer while `is_away` has an entry."""

    sent: list[PowerEvent] = field(default_factory=list)
    is_away: list[bool] = field(default_factory=list)
    rows: list[ExpectedServer] = field(default_factory=list)

    def servers(self) -> tuple[ExpectedServer, ...]:
        return tuple(self.rows)

    def events(self, events: Sequence[PowerEvent]) -> None:
        if self.is_away:
            raise ServiceUnavailable("away")
        self.sent.extend(events)


@dataclass
class Host:
    """A host with one running guest, and its reports."""

    hypervisor: Simulated
    service: Recorder
    reports: PowerReports
    busy: set[str]
    fenced: set[str]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(power_reports, "_AFTER_S", (0.0, 0.0))  # one repetition, at once
    hypervisor, busy, fenced = Simulated("node-1", World()), set[str](), set[str]()
    hypervisor.spawn(a_guest("s1"), None, 5)
    service = Recorder(PlainTransport("http://127.0.0.1:1"), "node-1")

    @contextmanager
    def holding(server: str) -> Iterator[bool]:
        free = server not in busy
        busy.add(server)
        try:
            yield free
        finally:
            if free:
                busy.discard(server)

    reports = PowerReports(service, hypervisor, holding, lambda: None, lambda: fenced)
    return Host(hypervisor, service, reports, busy, fenced)


def test_changed_guest_is_reported_and_repeated_with_its_epoch(host: Host) -> None:
    set_power(host.hypervisor.world, "s1", "crashed")
    host.reports.changed("s1", "crashed")
    for _ in range(4):
        host.reports.send()
    assert host.service.sent == [PowerEvent("s1", "crashed", 5)] * 2


def test_event_has_the_power_at_the_time_of_the_event(host: Host) -> None:
    host.reports.changed("s1", "shutdown")  # it has been started again since
    host.reports.send()
    assert host.service.sent == [PowerEvent("s1", "running", 5)]


def test_guest_with_a_running_call_is_reported_after_it(host: Host) -> None:
    host.reports.changed("s1", "shutdown")
    host.busy.add("s1")
    host.reports.send()
    assert host.service.sent == []
    host.busy.clear()
    host.reports.send()
    assert len(host.service.sent) == 1


def test_guest_that_self_fencing_stopped_is_not_reported_until_it_is_reconciled(host: Host) -> None:
    """A request under way when the network fails arrives when it is back, before the agent reconciles."""
    host.fenced.add("s1")
    host.hypervisor.power("s1", "stop_hard", 5)
    host.reports.changed("s1", "shutdown")
    host.reports.send()
    assert host.service.sent == []
    host.fenced.clear()  # it could not be started again
    host.reports.send()
    assert host.service.sent == [PowerEvent("s1", "shutdown", 5)]


def test_event_that_could_not_be_sent_is_sent_later(host: Host) -> None:
    host.reports.changed("s1", "shutdown")
    host.service.is_away.append(True)
    with pytest.raises(ServiceUnavailable):
        host.reports.send()
    host.service.is_away.clear()
    host.reports.send()
    assert len(host.service.sent) == 1


def test_guest_that_left_the_host_is_not_reported(host: Host) -> None:
    host.reports.changed("s1", "shutdown")
    host.hypervisor.destroy("s1", 6)
    host.reports.send()
    assert host.service.sent == []


def test_missing_guest_is_reported_as_shut_down(host: Host) -> None:
    host.reports.changed("s2", "shutdown", is_missing=True)
    host.reports.send()
    assert host.service.sent == [PowerEvent("s2", "shutdown", 0)]


def test_lost_event_is_found_by_comparison(host: Host) -> None:
    host.reports.observe()
    host.reports.send()
    assert host.service.sent == []
    set_power(host.hypervisor.world, "s1", "shutdown")
    host.reports.observe()
    host.reports.send()
    assert host.service.sent == [PowerEvent("s1", "shutdown", 5)]


def test_event_that_comes_during_a_comparison_is_not_undone_by_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.reports.observe()
    older = host.hypervisor.observed()

    def observed() -> list[ObservedGuest]:
        set_power(host.hypervisor.world, "s1", "crashed")
        host.reports.changed("s1", "crashed")
        return older

    with monkeypatch.context() as patched:
        patched.setattr(Simulated, "observed", lambda _: observed())
        host.reports.observe()
    assert host.reports._known == {"s1": "crashed"}


def test_event_is_repeated_until_the_row_of_the_service_agrees(host: Host) -> None:
    def sent_after_confirmation(*rows: ExpectedServer) -> int:
        """Return how many events the service gets once all of the first ones are sent."""
        host.service.rows[:] = rows
        host.service.sent.clear()
        host.reports.confirm(host.hypervisor.observed())
        for _ in range(4):
            host.reports.send()
        return len(host.service.sent)

    set_power(host.hypervisor.world, "s1", "crashed")
    host.reports.changed("s1", "crashed")
    for _ in range(4):
        host.reports.send()
    assert sent_after_confirmation(expected(task="rebooting")) == 0  # it is asked again later
    assert sent_after_confirmation(expected()) == 2
    assert sent_after_confirmation(expected()) == 2
    assert sent_after_confirmation(expected(power="shutdown")) == 0
    assert sent_after_confirmation(expected()) == 0  # the row has agreed; from now on it is the service's


def test_no_call_of_a_server_runs_while_its_power_is_reported(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []
    monkeypatch.setattr(Recorder, "events", lambda *_: held.append("s1" in host.busy))
    host.reports.changed("s1", "shutdown")
    host.reports.send()
    assert held == [True]
    assert host.busy == set()
