"""Agents that die, come back, are refused, or lose the service."""

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import pytest
import yaml

from covey.agent.guests import Guest
from covey.agent.hypervisor import HypervisorFault, HypervisorLost, ObservedGuest, OutcomeUnknown
from covey.agent.image_cache import ImageCache
from covey.agent.lifecycle import Agent, AgentSettings
from covey.agent.self_fencing import SelfFencing
from covey.agent.service_api import ServiceApi
from covey.agent.simulated import Simulated
from covey.agent.state_directory import StateDirectory
from covey.agent.transport import PlainTransport
from tests.agent_lab import AgentLab, AgentProcess, wait_until
from tests.databases import SQLite
from tests.simulated_guests import power_off, running, set_power

pytestmark = pytest.mark.usefixtures("warm")

BuildLab = Callable[..., AgentLab]
_NUMBERS = (f"node-{number}" for number in itertools.count(1))


@pytest.fixture
def build_lab(sqlite_server: SQLite, tmp_path: Path) -> Iterator[BuildLab]:
    """Builds a lab and starts its service; variables are GROUP__OPTION of the service."""
    built: list[AgentLab] = []

    def build(*, prepared: bool = True, **variables: str) -> AgentLab:
        lab = AgentLab(tmp_path, database, {f"OS_{name}": value for name, value in variables.items()})
        built.append(lab)
        lab.service.start()
        if prepared:
            lab.prepare()
        return lab

    with sqlite_server.fresh(tmp_path) as database:
        try:
            yield build
        finally:
            for lab in built:
                lab.close()


@pytest.fixture(scope="module")
def shared_lab(sqlite_server: SQLite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentLab]:
    directory = tmp_path_factory.mktemp("agents")
    with sqlite_server.fresh(directory) as database:
        lab = AgentLab(directory, database)
        try:
            lab.service.start()
            lab.prepare()
            yield lab
        finally:
            lab.close()


@pytest.fixture
def lab(shared_lab: AgentLab) -> Iterator[AgentLab]:
    """A service that other tests use, too, each with hosts of its own."""
    yield shared_lab
    shared_lab.leave()


@pytest.fixture
def host() -> str:
    """The name of a host that no other test uses."""
    return f"{next(_NUMBERS)}-a"


@pytest.fixture
def other(host: str) -> str:
    """The name of a second host."""
    return host.replace("-a", "-b")


def test_killed_agent_finishes_its_spawn_when_it_is_back(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host, latency_s=1.0)
    server = lab.boot("s", host)
    agent.wait_for("call.started")
    agent.kill()
    assert server not in running(lab.world)
    agent.start()
    lab.wait_for(server, "ACTIVE")
    lab.wait_for_agreement()


def test_server_deleted_while_its_agent_was_killed_in_the_spawn_leaves_nothing(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host, latency_s=1.0)
    server = lab.boot("s", host)
    agent.wait_for("call.started")
    agent.kill()
    lab.delete(server)
    agent.start()
    lab.wait_until_gone(server)
    lab.wait_for_agreement()


def test_spawn_that_takes_longer_than_its_lease_is_carried_out_once(build_lab: BuildLab) -> None:
    lab = build_lab(AGENTS__CALL_LEASE_S="8", WORKER__LEASE_S="8")  # renewed in time by a starved agent, too
    (agent,) = lab.started("node-1", latency_s=11.0)
    lab.booted("s", "node-1")
    assert agent.log.count("call.started") == 1


@pytest.mark.parametrize("live", [True, False])
def test_agent_killed_in_a_migration_leaves_the_guest_in_one_place(
    lab: AgentLab, host: str, other: str, live: bool
) -> None:
    source, _ = lab.started(host, other, latency_s=1.0)
    server = lab.booted("s", host)
    if live:
        lab.act(server, "os-migrateLive", host=other, block_migration="auto")
    else:
        lab.act(server, "migrate", host=other)
    source.wait_for('"verb":"migrate"')
    source.kill()
    source.start()
    lab.wait_for(server, "ACTIVE" if live else "VERIFY_RESIZE")
    lab.wait_for_agreement()


def test_migration_shows_its_progress_and_can_be_aborted(lab: AgentLab, host: str, other: str) -> None:
    source, _ = lab.started(host, other, latency_s=0.0)
    server = lab.booted("s", host)
    source.stop()
    source = lab.agent(host, latency_s=60.0)
    source.start()
    source.wait_for("agent.up", 2)
    lab.act(server, "os-migrateLive", host=other, block_migration="auto")
    path = f"/compute/v2.1/servers/{server}/migrations"
    wait_until(
        lambda: any(each["memory_processed_bytes"] for each in lab.ask("GET", path)["migrations"]), "progress is shown"
    )
    (migration,) = lab.ask("GET", path)["migrations"]
    assert migration["memory_total_bytes"] == 512 << 20
    lab.ask("DELETE", f"{path}/{migration['id']}")
    lab.wait_for(server, "ACTIVE")
    assert lab.host_of(server) == host
    lab.wait_for_agreement()


def test_host_goes_down_without_heartbeats_and_up_with_its_agent(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host)
    wait_until(lambda: lab.service_state(host) == "up", "the host is up")
    agent.kill()
    wait_until(lambda: lab.service_state(host) == "down", "the host is down")
    agent.start()
    wait_until(lambda: lab.service_state(host) == "up", "the host is up again")


def test_host_that_was_evacuated_removes_its_orphans_when_it_is_back(lab: AgentLab, host: str, other: str) -> None:
    agent, _ = lab.started(host, other)
    moved, deleted = lab.booted("moved", host), lab.booted("deleted", host)
    agent.kill()
    power_off(lab.world, host)
    wait_until(lambda: lab.service_state(host) == "down", "the host is down")
    services = lab.ask("GET", f"/compute/v2.1/os-services?host={host}")["services"]
    lab.ask("PUT", f"/compute/v2.1/os-services/{services[0]['id']}", {"forced_down": True})
    lab.act(moved, "evacuate", host=other)
    lab.wait_for(moved, "ACTIVE")
    lab.delete(deleted)
    lab.wait_until_gone(deleted)
    assert [row["host"] for row in lab.world.read("SELECT host FROM guests WHERE server = ?", deleted)] == [host]
    lab.ask("PUT", f"/compute/v2.1/os-services/{services[0]['id']}", {"forced_down": False})
    agent.start()
    agent.wait_for("agent.up", 2)
    lab.wait_for_agreement()
    assert running(lab.world)[moved] == [other]


def test_server_deleted_while_it_was_shelved_on_a_dead_host_leaves_no_disk(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host)
    server = lab.booted("s", host)
    lab.act(server, "shelve")
    lab.wait_for(server, "SHELVED_OFFLOADED")
    agent.kill()
    wait_until(lambda: lab.service_state(host) == "down", "the host is down")
    lab.delete(server)
    lab.wait_until_gone(server)
    assert lab.world.read("SELECT 1 FROM disks WHERE server = ?", server) != []
    agent.start()
    lab.wait_for_agreement()


def shelved_on_the_first_of_two_hosts_with_local_disks(lab: AgentLab) -> str:
    """Return a server that is shelved, and whose host takes no servers any more."""
    lab.started("node-1", "node-2", SIMULATED_HYPERVISOR__SHARED_DISKS="false", AGENT__POWER_SYNC_S="1")
    server = lab.booted("s", "node-1")
    lab.act(server, "shelve")
    lab.wait_for(server, "SHELVED_OFFLOADED")
    (service,) = lab.ask("GET", "/compute/v2.1/os-services?host=node-1")["services"]
    lab.ask("PUT", f"/compute/v2.1/os-services/{service['id']}", {"status": "disabled"})
    return server


def test_server_that_is_unshelved_on_another_host_has_its_local_disk(build_lab: BuildLab) -> None:
    lab = build_lab()
    server = shelved_on_the_first_of_two_hosts_with_local_disks(lab)
    lab.act(server, "unshelve")
    lab.wait_for(server, "ACTIVE")
    disks = "SELECT host, boots FROM disks"
    wait_until(
        lambda: [tuple(row) for row in lab.world.read(disks)] == [("node-2", 2)], "it has its disk on node-2 only"
    )
    lab.wait_for_agreement()


def test_server_whose_data_is_lost_stays_shelved(build_lab: BuildLab) -> None:
    lab = build_lab()
    server = shelved_on_the_first_of_two_hosts_with_local_disks(lab)
    with lab.world.transaction() as connection:
        connection.execute("DELETE FROM disks")
    lab.act(server, "unshelve")
    lab.agents["node-2"].wait_for("node-1 has no data of server")
    lab.wait_for(server, "SHELVED_OFFLOADED")
    assert running(lab.world) == {}
    assert lab.world.read("SELECT 1 FROM disks") == []


@pytest.mark.parametrize("resume", [True, False])
def test_guests_of_a_rebooted_host_start_again_if_the_operator_wants_it(lab: AgentLab, host: str, resume: bool) -> None:
    (agent,) = lab.started(host, AGENT__RESUME_GUESTS_STATE_ON_HOST_BOOT=str(resume))
    server, stopped = lab.booted("s", host), lab.booted("stopped", host)
    lab.act(stopped, "os-stop")
    lab.wait_for(stopped, "SHUTOFF")
    agent.kill()
    power_off(lab.world, host)
    agent.start()
    agent.wait_for("agent.up", 2)
    lab.wait_for(server, "ACTIVE" if resume else "SHUTOFF")
    assert running(lab.world).get(server) == ([host] if resume else None)
    lab.wait_for_agreement()


def test_guest_whose_definition_is_lost_becomes_shutoff_and_starts_from_its_disk(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host)
    server = lab.booted("s", host)
    agent.kill()
    with lab.world.transaction() as connection:
        connection.execute("DELETE FROM guests WHERE server = ?", (server,))
    agent.start()
    lab.wait_for(server, "SHUTOFF")
    lab.act(server, "os-start")
    lab.wait_for(server, "ACTIVE")
    (disk,) = lab.world.read("SELECT boots FROM disks WHERE server = ?", server)
    assert disk["boots"] == 2
    lab.wait_for_agreement()


class Unreliable(Simulated):
    """A hypervisor that goes away for a while."""

    is_away = False

    def settle(self) -> None:
        self._fail_if_away()

    def observed(self) -> list[ObservedGuest]:
        self._fail_if_away()
        return super().observed()

    def inventories(self) -> dict[str, int]:
        self._fail_if_away()
        return super().inventories()

    def _fail_if_away(self) -> None:
        if self.is_away:
            raise HypervisorFault("The hypervisor does not answer.")


@contextmanager
def running_agent(lab: AgentLab, hypervisor: Simulated, directory: Path) -> Iterator[None]:
    """Run an agent in this process, from the time at which its host is up."""
    host, stopping = hypervisor.host, threading.Event()
    headers = {"X-Auth-Token": f"agent-{host}:service", "X-Roles": "service"}
    service = ServiceApi(PlainTransport(lab.url, headers), host)
    images = ImageCache(directory, service.image, hypervisor.images_in_use, 1 << 30)
    fencing = SelfFencing(hypervisor, StateDirectory(directory), None)
    agent = Agent(service, hypervisor, images, fencing, AgentSettings("1", power_sync_s=0.1), stopping)
    thread = threading.Thread(target=agent.run)
    thread.start()
    try:
        wait_until(lambda: lab.service_state(host) == "up", "the host is up")
        yield
    finally:
        stopping.set()
        thread.join(30)
    assert not thread.is_alive()


def test_host_without_its_hypervisor_takes_no_servers_until_it_is_reconciled(
    lab: AgentLab, host: str, tmp_path: Path
) -> None:
    hypervisor = Unreliable(host, lab.world)
    with running_agent(lab, hypervisor, tmp_path):
        server = lab.booted("s", host)
        hypervisor.is_away = True
        wait_until(lambda: lab.service_state(host) == "down", "the host takes no servers")
        set_power(lab.world, server, "crashed")
        hypervisor.is_away = False
        wait_until(lambda: lab.service_state(host) == "up", "the host is up again")
        lab.wait_for(server, "SHUTOFF")


class Lost(Simulated):
    """A hypervisor that carries out each verb, and goes away before it answers the first time."""

    lost: type[OutcomeUnknown] | None = None

    def spawn(self, guest: Guest, image: Path | None, epoch: int) -> None:
        super().spawn(guest, image, epoch)
        self._lose()

    def migrate(self, guest: Guest, address: str, epoch: int, *, live: bool, fenced: bool = False) -> None:
        super().migrate(guest, address, epoch, live=live, fenced=fenced)
        self._lose()

    def detach(self, server: str, epoch: int) -> None:
        super().detach(server, epoch)
        self._lose()

    def _lose(self) -> None:
        kind, self.lost = self.lost, None
        if kind is not None:
            raise kind("The hypervisor went away.")


def test_spawn_whose_hypervisor_goes_away_is_repeated_on_its_host(lab: AgentLab, host: str, tmp_path: Path) -> None:
    hypervisor = Lost(host, lab.world)
    hypervisor.lost = HypervisorLost
    with running_agent(lab, hypervisor, tmp_path):
        server = lab.booted("s", host)
        (disk,) = lab.world.read("SELECT boots FROM disks WHERE server = ?", server)
        assert disk["boots"] == 1
        lab.wait_for_agreement()


@pytest.mark.parametrize("lost", [HypervisorLost, OutcomeUnknown])
def test_move_whose_outcome_is_unknown_has_not_failed(
    lab: AgentLab, host: str, other: str, tmp_path: Path, lost: type[OutcomeUnknown]
) -> None:
    hypervisor = Lost(host, lab.world)
    lab.started(other)
    with running_agent(lab, hypervisor, tmp_path):
        server = lab.booted("s", host)
        hypervisor.lost = lost
        lab.act(server, "os-migrateLive", host=other, block_migration="auto")
        lab.wait_for(server, "ACTIVE")
        assert lab.host_of(server) == other
        lab.wait_for_agreement()


def test_shelve_whose_hypervisor_goes_away_has_not_failed(lab: AgentLab, host: str, tmp_path: Path) -> None:
    hypervisor = Lost(host, lab.world)
    with running_agent(lab, hypervisor, tmp_path):
        server = lab.booted("s", host)
        hypervisor.lost = HypervisorLost
        lab.act(server, "shelve")
        lab.wait_for(server, "SHELVED_OFFLOADED")
        lab.wait_for_agreement()


def test_what_an_operation_has_left_on_another_host_is_removed_while_the_agent_is_up(
    lab: AgentLab, host: str, other: str, tmp_path: Path
) -> None:
    lab.started(host)
    with running_agent(lab, Simulated(other, lab.world), tmp_path):
        server, own = lab.booted("s", host), lab.booted("own", other)
        with lab.world.transaction() as connection:
            orphan = "INSERT INTO guests VALUES (?, ?, 'shutdown', 1, 1, 512, NULL)"
            connection.execute(orphan, (other, server))
        left = "SELECT server FROM guests WHERE host = ?"
        wait_until(lambda: [row["server"] for row in lab.world.read(left, other)] == [own], "the orphan is removed")
        assert (running(lab.world)[server], running(lab.world)[own]) == ([host], [other])


class Watched(Simulated):
    """A hypervisor that counts how often it was asked for its guests."""

    looks = 0

    def observed(self) -> list[ObservedGuest]:
        self.looks += 1
        return super().observed()


def test_host_that_was_forced_down_and_evacuated_while_it_reported_ends_its_guests(
    lab: AgentLab, host: str, other: str, tmp_path: Path
) -> None:
    lab.started(other)
    hypervisor = Watched(host, lab.world)
    with running_agent(lab, hypervisor, tmp_path):
        server, stays = lab.booted("s", host), lab.booted("stays", host)
        settled = hypervisor.looks + 4
        wait_until(lambda: hypervisor.looks > settled, "the agent has seen that the guests belong here")
        (service,) = lab.ask("GET", f"/compute/v2.1/os-services?host={host}")["services"]
        lab.ask("PUT", f"/compute/v2.1/os-services/{service['id']}", {"forced_down": True})
        lab.act(server, "evacuate", host=other)
        lab.wait_for(server, "ACTIVE")
        wait_until(lambda: running(lab.world)[server] == [other], "the guest runs on the other host only")
        assert running(lab.world)[stays] == [host]
        lab.ask("PUT", f"/compute/v2.1/os-services/{service['id']}", {"forced_down": False})


def test_agent_works_on_after_the_service_was_away(build_lab: BuildLab) -> None:
    lab = build_lab()
    (agent,) = lab.started("node-1")
    first = lab.booted("first", "node-1")
    lab.service.kill()
    agent.wait_for("agent.no_contact", 3)
    assert running(lab.world) == {first: ["node-1"]}
    lab.service.start()
    wait_until(lambda: lab.service_state("node-1") == "up", "node-1 is up again")
    lab.booted("second", "node-1")
    lab.wait_for_agreement()


def test_agent_waits_for_a_service_that_is_not_there_yet(build_lab: BuildLab) -> None:
    lab = build_lab()
    lab.service.kill()
    agent = lab.agent("node-1")
    agent.start()
    agent.wait_for("agent.waits_for_service", 2)
    lab.service.start()
    agent.wait_for("agent.up")


def test_second_agent_of_a_host_is_refused(lab: AgentLab, host: str) -> None:
    (first,) = lab.started(host)
    second = lab.agent(host)
    second.start()
    assert second.exit_status() == 1
    assert first.process is not None
    assert f"Another agent of this host runs already (process {first.process.pid})" in second.log
    first.kill()


def test_wrong_credentials_and_hosts_of_other_users_are_refused(build_lab: BuildLab, tmp_path: Path) -> None:
    users = [
        {
            "name": name,
            "password_hash": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode(),
            "project": "service",
            "roles": roles,
        }
        for name, roles in (("first", ["service"]), ("second", ["service"]), ("reader", ["reader"]))
    ]
    file = tmp_path / "users.yaml"
    file.write_text(yaml.safe_dump({"projects": [{"id": "service", "name": "service"}], "users": users}))
    lab = build_lab(prepared=False, API__AUTH_STRATEGY="basic", API__USERS_FILE=str(file), AGENTS__BINDING="first")

    def agent_of(user: str, password: str) -> AgentProcess:
        return lab.agent("node-1", AGENT__AUTH_STRATEGY="basic", AGENT__USERNAME=user, AGENT__PASSWORD=password)

    first = agent_of("first", "secret")
    first.start()
    first.wait_for("agent.up")
    assert first.stop() == 0
    for user, password, refusal in (
        ("first", "wrong", "The service refuses the agent (401)"),
        ("reader", "secret", "The service refuses the agent (403)"),
        ("second", "secret", "belongs to the agent of another user"),
    ):
        refused = agent_of(user, password)
        refused.start()
        assert refused.exit_status() == 1
        assert refusal in refused.log
        assert "Traceback" not in refused.log


def test_sigterm_ends_an_agent_and_no_guest(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host)
    server = lab.booted("s", host)
    assert agent.stop() == 0
    assert running(lab.world)[server] == [host]


def test_running_spawn_ends_before_the_agent_does(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host, latency_s=1.0)
    server = lab.boot("s", host)
    agent.wait_for("call.started")
    assert agent.stop() == 0
    lab.wait_for(server, "ACTIVE")
    lab.wait_for_agreement()


def test_host_that_lost_the_service_fences_itself_and_starts_its_guests_again(build_lab: BuildLab) -> None:
    lab = build_lab()
    (agent,) = lab.started("node-1", AGENT__SELF_FENCING_S="2")
    server = lab.booted("s", "node-1")
    lab.service.kill()
    wait_until(lambda: running(lab.world) == {}, "the guests are stopped")
    agent.exit_status()  # systemd would start it again
    agent.start()
    lab.service.start()
    wait_until(lambda: running(lab.world) == {server: ["node-1"]}, "the guest runs again")
    wait_until(lambda: lab.service_state("node-1") == "up", "node-1 is up again")
    lab.wait_for(server, "ACTIVE")
    lab.wait_for_agreement()


def test_host_whose_agent_was_killed_is_fenced_by_its_guardian(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host, AGENT__SELF_FENCING_S="2")
    server = lab.booted("s", host)
    agent.kill()
    assert running(lab.world)[server] == [host]
    wait_until(lambda: server not in running(lab.world), "the guardian stops the guests")
    agent.start()
    wait_until(lambda: running(lab.world).get(server) == [host], "the guest runs again")
    lab.wait_for(server, "ACTIVE")
    assert agent.stop() == 0  # which dismisses the guardian: other tests compare the guests of all hosts


def test_host_whose_agent_hangs_is_fenced_and_evacuated_and_later_removes_its_orphans(build_lab: BuildLab) -> None:
    lab = build_lab(AGENTS__EVACUATE="true")
    hanging, *_ = lab.started("node-1", "node-2", "node-3", AGENT__SELF_FENCING_S="2")
    server = lab.booted("s", "node-1")
    assert hanging.process is not None
    hanging.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: running(lab.world) == {}, "the guardian stops the guests")
    wait_until(lambda: lab.host_of(server) in {"node-2", "node-3"}, "the server is evacuated")
    lab.wait_for(server, "ACTIVE")
    assert hanging.exit_status() == -signal.SIGKILL, "the guardian ended it"
    hanging.start()
    hanging.wait_for("agent.up", 2)
    lab.wait_for_agreement()
    assert running(lab.world) == {server: [lab.host_of(server)]}


def test_call_in_progress_ends_with_the_contact_to_the_service(build_lab: BuildLab) -> None:
    """The server may have been started elsewhere when the call would start it."""
    lab, spawn_s = build_lab(), 6.0
    (agent,) = lab.started("node-1", AGENT__SELF_FENCING_S="2", latency_s=spawn_s)
    lab.boot("s", "node-1")
    agent.wait_for("call.started")
    started = time.monotonic()
    lab.service.kill()
    agent.exit_status()
    time.sleep(max(0.0, started + spawn_s + 1 - time.monotonic()))
    assert running(lab.world) == {}


def test_guest_that_arrives_at_a_host_without_an_agent_is_stopped(build_lab: BuildLab) -> None:
    """A migration to the host may end after its guests were stopped."""
    lab = build_lab()
    (agent,) = lab.started("node-1", AGENT__SELF_FENCING_S="2")
    server = lab.booted("s", "node-1")
    agent.kill()
    wait_until(lambda: running(lab.world) == {}, "the guardian stops the guests")
    for _ in range(2):
        time.sleep(1)
        set_power(lab.world, server, "running")
        wait_until(lambda: running(lab.world) == {}, "the guardian stops the guest that has arrived", 10)


def test_self_fencing_agent_that_is_stopped_leaves_its_guests_running(lab: AgentLab, host: str) -> None:
    (agent,) = lab.started(host, AGENT__SELF_FENCING_S="1")
    server = lab.booted("s", host)
    assert agent.stop() == 0
    wait_until(lambda: lab.service_state(host) == "down", "the host is down")  # after more than a second
    assert running(lab.world)[server] == [host]


def test_guests_that_arrived_before_their_source_died_keep_their_only_data(build_lab: BuildLab) -> None:
    lab = build_lab()
    source, _ = lab.started("node-1", "node-2", SIMULATED_HYPERVISOR__SHARED_DISKS="false")
    server, stopped = lab.booted("s", "node-1"), lab.booted("stopped", "node-1")
    lab.act(stopped, "os-stop")
    lab.wait_for(stopped, "SHUTOFF")
    source.stop()
    source.variables |= {"SIMULATED_HYPERVISOR__LATENCY_S": "60", "AGENT__SELF_FENCING_S": "2"}
    source.start()
    source.wait_for("agent.up", 2)
    lab.act(server, "os-migrateLive", host="node-2", block_migration="auto")
    lab.act(stopped, "migrate", host="node-2")
    source.wait_for('"verb":"migrate"', 2)
    source.kill()
    begun = [call for call in map(json.loads, source.log.splitlines()) if call.get("verb") == "migrate"]
    with lab.world.transaction() as connection:
        for call in begun:
            arrived = (call["epoch"], call["server"])
            connection.execute("UPDATE guests SET host = 'node-2', epoch = ? WHERE server = ?", arrived)
        connection.execute("UPDATE disks SET host = 'node-2'")
    lab.wait_for(server, "ACTIVE")
    lab.wait_for(stopped, "VERIFY_RESIZE")
    source.start()
    source.wait_for("agent.up", 3)
    lab.act(stopped, "confirmResize")
    lab.wait_for(stopped, "SHUTOFF")
    lab.wait_for_agreement()
    assert {lab.host_of(server), lab.host_of(stopped)} == {"node-2"}
    assert running(lab.world) == {server: ["node-2"]}
    assert [tuple(row) for row in lab.world.read("SELECT host, boots FROM disks")] == [("node-2", 1)] * 2


def test_servers_left_by_a_test_do_not_affect_the_next(build_lab: BuildLab) -> None:
    lab = build_lab()
    lab.started("node-1")
    server = lab.booted("s", "node-1")
    lab.leave()
    set_power(lab.world, server, "shutdown")
    assert lab.disagreements() == []
    lab.started("node-2")
    lab.booted("next", "node-2")
    lab.wait_for_agreement()
