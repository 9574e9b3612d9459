"""Agents of hosts: registration, heartbeats, calls and reports."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import CapturingLogger

from covey import config
from covey.api import middleware
from covey.cli import agent as agent_command
from covey.model.agents import AgentState, Call, CallState, Verb
from covey.model.errors import Busy
from covey.model.ids import HostId, UserId
from covey.model.servers import VmState
from covey.request_slots import BUSY, RequestSlots
from covey.services.agents.call_polls import CallPolls
from covey.services.agents.registrations import Heartbeat, _store_heartbeats
from covey.storage import tables
from covey.storage.agent_calls import AgentCalls
from tests.functional.agents import BACKEND, INVENTORIES, agent_of, boot, host_of, with_agents, work
from tests.functional.fleets import BuildCloud, Cloud


def status(cloud: Cloud, server: str) -> str:
    return str(cloud.alice.get(f"/servers/{server}").json["server"]["status"])


def changes(cloud: Cloud) -> int:
    """Return the number of entries in the fleet's change log."""
    return len(cloud.rows(tables.fleet_changes))


def spawning(cloud: Cloud) -> tuple[str, Any, Any]:
    """Return a server whose spawn waits, its agent, and the call."""
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    cloud.step()
    agent = host_of(cloud, server)
    return server, agent, agent.call()


@pytest.mark.sqlite_only
def test_version_document_needs_no_token(build_cloud: BuildCloud) -> None:
    found = build_cloud(0).service.as_(None).below("/agent").get("/v1")
    assert (found.status, found.json["version"]["id"]) == (200, "v1.0")


def test_first_registration_adds_a_host_that_takes_no_servers_until_it_is_up(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(0, BACKEND)
    agent = agent_of(cloud, "rack1-host")
    answer = agent.register()
    assert answer.json["host"]["state"] == "starting"
    assert (answer.json["heartbeat_s"], answer.json["call_lease_s"]) == (10, 30)
    refused = cloud.request_server(cloud.alice).json["server"]["id"]
    assert status(cloud, refused) == "ERROR"
    assert agent.heartbeat().json == {"heartbeat_s": 10, "lease_s": None}
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    assert host_of(cloud, server).host == "rack1-host"


def test_unknown_host_is_not_added_where_the_operator_forbids_it(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(0, BACKEND, ("agents", "auto_register", False))
    assert agent_of(cloud, "node-1").register().status == 404


@pytest.mark.sqlite_only
def test_agent_of_another_user_gets_403(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    other = agent_of(cloud, "node-1", user="mallory")
    path = "/hosts/node-1"
    assert other.register().status == 403
    assert other.heartbeat().status == 403
    assert other.client.get(f"{path}/servers").status == 403
    assert other.client.get(f"{path}/calls").status == 403
    assert other.client.put(f"{path}/calls/1", {"epoch": 1, "state": "done"}).status == 403
    assert other.client.post(f"{path}/events", {"events": []}).status == 403
    assert other.client.post(f"{path}/orphans", {"servers": []}).status == 403


@pytest.mark.sqlite_only
def test_user_without_the_role_gets_403(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    tenant = cloud.alice.below("/agent/v1")
    assert tenant.put("/hosts/node-1/heartbeat", {"state": "up"}).status == 403
    assert tenant.get("/hosts/node-1/calls").status == 403


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", ""), ("PUT", "/heartbeat"), ("POST", "/orphans"), ("PUT", "/calls/1"), ("POST", "/events")],
)
def test_user_without_the_role_gets_403_before_the_body_is_read(
    build_cloud: BuildCloud, method: str, path: str
) -> None:
    tenant = with_agents(build_cloud, 1).alice.below("/agent/v1")
    assert tenant.ask(method, f"/hosts/node-1{path}", body=b"no JSON").status == 403


def test_repeated_registration_and_heartbeats_change_nothing_in_the_fleet(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(0, BACKEND)
    agent = agent_of(cloud, "node-1")
    agent.register()
    before = changes(cloud)
    agent.register()
    agent.heartbeat("starting")
    assert changes(cloud) == before
    agent.heartbeat("up")
    assert changes(cloud) == before + 1
    agent.heartbeat("up")
    assert changes(cloud) == before + 1


def test_registration_changes_inventories_and_its_own_traits(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(0, BACKEND)
    agent = agent_of(cloud, "node-1").start(traits=["HW_CPU_X86_AVX", "HW_CPU_X86_SSE"])
    with cloud.store.write() as tx:
        host = tx.hosts.by_name("node-1")
        assert host is not None
        tx.hosts.add_traits([(host.id, "CUSTOM_GOLD")])
    more = INVENTORIES | {"VCPU": {"total": 12, "reserved": 1}}
    agent.register(traits=["HW_CPU_X86_SSE", "HW_CPU_X86_AVX2", "no such trait"], inventories=more)
    with cloud.store.read() as tx:
        changed = tx.hosts.by_name("node-1")
    assert changed is not None
    assert changed.traits == {"CUSTOM_GOLD", "HW_CPU_X86_SSE", "HW_CPU_X86_AVX2"}
    vcpus = changed.inventories["VCPU"]
    assert (vcpus.total, vcpus.reserved, vcpus.allocation_ratio) == (12, 1, 1.0)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {"hypervisor": "QEMU"}),
        ("/heartbeat", {"state": "sideways"}),
        ("/heartbeat", {}),
        ("/calls/1", {"epoch": "x", "state": "done"}),
        ("/calls/1", {"epoch": 1, "state": "waiting"}),
    ],
)
def test_malformed_body_returns_400(build_cloud: BuildCloud, path: str, body: object) -> None:
    cloud = with_agents(build_cloud, 1)
    assert agent_of(cloud, "node-1").client.put(f"/hosts/node-1{path}", body).status == 400


@pytest.mark.sqlite_only
def test_unknown_resource_class_returns_400(build_cloud: BuildCloud) -> None:
    answer = agent_of(build_cloud(0, BACKEND), "node-1").register(inventories={"WINGS": {"total": 2}})
    assert (answer.status, answer.message) == (400, "No such resource class: WINGS.")


def test_server_is_active_once_its_agent_has_started_it(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, agent, call = spawning(cloud)
    assert call["verb"] == "spawn"
    assert (call["guest"]["id"], call["guest"]["power"]) == (server, "running")
    assert call["guest"]["flavor"] == {"name": "small", "vcpus": 1, "memory_mb": 1024, "disk_gb": 10}
    assert status(cloud, server) == "BUILD"
    assert agent.report(call, "running").json == {"abort": False}
    assert cloud.step() == 0
    assert agent.report(call).status == 200
    assert cloud.step() == 1
    assert status(cloud, server) == "ACTIVE"
    assert cloud.rows(tables.agent_calls) == [], "a call ends with its job"


def test_job_that_waits_for_an_agent_is_no_attempt(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    spawning(cloud)
    for _ in range(15):
        cloud.time.advance(31)
        cloud.step()
    (job,) = cloud.rows(tables.work)
    assert (job.attempts, job.parked, job.error) == (0, False, None)


def test_failed_spawn_is_tried_on_another_host(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, agent, call = spawning(cloud)
    assert agent.report(call, "failed", error="no space left").status == 200
    cloud.step()
    other = host_of(cloud, server)
    assert other.host != agent.host
    work(cloud)
    assert status(cloud, server) == "ACTIVE"


def test_report_with_an_old_epoch_returns_409(build_cloud: BuildCloud) -> None:
    """A newer lease takes over a call that its agent forgot; the agent gets it again with the new epoch."""
    cloud = with_agents(build_cloud)
    server, agent, call = spawning(cloud)
    cloud.time.advance(31)
    cloud.step()
    assert agent.report(call).status == 409
    again = agent.call()
    assert (again["id"], again["epoch"] > call["epoch"]) == (call["id"], True)
    assert agent.report(again).status == 200
    cloud.step()
    assert status(cloud, server) == "ACTIVE"


def test_call_that_its_agent_renews_stays_with_it(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    _, agent, call = spawning(cloud)
    for _ in range(4):
        cloud.time.advance(20)
        assert agent.report(call, "running").status == 200
        cloud.step()
        assert agent.calls() == []
    assert agent.report(call).status == 200


def test_forgotten_call_is_handed_out_again(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    _, agent, call = spawning(cloud)
    assert agent.calls() == []
    cloud.time.advance(30.5)
    assert agent.call() == call


def test_agent_that_registers_again_gets_its_calls_at_once(build_cloud: BuildCloud) -> None:
    """It was killed, or lost contact: it may have forgotten every call that it took."""
    cloud = with_agents(build_cloud)
    server, agent, call = spawning(cloud)
    other = agent_of(cloud, "node-1" if agent.host != "node-1" else "node-2")
    other.start()
    assert agent.calls() == []
    agent.start()
    assert agent.call() == call
    assert agent.report(call).status == 200
    cloud.step()
    assert status(cloud, server) == "ACTIVE"


def test_host_that_was_declared_down_gets_no_calls_before_it_registers(build_cloud: BuildCloud) -> None:
    """Its servers may have been started elsewhere since."""
    cloud = with_agents(build_cloud, 1)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    cloud.step()
    agent = host_of(cloud, server)
    cloud.time.advance(20)
    with cloud.store.write() as tx:
        assert tx.agents.take_silent(10) != []
        assert tx.agent_calls.hosts_with_calls() == set()
        host = tx.agents.by_host(agent.host)
        assert host is not None
        assert tx.agent_calls.take({host.host_id: 16}, 30) == []
    assert agent.calls() == []
    agent.start()
    assert agent.call()["verb"] == "spawn"


def read_before_it_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next job read its call as it was before the agent took it."""
    read = AgentCalls.of_job

    def earlier(self: AgentCalls, job: int, verb: Verb, host: HostId) -> Call | None:
        monkeypatch.setattr(AgentCalls, "of_job", read)
        found = read(self, job, verb, host)
        return None if found is None else replace(found, state=CallState.WAITING, leased=False)

    monkeypatch.setattr(AgentCalls, "of_job", earlier)


def test_call_that_an_agent_has_just_taken_is_not_withdrawn(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host was declared down in the moment in which its agent took the call."""
    cloud = with_agents(build_cloud, 2)
    server, agent, call = spawning(cloud)
    cloud.time.advance(20)
    assert agent.report(call, "running").status == 200
    cloud.time.advance(11)
    with cloud.store.write() as tx:
        assert tx.agents.take_silent(10) != []
    read_before_it_was_taken(monkeypatch)
    cloud.step()
    assert status(cloud, server) == "BUILD"
    assert [row.id for row in cloud.rows(tables.agent_calls)] == [call["id"]]
    assert host_of(cloud, server).host == agent.host


def test_migration_that_its_agent_has_just_taken_is_not_aborted_without_it(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = with_agents(build_cloud, 2)
    server = boot(cloud, 2)
    source = host_of(cloud, server)
    cloud.act(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    cloud.step()
    call = source.call()
    (migration,) = cloud.admin.get(f"/servers/{server}/migrations").json["migrations"]
    assert cloud.admin.delete(f"/servers/{server}/migrations/{migration['id']}").status == 202
    read_before_it_was_taken(monkeypatch)
    cloud.step()
    assert source.report(call, "running").json == {"abort": True}
    assert source.report(call, "failed", error="The migration was aborted.").status == 200
    cloud.step()
    assert (host_of(cloud, server).host, status(cloud, server)) == (source.host, "ACTIVE")


def test_report_about_an_unknown_call_or_that_of_another_host_returns_409(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    _, agent, call = spawning(cloud)
    other = agent_of(cloud, "node-1" if agent.host != "node-1" else "node-2")
    assert other.report(call).status == 409
    assert agent.report({**call, "id": 999}).status == 409


def test_worker_that_dies_after_the_report_repeats_no_call(build_cloud: BuildCloud) -> None:
    """The call is done, and its worker dies before it settles the job: the next one finds the report."""
    cloud = with_agents(build_cloud)
    server, agent, call = spawning(cloud)
    assert agent.report(call).status == 200
    with cloud.store.write() as tx:
        assert len(tx.work.take(30, 10)) == 1  # by a worker that dies
    assert cloud.step() == 0
    cloud.time.advance(31)
    assert cloud.step() == 1
    assert status(cloud, server) == "ACTIVE"
    assert agent.calls() == []


def test_report_during_the_lease_of_the_worker_is_not_lost(build_cloud: BuildCloud) -> None:
    """The agent is faster than the worker that made the call."""
    cloud = with_agents(build_cloud)
    server, agent, call = spawning(cloud)
    cloud.time.advance(31)
    with cloud.store.write() as tx:
        jobs = tx.work.take(30, 10)
    assert agent.report(call).status == 200
    with cloud.store.write() as tx:
        tx.work.postpone(jobs, 1000)
    cloud.step()
    assert status(cloud, server) == "ACTIVE"


def test_server_deleted_while_it_spawns_is_destroyed(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, agent, call = spawning(cloud)
    assert cloud.alice.delete(f"/servers/{server}").status == 204
    cloud.step()
    assert agent.report(call).status == 409
    destroy = agent.call()
    assert destroy["verb"] == "destroy"
    assert destroy["epoch"] > call["epoch"]
    assert cloud.alice.get(f"/servers/{server}").status == 200
    agent.report(destroy)
    cloud.step()
    assert cloud.alice.get(f"/servers/{server}").status == 404


def test_failed_destroy_is_tried_again(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    agent = host_of(cloud, server)
    cloud.alice.delete(f"/servers/{server}")
    cloud.step()
    agent.report(agent.call(), "failed", error="busy")
    cloud.step()
    (job,) = cloud.rows(tables.work)
    assert (job.error, job.attempts) == ("busy", 1)
    cloud.time.advance(10)
    assert work(cloud) == [(agent.host, "destroy")]
    assert cloud.alice.get(f"/servers/{server}").status == 404


@pytest.mark.sqlite_only
def test_resize_sends_the_new_flavor_to_the_source_and_the_revert_back(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    source = host_of(cloud, server)
    assert cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"}).status == 202
    cloud.step()
    call = source.call()
    arguments = call["arguments"]
    assert (call["verb"], arguments["live"], call["guest"]["flavor"]["name"]) == ("migrate", False, "big")
    assert arguments["destination"]["address"] == f"10.0.0.{arguments['destination']['name'][-1]}"
    source.report(call)
    cloud.step()
    assert status(cloud, server) == "VERIFY_RESIZE"
    there = host_of(cloud, server)
    assert there.host == arguments["destination"]["name"]
    cloud.act(cloud.alice, server, "revertResize")
    cloud.step()
    back = there.call()
    assert (back["guest"]["flavor"]["name"], back["arguments"]["destination"]["name"]) == ("small", source.host)
    there.report(back)
    cloud.step()
    assert host_of(cloud, server).host == source.host


@pytest.mark.sqlite_only
def test_hard_reboot_is_a_verb_of_its_own_and_stop_leaves_the_guest_off(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    agent = host_of(cloud, server)
    for action, body, verb, final in (
        ("reboot", {"type": "HARD"}, "reboot_hard", "ACTIVE"),
        ("reboot", {"type": "SOFT"}, "reboot", "ACTIVE"),
        ("os-stop", None, "stop", "SHUTOFF"),
        ("os-start", None, "start", "ACTIVE"),
    ):
        cloud.act(cloud.alice, server, action, body)
        cloud.step()
        call = agent.call()
        assert (call["verb"], call["arguments"]) == ("power", {"verb": verb})
        agent.report(call)
        cloud.step()
        assert status(cloud, server) == final


@pytest.mark.sqlite_only
def test_shelved_server_is_detached_and_unshelved_by_spawn(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    cloud.act(cloud.alice, server, "shelve")
    assert [verb for _, verb in work(cloud)] == ["detach"]
    assert status(cloud, server) == "SHELVED_OFFLOADED"
    cloud.act(cloud.alice, server, "unshelve")
    assert [verb for _, verb in work(cloud)] == ["spawn"]
    assert status(cloud, server) == "ACTIVE"


def test_host_keeps_the_data_of_a_shelved_server_in_any_state(build_cloud: BuildCloud) -> None:
    """Only a successful unshelve ends that, so a state that an operator or a defect has set deletes nothing."""
    cloud = with_agents(build_cloud, 2)
    server = boot(cloud, 2)
    agent = host_of(cloud, server)
    cloud.act(cloud.alice, server, "shelve")
    work(cloud, 2)

    def location() -> str:
        found = agent.client.post(f"/hosts/{agent.host}/orphans", {"servers": [server]}).json["servers"]
        return str(found[0]["location"])

    def set_state(state: VmState) -> None:
        with cloud.store.write() as tx:
            found = tx.servers.by_id(server, lock=True)
            assert found is not None
            tx.servers.update(replace(found, vm_state=state, task=None))

    set_state(VmState.ERROR)
    assert location() == "shelved"
    set_state(VmState.SHELVED_OFFLOADED)
    cloud.set_host(agent.host, status="disabled")
    cloud.act(cloud.alice, server, "unshelve")
    assert location() == "shelved"
    set_state(VmState.ACTIVE)
    assert location() == "shelved"


def test_host_lists_what_should_be_on_it(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 2)
    server = boot(cloud, 2)
    agent = host_of(cloud, server)
    other = agent_of(cloud, "node-1" if agent.host == "node-2" else "node-2")

    def listed(one: Any) -> list[tuple[str, str | None]]:
        found = one.client.get(f"/hosts/{one.host}/servers").json["servers"]
        assert all(each["guest"]["id"] == server for each in found)
        return [(each["location"], each["task"]) for each in found]

    def orphans(one: Any) -> list[str]:
        found = one.client.post(f"/hosts/{one.host}/orphans", {"servers": [server, "nonsense"]}).json["servers"]
        return [each["location"] for each in found]

    assert (listed(agent), listed(other)) == ([("here", None)], [])
    assert (orphans(agent), orphans(other)) == (["here", "unknown"], ["elsewhere", "unknown"])
    cloud.act(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    assert (listed(agent), listed(other)) == ([("leaving", "migrating")], [("arriving", "migrating")])
    work(cloud, 2)
    assert (listed(agent), listed(other)) == ([], [("here", None)])
    cloud.alice.delete(f"/servers/{server}")
    work(cloud, 2)
    assert (listed(other), orphans(other)) == ([], ["deleted", "unknown"])


def test_call_for_a_host_without_an_agent_fails_the_build(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2, BACKEND)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    for _ in range(3):
        cloud.step()
    assert status(cloud, server) == "ERROR"


def test_long_poll_returns_when_a_call_waits(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1")
    assert agent.calls(wait="0.2") == []
    with ThreadPoolExecutor(1) as threads:
        polled = threads.submit(agent.calls, wait="20")
        cloud.request_server(cloud.alice)
        cloud.step()
        assert [call["verb"] for call in polled.result(15)] == ["spawn"]


@pytest.mark.sqlite_only
def test_waiting_poll_holds_no_request_slot_and_ends_at_shutdown(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    slots, polls = RequestSlots(1, 5), CallPolls(cloud.store, 30.0, max_waiting=1)
    outcomes: list[object] = []

    def poll(_: object, __: object) -> list[bytes]:
        outcomes.append(polls.wait(HostId(1), 20, 16))
        return []

    def other(_: object, __: object) -> list[bytes]:
        with pytest.raises(Busy):
            polls.wait(HostId(2), 20, 16)  # more than may wait
        return []

    with ThreadPoolExecutor(1) as threads:
        polled = threads.submit(slots.guard(poll), {}, lambda *_: lambda _: None)
        while not len(polls):
            time.sleep(0.01)
        environ: dict[str, object] = {}
        slots.guard(other)(environ, lambda *_: lambda _: None)
        assert BUSY not in environ, "the only slot is free"
        polls.stopping.set()
        polled.result(15)
    assert outcomes == [[]]


def test_agent_answers_a_request_for_the_console_log(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    server = boot(cloud, 1)
    agent = agent_of(cloud, "node-1")
    with ThreadPoolExecutor(1) as threads:
        shown = threads.submit(cloud.alice.post, f"/servers/{server}/action", {"os-getConsoleOutput": {"length": 2}})
        (call,) = agent.calls(wait="20")
        assert (call["verb"], call["arguments"]) == ("console_log", {"lines": 2})
        assert agent.report(call, result="\x1b[1mbooted\x00\nlogin: ").status == 200
        assert shown.result(15).json == {"output": "\x1b[1mbooted\nlogin: "}
    assert cloud.rows(tables.agent_calls) == []


def test_database_removes_the_calls_of_a_job(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    spawning(cloud)
    with cloud.connection.begin() as connection:
        connection.execute(sa.delete(tables.work))
    assert cloud.rows(tables.agent_calls) == []
    cloud.time.advance(timedelta(minutes=1).total_seconds())


@pytest.mark.sqlite_only
def test_routine_requests_of_agents_are_not_in_the_log_unless_they_fail(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, log = with_agents(build_cloud, 1), CapturingLogger()
    monkeypatch.setattr(middleware, "log", log)
    agent = agent_of(cloud, "node-1")
    agent.heartbeat()
    agent.calls()
    agent_of(cloud, "node-1", user="mallory").heartbeat()
    agent.client.get("/hosts/node-1/servers")
    assert [call.method_name for call in log.calls] == ["debug", "debug", "info", "info"]


def test_second_machine_with_the_name_of_a_host_is_refused(build_cloud: BuildCloud) -> None:
    """A cloned image: its agent would report the other machine's guests as ended."""
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1").start(machine_id="a")
    refused = agent.register(machine_id="b", address="10.9.9.9")
    assert (refused.status, "runs on another machine, 10.0.0.1" in refused.message) == (409, True)
    assert agent.register(machine_id="a").status == 200, "its agent starts again"
    with cloud.store.write() as tx:
        known = tx.agents.by_host("node-1")
        assert known is not None
        tx.agents.fence(known.host_id)
    assert agent.register(machine_id="b").status == 200, "the first machine is down; this one takes its place"
    assert agent.register(machine_id="a").status == 409


def test_heartbeat_of_another_machine_is_refused(build_cloud: BuildCloud) -> None:
    """It counts as no contact, so a machine that was replaced fences itself."""
    cloud = with_agents(build_cloud, 2)
    agent, other = agent_of(cloud, "node-1").start(machine_id="a"), agent_of(cloud, "node-2").start()
    seen = cloud.rows(tables.agents)
    cloud.time.advance(5)
    for state in ("up", "starting"):
        refused = agent.heartbeat(state, machine_id="b")
        assert (refused.status, "runs on another machine, 10.0.0.1" in refused.message) == (409, True)
    assert cloud.rows(tables.agents) == seen
    for machine in ("a", None):
        assert agent.heartbeat(machine_id=machine).status == 200
    assert other.heartbeat(machine_id="b").status == 200, "it has registered without one"


def test_heartbeats_of_two_machines_at_once_are_told_apart(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    agent_of(cloud, "node-1").start(machine_id="a")
    beats = [Heartbeat("node-1", UserId("node-1"), AgentState.UP, machine) for machine in ("b", "a", None)]
    with cloud.store.write() as tx:
        assert _store_heartbeats(tx, beats) == [None, (None,), (None,)]


def test_another_machine_takes_the_name_of_a_host_only_when_that_runs_no_guests(build_cloud: BuildCloud) -> None:
    """A host that is down may run its guests, and the other machine would report them as ended."""
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1").start(machine_id="a")
    cloud.time.advance(70)
    with cloud.store.write() as tx:
        assert tx.agents.take_silent(60) != []
    refused = agent.register(machine_id="b")
    assert (refused.status, "covey host fence node-1 --off" in refused.message) == (409, True)
    with cloud.store.write() as tx:
        known = tx.agents.by_host("node-1")
        assert known is not None
        tx.agents.fence(known.host_id)
    assert agent.register(machine_id="b").status == 200
    assert agent.heartbeat(machine_id="a").status == 409


def test_agents_that_tell_no_machine_are_registered(build_cloud: BuildCloud) -> None:
    agent = agent_of(build_cloud(1, BACKEND), "node-1")
    for machine in (None, "a", None, "b"):
        assert agent.register(machine_id=machine).status == 200


@pytest.mark.sqlite_only
@pytest.mark.parametrize("address", ["hv3", "hv3.example.org", "10.0.0.3", "2001:db8::3", "[2001:db8::3]"])
def test_host_name_or_ip_address_is_accepted(module_cloud: Cloud, address: str) -> None:
    assert agent_of(module_cloud, "node-1").register(address=address).status == 200


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "address", ["", "-oProxyCommand=x", "x/?command=reboot", "user@hv3", "hv3:22", "hv 3", "hv3\n", "[hv3]", "h%76"]
)
def test_address_that_would_change_the_uri_of_a_migration_is_400(module_cloud: Cloud, address: str) -> None:
    assert agent_of(module_cloud, "node-1").register(address=address).status == 400


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("user", "host", "status"),
    [
        ("node-1", "node-1", 200),
        ("agent-node-1", "node-1", 200),
        ("node-1", "node-1.example.org", 200),
        ("node-2", "node-1", 403),
        ("node-1.example.org", "node-1", 403),
        ("agent", "node-1", 403),
    ],
)
def test_host_is_bound_to_a_user_who_has_its_name(build_cloud: BuildCloud, user: str, host: str, status: int) -> None:
    cloud = build_cloud(0, BACKEND)
    assert agent_of(cloud, host, user).register().status == status
    assert len(cloud.rows(tables.hosts)) == (status == 200)


def test_host_is_bound_to_the_first_user_where_the_operator_allows_it(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1, BACKEND, ("agents", "binding", "first"))
    assert agent_of(cloud, "node-1", "agents").register().status == 200
    assert agent_of(cloud, "node-1").register().status == 403


@pytest.mark.sqlite_only
def test_agent_overwrites_only_the_ratios_that_its_operator_sets(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the service has may be an operator's, by the Placement API."""
    assert agent_command._settings(config.load(())).allocation_ratios == {}
    monkeypatch.setenv("OS_AGENT__CPU_ALLOCATION_RATIO", "2.5")
    assert agent_command._settings(config.load(())).allocation_ratios == {"VCPU": 2.5}
    cloud = build_cloud(0, BACKEND)
    unset = {kind: {"total": 64, "allocation_ratio": None} for kind in INVENTORIES}
    agent = agent_of(cloud, "node-1").start(inventories=unset)

    def ratio() -> float:
        with cloud.store.read() as tx:
            host = tx.hosts.by_name("node-1")
        assert host is not None
        return host.inventories["VCPU"].allocation_ratio

    assert ratio() == 4.0, "of [scheduler]"
    with cloud.store.write() as tx:
        host = tx.hosts.by_name("node-1")
        assert host is not None
        tx.hosts.set_inventories([(host.id, {"VCPU": replace(host.inventories["VCPU"], allocation_ratio=8.0)})])
    agent.start(inventories=unset)
    assert ratio() == 8.0
