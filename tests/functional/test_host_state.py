"""Observed host states: silent agents, fencing and evacuation."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.clock_and_ids import random_uuid
from covey.model.work import JobKind
from covey.services import moves
from covey.services.agents.fencing import Fencing
from covey.services.agents.host_watch import HostWatch
from covey.storage import tables
from tests.functional.agents import BACKEND, HostAgent, agent_of, boot, host_of, with_agents, work
from tests.functional.fleets import BuildCloud, Cloud


class Watch:
    """The host watch of a process, and its monotonic clock."""

    def __init__(self, cloud: Cloud, *, evacuates: bool = False, counts: list[Any] | None = None) -> None:
        self.cloud, self.now = cloud, 1000.0
        watch = cloud.assembled.host_watch
        self.watch = HostWatch(
            cloud.store, watch.notifications, 60, evacuates, (counts if counts is not None else []).append, self.time
        )
        self.watch.run_if_due()

    def time(self) -> float:
        return self.now

    def pass_(self, seconds: float, *alive: HostAgent) -> None:
        """Let time pass, in which these agents heartbeat."""
        end = self.now + seconds
        while self.now < end:
            step = min(5.0, end - self.now)
            self.now += step
            self.cloud.time.advance(step)
            for agent in alive:
                assert agent.heartbeat().status == 200
            self.watch.run_if_due()


def state(cloud: Cloud, host: str) -> str:
    services = cloud.admin.get("/os-services").json["services"]
    return next(str(service["state"]) for service in services if service["host"] == host)


def agents(cloud: Cloud, number: int) -> list[HostAgent]:
    return [agent_of(cloud, f"node-{i}") for i in range(1, number + 1)]


def evacuate(cloud: Cloud, server: str) -> Any:
    return cloud.act(cloud.admin, server, "evacuate", {})


def test_host_without_heartbeats_is_down_and_takes_no_servers(build_cloud: BuildCloud) -> None:
    counts: list[Any] = []
    cloud = with_agents(build_cloud, 2)
    watch = Watch(cloud, counts=counts)
    one, two = agents(cloud, 2)
    watch.pass_(58, one)
    assert state(cloud, "node-2") == "up"
    watch.pass_(10, one)
    assert (state(cloud, "node-1"), state(cloud, "node-2")) == ("up", "down")
    watch.pass_(5, one)
    assert counts[-1] == {"starting": 0, "up": 1, "down": 1}
    hypervisors = cloud.admin.get("/os-hypervisors").json["hypervisors"]
    assert {h["hypervisor_hostname"]: h["state"] for h in hypervisors} == {"node-1": "up", "node-2": "down"}
    for _ in range(4):
        server = cloud.request_server(cloud.alice).json["server"]["id"]
        assert host_of(cloud, server).host == "node-1"
    assert two.heartbeat().status == 404, "an agent that was declared down registers again"
    two.register()
    assert state(cloud, "node-2") == "down"
    two.heartbeat("up")
    assert state(cloud, "node-2") == "up"


def test_host_without_an_agent_stays_up(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    Watch(cloud).pass_(300)
    assert state(cloud, "node-1") == "up"


def test_two_watching_processes_set_a_host_down_once(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1, BACKEND, ("notifications", "driver", "log"))
    agent_of(cloud, "node-1").start()
    first, second = Watch(cloud), Watch(cloud)
    first.pass_(62)
    second.now = first.now
    second.watch.run_if_due()
    events = [row.event for row in cloud.rows(tables.outbox)]
    assert events == ["service.update", "service.update"], "one for up, one for down"


def test_process_that_could_not_look_gives_agents_time_to_report(build_cloud: BuildCloud) -> None:
    """The service was stopped for an hour: its agents are not down, they could not report."""
    cloud = with_agents(build_cloud, 2)
    one, two = agents(cloud, 2)
    cloud.time.advance(3600)
    watch = Watch(cloud)
    assert state(cloud, "node-1") == "up"
    assert one.heartbeat().status == 200
    watch.pass_(30, one, two)
    watch.pass_(90, one)
    assert (state(cloud, "node-1"), state(cloud, "node-2")) == ("up", "down")
    watch.now += 3600  # the database was away
    cloud.time.advance(3600)
    watch.watch.run_if_due()
    assert state(cloud, "node-1") == "up"


def test_step_of_the_databases_clock_sets_no_host_down(build_cloud: BuildCloud) -> None:
    """No agent can have reported since, by that clock. A host that is silent from then on is down."""
    cloud = with_agents(build_cloud, 3)
    one, two, three = agents(cloud, 3)
    watch = Watch(cloud)
    watch.pass_(90, one, two, three)
    cloud.time.advance(3600)
    watch.pass_(6)
    assert {state(cloud, agent.host) for agent in (one, two, three)} == {"up"}
    watch.pass_(60, one, two)
    assert [state(cloud, agent.host) for agent in (one, two, three)] == ["up", "up", "down"]


def test_host_that_may_still_run_guests_is_not_evacuated(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 3)
    server = boot(cloud)
    source = host_of(cloud, server)
    assert evacuate(cloud, server).message == f"Compute service of {source.host} is still in use."
    watch = Watch(cloud)
    watch.pass_(70, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    assert state(cloud, source.host) == "down"
    refused = evacuate(cloud, server)
    assert (refused.status, "may still run its servers" in refused.message) == (400, True)
    body = {"host": source.host, "binary": "nova-compute", "forced_down": True}
    assert cloud.admin.at("2.50").put("/os-services/force-down", body).status == 200
    assert evacuate(cloud, server).status == 200
    assert [verb for _, verb in work(cloud)] == ["evacuate"], "the dead host is never asked"
    assert host_of(cloud, server).host != source.host


def test_host_is_evacuated_when_its_self_fencing_lease_has_run_out(build_cloud: BuildCloud) -> None:
    cloud, server, source, others = self_fencing(build_cloud)
    assert {agent.heartbeat().json["lease_s"] for agent in (source, *others)} == {90}
    watch = Watch(cloud)
    watch.pass_(80, *others)
    assert evacuate(cloud, server).status == 400
    watch.pass_(30, *others)
    assert evacuate(cloud, server).status == 200


def test_shelve_is_refused_while_the_host_may_still_run_the_server(build_cloud: BuildCloud) -> None:
    """Otherwise its owner would unshelve it on another host, and it would run twice."""
    cloud, server, others, watch = host_down(build_cloud)
    refused = cloud.act(cloud.alice, server, "shelve")
    assert (refused.status, "its host is down, and may still run it" in refused.message) == (409, True)
    assert "node-" not in refused.message
    watch.pass_(60, *others)
    assert cloud.act(cloud.alice, server, "shelve").status == 202
    cloud.step()
    assert cloud.status(server) == "SHELVED_OFFLOADED"


@pytest.mark.parametrize("returns", [True, False], ids=["it returns", "it is fenced"])
def test_shelve_waits_for_a_host_that_goes_down(build_cloud: BuildCloud, returns: bool) -> None:
    cloud, server, source, others = self_fencing(build_cloud)
    assert cloud.act(cloud.alice, server, "shelve").status == 202
    watch = Watch(cloud)
    watch.pass_(80, *others)
    cloud.step()
    assert cloud.show(server)["OS-EXT-STS:task_state"] == "shelving_offloading"
    if returns:
        source.start(self_fencing_s=90)
        cloud.time.advance(31)
        assert work(cloud) == [(source.host, "detach")]
    else:
        watch.pass_(60, *others)
        cloud.step()
    assert cloud.status(server) == "SHELVED_OFFLOADED"


def self_fencing(build_cloud: BuildCloud) -> tuple[Cloud, str, HostAgent, list[HostAgent]]:
    """Return a server, the agent of its host, and those of the other hosts, which all fence themselves."""
    cloud = with_agents(build_cloud, 3)
    for agent in agents(cloud, 3):
        agent.start(self_fencing_s=90)
    server = boot(cloud)
    source = host_of(cloud, server)
    others = [agent for agent in agents(cloud, 3) if agent.host != source.host]
    return cloud, server, source, others


def host_down(build_cloud: BuildCloud, **options: Any) -> tuple[Cloud, str, list[HostAgent], Watch]:
    """Return a server whose host has been down for a moment, the agents of the other hosts, and the watch."""
    cloud, server, source, others = self_fencing(build_cloud)
    watch = Watch(cloud, **options)
    watch.pass_(70, *others)
    assert state(cloud, source.host) == "down"
    return cloud, server, others, watch


def test_step_of_the_databases_clock_ends_no_self_fencing_lease(build_cloud: BuildCloud) -> None:
    """The host was down already. By the database's clock its lease ended long ago, but its guests run."""
    cloud, server, others, watch = host_down(build_cloud)
    cloud.time.advance(3600)
    watch.pass_(20, *others)
    refused = evacuate(cloud, server)
    assert refused.status == 400
    assert "a worker confirms this within 105 seconds" in refused.message
    watch.pass_(120, *others)
    assert evacuate(cloud, server).status == 200


def test_process_that_starts_counts_a_self_fencing_lease_from_its_start(build_cloud: BuildCloud) -> None:
    cloud, server, others, _ = host_down(build_cloud)
    cloud.time.advance(3600)
    restarted = Watch(cloud)
    restarted.pass_(90, *others)
    assert evacuate(cloud, server).status == 400
    restarted.pass_(15, *others)
    assert evacuate(cloud, server).status == 200


def test_agent_that_returned_has_a_lease_of_its_own(build_cloud: BuildCloud) -> None:
    cloud, server, others, watch = host_down(build_cloud)
    source = host_of(cloud, server)
    source.start(self_fencing_s=90)
    watch.pass_(80, *others)
    cloud.time.advance(3600)
    watch.pass_(10, *others)
    assert evacuate(cloud, server).status == 400
    watch.pass_(130, *others)
    assert down_agent(cloud).fenced_at is not None
    source.start(self_fencing_s=90)
    with cloud.store.read() as tx:
        back = tx.agents.by_host(source.host)
    assert back is not None
    assert not back.runs_no_guests


def test_worker_evacuates_a_host_that_has_fenced_itself(build_cloud: BuildCloud) -> None:
    cloud, server, others, watch = host_down(build_cloud, evacuates=True)
    source = host_of(cloud, server).host
    cloud.step()
    cloud.time.advance(3600)
    cloud.step()
    assert [row.verb for row in cloud.rows(tables.work)] == [JobKind.EVACUATE_HOST]
    watch.pass_(110, *others)
    assert [verb for _, verb in work(cloud)] == ["evacuate"]
    assert host_of(cloud, server).host != source


def moving(build_cloud: BuildCloud) -> tuple[Cloud, str, HostAgent, Any, list[HostAgent]]:
    """Return a server that its source moves cold, the source and its call, and all agents but the destination's."""
    cloud = with_agents(build_cloud, 3)
    for agent in agents(cloud, 3):
        agent.start(self_fencing_s=90)
    server = boot(cloud)
    source = host_of(cloud, server)
    assert cloud.act(cloud.admin, server, "migrate").status == 202
    cloud.step()
    call = source.call()
    destination = call["arguments"]["destination"]["name"]
    return cloud, server, source, call, [agent for agent in agents(cloud, 3) if agent.host != destination]


def test_move_to_a_host_that_was_fenced_is_aborted(build_cloud: BuildCloud) -> None:
    """Its agent's guardian may have ended, so nothing there would stop the guest once more."""
    cloud, server, source, call, others = moving(build_cloud)
    watch = Watch(cloud)
    watch.pass_(70, *others)
    assert source.report(call, "running").json == {"abort": False}, "the destination may only have lost the service"
    watch.pass_(40, *others)
    assert down_agent(cloud).fenced_at is not None
    assert source.report(call, "running").json == {"abort": True}
    assert source.report(call, "failed", error="The migration was aborted.").status == 200
    cloud.step()
    assert (host_of(cloud, server).host, cloud.status(server)) == (source.host, "ACTIVE")


def test_source_whose_destination_does_not_answer_learns_that_it_was_fenced(build_cloud: BuildCloud) -> None:
    """Otherwise it would ask that host for ever whether the guest has arrived."""
    cloud, server, source, call, others = moving(build_cloud)
    assert source.calls() == []
    watch = Watch(cloud)
    watch.pass_(70, *others)
    (again,) = source.calls()
    assert again["arguments"] == call["arguments"]
    watch.pass_(40, *others)
    (again,) = source.calls()
    assert again["arguments"]["destination"] == {**call["arguments"]["destination"], "fenced": True}
    assert source.report(again, "failed", error="The destination does not answer.").status == 200
    cloud.step()
    assert (host_of(cloud, server).host, cloud.status(server)) == (source.host, "ACTIVE")


@pytest.mark.parametrize("silent_s", [80, 110], ids=["before it counts as fenced", "after it"])
def test_host_that_got_a_guest_by_a_move_has_not_fenced_itself(build_cloud: BuildCloud, silent_s: float) -> None:
    """The source has started the guest there. It may have done so after the host had stopped its guests."""
    cloud, server, source, call, others = moving(build_cloud)
    watch = Watch(cloud)
    watch.pass_(silent_s, *others)
    assert source.report(call).status == 200
    cloud.step()
    assert cloud.status(server) == "VERIFY_RESIZE"
    assert cloud.act(cloud.alice, server, "confirmResize").status == 204
    work(cloud)
    assert host_of(cloud, server).host not in {agent.host for agent in others}
    watch.pass_(130, *others)
    refused = evacuate(cloud, server)
    assert (refused.status, "may still run its servers" in refused.message) == (400, True)


def test_move_whose_hosts_both_fail_waits_until_both_are_fenced(build_cloud: BuildCloud) -> None:
    """The source may have started the guest on the other host before it died."""
    cloud, server, source, call, others = moving(build_cloud)
    destination = call["arguments"]["destination"]["name"]

    def fence(name: str) -> None:
        with cloud.store.write() as tx:
            agent = tx.agents.by_host(name)
            assert agent is not None
            tx.agents.set_fenced(agent.host_id)
        cloud.time.advance(31)
        cloud.step()

    Watch(cloud).pass_(70, *(agent for agent in others if agent.host != source.host))
    fence(source.host)
    assert cloud.show(server, cloud.admin)["OS-EXT-STS:task_state"] == "resize_prep"
    assert evacuate(cloud, server).status == 409
    fence(destination)
    assert cloud.show(server, cloud.admin)["OS-EXT-STS:task_state"] is None
    assert host_of(cloud, server).host == source.host
    returned = agent_of(cloud, destination).start()
    (found,) = returned.client.post(f"/hosts/{destination}/orphans", {"servers": [server]}).json["servers"]
    assert found["location"] == "shelved", "its only data may be there"


@pytest.mark.parametrize("live", [True, False])
def test_guest_that_has_arrived_stays_although_its_source_could_not_report(build_cloud: BuildCloud, live: bool) -> None:
    """With local disks, its only data may be there."""
    cloud = with_agents(build_cloud, 3)
    for agent in agents(cloud, 3):
        agent.start(self_fencing_s=90)
    server = boot(cloud)
    source = host_of(cloud, server)
    body = {"host": None, "block_migration": "auto"} if live else None
    cloud.act(cloud.admin, server, "os-migrateLive" if live else "migrate", body)
    cloud.step()
    moved = source.call()
    destination = agent_of(cloud, moved["arguments"]["destination"]["name"])
    Watch(cloud).pass_(115, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    cloud.step()
    call = destination.call()
    assert (call["verb"], call["arguments"]) == ("detach", {"unless": "arrived", "since": moved["arguments"]["since"]})
    assert destination.report(call, result="arrived").status == 200
    cloud.step()
    assert (host_of(cloud, server).host, cloud.status(server)) == (
        destination.host,
        "ACTIVE" if live else "VERIFY_RESIZE",
    )


def aborted_live_migration(build_cloud: BuildCloud) -> tuple[Cloud, str, HostAgent, HostAgent, list[HostAgent]]:
    """Return a server whose migration is to be aborted, its source, which has begun it, the destination, the others."""
    cloud = with_agents(build_cloud, 3)
    for agent in agents(cloud, 3):
        agent.start(self_fencing_s=90)
    server = boot(cloud)
    source = host_of(cloud, server)
    body = {"host": None, "block_migration": "auto"}
    assert cloud.act(cloud.admin, server, "os-migrateLive", body).status == 202
    cloud.step()
    call = source.call()
    assert source.report(call, "running").status == 200
    (migration,) = cloud.admin.get(f"/servers/{server}/migrations").json["migrations"]
    assert cloud.admin.delete(f"/servers/{server}/migrations/{migration['id']}").status == 202
    others = [agent for agent in agents(cloud, 3) if agent.host != source.host]
    return cloud, server, source, agent_of(cloud, call["arguments"]["destination"]["name"]), others


def test_aborted_migration_whose_source_is_fenced_ends_when_the_destination_has_removed_the_guest(
    build_cloud: BuildCloud,
) -> None:
    """It may have arrived before the source died."""
    cloud, server, source, destination, others = aborted_live_migration(build_cloud)
    Watch(cloud).pass_(115, *others)
    for _ in range(2):
        cloud.step()
        cloud.time.advance(31)
    assert evacuate(cloud, server).status == 409
    assert cloud.show(server, cloud.admin)["OS-EXT-STS:task_state"] == "migrating"
    call = destination.call()
    assert call["verb"] == "detach"
    assert destination.report(call).status == 200
    cloud.step()
    assert host_of(cloud, server).host == source.host
    assert evacuate(cloud, server).status == 200


def test_source_that_returns_is_asked_about_the_migration_that_was_aborted(build_cloud: BuildCloud) -> None:
    cloud, server, source, destination, others = aborted_live_migration(build_cloud)
    Watch(cloud).pass_(115, *others)
    cloud.step()
    source.start(self_fencing_s=90)
    cloud.time.advance(31)
    cloud.step()
    assert cloud.show(server, cloud.admin)["OS-EXT-STS:task_state"] == "migrating"
    (call,) = [call for call in source.calls() if call["verb"] == "migrate"]
    assert source.report(call).status == 200
    cloud.step()
    assert (host_of(cloud, server).host, cloud.status(server)) == (destination.host, "ACTIVE")


def test_agent_that_returns_during_an_evacuation_gets_its_servers_as_leaving(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its registration waits for the evacuation. If it came first, the evacuation would be refused."""
    cloud = with_agents(build_cloud, 3)
    for agent in agents(cloud, 3):
        agent.start(self_fencing_s=5)
    server = boot(cloud)
    source = host_of(cloud, server)
    Watch(cloud).pass_(90, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    told: list[Any] = []

    def come_back() -> None:
        assert source.register(self_fencing_s=5).status == 200
        told.extend(source.client.get(f"/hosts/{source.host}/servers").json["servers"])

    returning = threading.Thread(target=come_back)
    check = moves.reject_living

    def slow_check(*args: Any) -> None:
        check(*args)
        returning.start()
        returning.join(1)

    monkeypatch.setattr(moves, "reject_living", slow_check)
    assert evacuate(cloud, server).status == 200
    returning.join(20)
    assert [(each["location"], each["task"]) for each in told] == [("leaving", "rebuilding")]
    assert work(cloud) == [(host_of(cloud, server).host, "evacuate")]
    assert host_of(cloud, server).host != source.host


def test_starting_host_is_not_evacuated(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 3)
    server = boot(cloud)
    host_of(cloud, server).register()
    assert evacuate(cloud, server).status == 400


def fence_by(cloud: Cloud, command: str) -> None:
    """Let the jobs of this process, a new one, fence hosts by a command."""
    fencing = Fencing(cloud.store, random_uuid, command, 30)
    cloud.assembled = replace(
        cloud.assembled, host_evacuations=replace(cloud.assembled.host_evacuations, fencing=fencing)
    )


def step_until(cloud: Cloud, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        cloud.step()
        time.sleep(0.02)


def down_agent(cloud: Cloud) -> Any:
    (agent,) = [row for row in cloud.rows(tables.agents) if row.state == "down"]
    return agent


def fence_once(cloud: Cloud, called: Path) -> None:
    """Let the job run the command once, and wait until its outcome is recorded."""
    step_until(cloud, called.exists)
    deadline = time.monotonic() + 20
    while down_agent(cloud).fencing_by is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    cloud.time.advance(1)  # then the job looks again


@pytest.mark.parametrize("fails", [False, True])
def test_failed_host_is_fenced_by_the_command_and_evacuated(
    build_cloud: BuildCloud, tmp_path: Path, fails: bool
) -> None:
    """Servers of a hard affinity group go to one host together."""
    cloud = with_agents(build_cloud, 4)
    group = cloud.group("affinity")
    members = [boot(cloud, 4, group=group) for _ in range(3)]
    source = host_of(cloud, members[0])
    script = tmp_path / "fence.py"
    script.write_text(
        f"import sys\nopen({str(tmp_path / 'fenced')!r}, 'a').write(sys.argv[1])\nsys.exit({int(fails)})\n"
    )
    fence_by(cloud, f"{sys.executable} {script}")
    watch = Watch(cloud, evacuates=True)
    watch.pass_(70, *(agent for agent in agents(cloud, 4) if agent.host != source.host))
    assert [row.verb for row in cloud.rows(tables.work)] == [JobKind.EVACUATE_HOST]
    fence_once(cloud, tmp_path / "fenced")
    assert (tmp_path / "fenced").read_text() == source.host
    if fails:
        step_until(cloud, lambda: "failed with status 1" in (cloud.rows(tables.work)[0].error or ""))
        assert down_agent(cloud).fenced_at is None
        return
    assert down_agent(cloud).fenced_at is not None
    for alive in agents(cloud, 4):
        if alive.host != source.host:
            for _ in range(3):
                cloud.step()
                for call in alive.calls():
                    assert (call["verb"], call["guest"]["power"]) == ("evacuate", "running")
                    alive.report(call)
    cloud.step()
    there = {host_of(cloud, member).host for member in members}
    assert len(there) == 1
    assert source.host not in there
    cloud.time.advance(31)
    cloud.step()
    assert cloud.rows(tables.work) == [], "the job ends when no server is left"


def test_server_that_is_deleted_during_the_evacuation_of_its_host_delays_no_other(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, first, others, watch = host_down(build_cloud, evacuates=True)
    source = host_of(cloud, first)
    source.start(self_fencing_s=90)
    on_source = {"availability_zone": f"nova:{source.host}"}
    more = [cloud.request_server(cloud.admin, **on_source).json["server"]["id"] for _ in range(2)]
    work(cloud)
    begin = moves.Moves.begin

    def begin_late(self: moves.Moves, actor: Any, server: str, *args: Any) -> None:
        if server == min(first, *more):
            assert cloud.admin.delete(f"/servers/{server}").status == 204
            cloud.assembled.worker().run_once()
        begin(self, actor, server, *args)

    monkeypatch.setattr(moves.Moves, "begin", begin_late)
    watch.pass_(200, *others)
    cloud.step()
    (job,) = [row for row in cloud.rows(tables.work) if row.verb == JobKind.EVACUATE_HOST]
    assert job.error is None
    work(cloud)
    left = [server for server in (first, *more) if cloud.admin.get(f"/servers/{server}").status == 200]
    assert len(left) == 2
    assert source.host not in {host_of(cloud, server).host for server in left}


@pytest.mark.sqlite_only
def test_server_that_fits_nowhere_is_evacuated_less_and_less_often(build_cloud: BuildCloud) -> None:
    """Each attempt adds to the action log, and a host that stays down may have many such servers."""
    cloud, _, others, watch = host_down(build_cloud, evacuates=True)
    for agent in others:
        cloud.set_host(agent.host, status="disabled")
    watch.pass_(110, *others)
    attempts, began = 0, cloud.time()
    while (cloud.time() - began).total_seconds() < 3600:
        attempts += cloud.step()
        (job,) = cloud.rows(tables.work)
        cloud.time.advance((job.due_at - cloud.time()).total_seconds())
    assert 10 < attempts < 30


def test_each_failure_of_a_host_is_fenced_once(build_cloud: BuildCloud, tmp_path: Path) -> None:
    """A job that waits for the command may go on in another process. What the first one knows is not believed later."""
    cloud = with_agents(build_cloud, 3)
    server = boot(cloud)
    source = host_of(cloud, server)
    script, ran, end, ended = (tmp_path / name for name in ("fence", "ran", "end", "ended"))
    script.write_text(f"#!/bin/sh\necho $1 >> {ran}\nwhile [ ! -e {end} ]; do sleep 0.02; done\ntouch {ended}\n")
    script.chmod(0o755)
    fence_by(cloud, str(script))
    first = cloud.assembled
    watch = Watch(cloud, evacuates=True)
    others = [agent for agent in agents(cloud, 3) if agent.host != source.host]
    watch.pass_(70, *others)
    cloud.step()
    step_until(cloud, ran.exists)
    fence_by(cloud, str(script))  # another process takes the job
    for _ in range(3):
        cloud.time.advance(1)
        cloud.step()
    assert ran.read_text() == f"{source.host}\n"
    source.start()  # the host comes back
    end.touch()
    step_until(cloud, lambda: ended.exists() and cloud.rows(tables.work) == [])
    end.unlink()
    ran.unlink()
    cloud.assembled = first
    watch.pass_(70, *others)
    cloud.step()
    cloud.time.advance(1)
    cloud.step()
    assert down_agent(cloud).fenced_at is None, "the command of the first failure has ended since"
    step_until(cloud, ran.exists)
    end.touch()
    step_until(cloud, lambda: down_agent(cloud).fenced_at is not None)
    assert ran.read_text() == f"{source.host}\n"


def test_fencing_continues_when_the_process_that_ran_the_command_has_died(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 3)
    server = boot(cloud)
    source = host_of(cloud, server)
    others = [agent for agent in agents(cloud, 3) if agent.host != source.host]
    Watch(cloud, evacuates=True).pass_(70, *others)
    with cloud.store.write() as tx:
        agent = tx.agents.by_host(source.host)
        assert agent is not None
        assert tx.agents.begin_fencing(agent.host_id, "a process that dies", 40, only_down=True)
    fence_by(cloud, "true")
    cloud.step()
    cloud.time.advance(30)
    cloud.step()
    assert down_agent(cloud).fencing_by == "a process that dies"
    cloud.time.advance(11)
    step_until(cloud, lambda: down_agent(cloud).fenced_at is not None)


def test_most_agents_down_at_once_are_no_reason_to_fence_them(build_cloud: BuildCloud, tmp_path: Path) -> None:
    cloud = with_agents(build_cloud, 3)
    boot(cloud)
    fence_by(cloud, f"touch {tmp_path}/fenced")
    Watch(cloud, evacuates=True).pass_(70)
    for _ in range(3):
        cloud.step()
        cloud.time.advance(31)
    assert list(tmp_path.glob("fenced*")) == []
    assert {row.verb for row in cloud.rows(tables.work)} == {JobKind.EVACUATE_HOST}


def test_host_that_comes_back_keeps_its_servers(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 3)
    server = boot(cloud)
    source = host_of(cloud, server)
    watch = Watch(cloud, evacuates=True)
    watch.pass_(70, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    assert [row.verb for row in cloud.rows(tables.work)] == [JobKind.EVACUATE_HOST]
    source.start()
    assert cloud.rows(tables.work) == [], "the job of this failure must not find the host in the next one"
    cloud.step()
    assert host_of(cloud, server).host == source.host


def test_server_on_a_host_that_is_down_is_deleted_at_once(build_cloud: BuildCloud) -> None:
    """Its agent removes what should not be there when it starts."""
    cloud = with_agents(build_cloud, 3)
    server = boot(cloud)
    source = host_of(cloud, server)
    Watch(cloud).pass_(70, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    cloud.alice.delete(f"/servers/{server}")
    cloud.step()
    assert cloud.alice.get(f"/servers/{server}").status == 404


def test_spawn_that_waits_on_a_host_that_goes_down_is_tried_elsewhere(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 3)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    cloud.step()
    source = host_of(cloud, server)
    Watch(cloud).pass_(70, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    cloud.step()
    assert host_of(cloud, server).host != source.host


def test_spawn_that_a_host_began_waits_until_the_host_is_fenced(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 3)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    cloud.step()
    source = host_of(cloud, server)
    source.call()
    Watch(cloud).pass_(70, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    cloud.step()
    assert host_of(cloud, server).host == source.host
    with cloud.store.write() as tx:
        agent = tx.agents.by_host(source.host)
        assert agent is not None
        tx.agents.set_fenced(agent.host_id)
    cloud.time.advance(31)
    cloud.step()
    assert host_of(cloud, server).host != source.host


def test_action_that_a_host_began_ends_once_an_operator_has_forced_the_host_down(build_cloud: BuildCloud) -> None:
    """Otherwise the task of the server would keep it from being evacuated."""
    cloud = with_agents(build_cloud, 3)
    server = boot(cloud)
    source = host_of(cloud, server)
    assert cloud.act(cloud.alice, server, "reboot", {"type": "SOFT"}).status == 202
    cloud.step()
    source.call()
    Watch(cloud).pass_(70, *(agent for agent in agents(cloud, 3) if agent.host != source.host))
    cloud.step()
    assert evacuate(cloud, server).status == 409
    cloud.set_down(source.host)
    cloud.time.advance(31)
    cloud.step()
    assert evacuate(cloud, server).status == 200
    assert [verb for _, verb in work(cloud)] == ["evacuate"]
    assert host_of(cloud, server).host != source.host


def test_host_that_fails_while_a_server_is_evacuated_to_it_is_fenced(build_cloud: BuildCloud, tmp_path: Path) -> None:
    """It may run the server by now, although no other server is there."""
    cloud = with_agents(build_cloud, 4)
    server = boot(cloud, 4)
    source = host_of(cloud, server)
    cloud.set_down(source.host)
    assert evacuate(cloud, server).status == 200
    cloud.step()
    (spare,) = [agent for agent in agents(cloud, 4) if agent.calls()]
    cloud.set_down(source.host, down=False)
    fence_by(cloud, f"sh -c 'echo $0 > {tmp_path}/fenced'")
    alive = [agent for agent in agents(cloud, 4) if agent.host not in {source.host, spare.host}]
    watch = Watch(cloud, evacuates=True)
    watch.pass_(70, *alive, source)
    step_until(cloud, lambda: down_agent(cloud).fenced_at is not None)
    assert (tmp_path / "fenced").read_text() == f"{spare.host}\n"
    cloud.time.advance(31)
    cloud.step()
    assert host_of(cloud, server).host == source.host
    assert (cloud.status(server), cloud.show(server)["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    cloud.time.advance(31)
    cloud.step()
    assert cloud.rows(tables.work) == [], "the job ends when no server arrives any more"


def test_spawn_that_a_host_began_waits_for_the_fencing_also_after_a_newer_lease(build_cloud: BuildCloud) -> None:
    """The agent may have started the guest before it died, whichever epoch the call has by now."""
    cloud = with_agents(build_cloud, 3)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    cloud.step()
    source = host_of(cloud, server)
    source.call()
    others = [agent for agent in agents(cloud, 3) if agent.host != source.host]
    watch = Watch(cloud)
    watch.pass_(35, *others)
    cloud.step()  # the agent has forgotten the call; the job's next lease takes it over
    watch.pass_(35, *others)
    cloud.time.advance(31)
    cloud.step()
    assert state(cloud, source.host) == "down"
    assert host_of(cloud, server).host == source.host
