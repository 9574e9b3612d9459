"""Calls reach polls that wait: with the commit that stores them, or by a look at the database."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from covey.api.agent import resources
from covey.api.authentication.noauth import NoAuth
from covey.model.agents import AgentState, NewCall, TakenCall, Verb
from covey.model.errors import Invalid, Unauthorized
from covey.model.ids import HostId, ServerId, UserId
from covey.services.agents import call_polls
from covey.services.agents.call_polls import CallPolls
from covey.storage import tables
from tests.functional.agents import agent_of, boot, with_agents
from tests.functional.fleets import BuildCloud, Cloud

SERVER = ServerId("5b9a4f6e-8a0e-4f0c-9a0d-0c1f4e0d7a11")


def polls_of(cloud: Cloud) -> CallPolls:
    return cloud.assembled.services.agents.work.polls


def while_polling(cloud: Cloud, poll: Callable[[], Any], action: Callable[[], object]) -> Any:
    """Return what a poll returns that waits while the action runs."""
    before = len(polls_of(cloud))
    with ThreadPoolExecutor(1) as threads:
        polled: Future[Any] = threads.submit(poll)
        while len(polls_of(cloud)) == before:
            time.sleep(0.005)
        action()
        return polled.result(15)


def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep polls from looking into the database."""
    monkeypatch.setattr(call_polls, "_INTERVAL_S", 3600.0)


def create_and_step(cloud: Cloud, servers: int = 1) -> None:
    for _ in range(servers):
        cloud.request_server(cloud.alice)
    cloud.step()


def test_waiting_poll_gets_a_call_with_the_commit_that_stores_it(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_looks(monkeypatch)
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1")
    (call,) = while_polling(cloud, lambda: agent.calls(wait="20"), lambda: create_and_step(cloud))
    assert (call["verb"], call["guest"]["keys"], call["guest"]["user_data"]) == ("spawn", [], None)
    (row,) = cloud.rows(tables.agent_calls)
    assert (row.state, row.leased_until is not None) == ("running", True)
    assert agent.calls() == [], "the agent has it"
    assert agent.report(call).status == 200
    cloud.step()
    assert cloud.rows(tables.agent_calls) == []


def test_call_that_a_lost_poll_got_is_handed_out_again_after_its_lease(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_looks(monkeypatch)
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1")
    (lost,) = while_polling(cloud, lambda: agent.calls(wait="20"), lambda: create_and_step(cloud))
    cloud.time.advance(29)
    assert agent.calls() == []
    cloud.time.advance(2)
    assert agent.call() == lost


def test_agent_whose_user_was_revoked_during_its_wait_gets_no_calls(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_looks(monkeypatch)
    monkeypatch.setattr(resources, "_CHECK_S", 0.0, raising=False)
    cloud = with_agents(build_cloud, 1)
    agent, authenticate = agent_of(cloud, "node-1"), NoAuth.__call__

    def without_agent(auth: NoAuth, environ: Any) -> Any:
        actor = authenticate(auth, environ)
        if actor.user_id == agent.host:
            raise Unauthorized("revoked")
        return actor

    with monkeypatch.context() as patch:

        def revoke_and_create() -> None:
            patch.setattr(NoAuth, "__call__", without_agent)
            create_and_step(cloud)

        poll = partial(agent.client.get, "/hosts/node-1/calls", wait="20")
        assert while_polling(cloud, poll, revoke_and_create).status == 401
    cloud.time.advance(31)
    assert agent.call()["verb"] == "spawn", "it is due again after its lease"


def test_poll_gets_no_more_calls_than_it_asked_for(build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    no_looks(monkeypatch)
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1")
    taken = while_polling(cloud, lambda: agent.calls(wait="20", limit="2"), lambda: create_and_step(cloud, 3))
    rest = agent.calls()
    assert (len(taken), len(rest)) == (2, 1)
    assert len({call["id"] for call in [*taken, *rest]}) == 3


def test_only_the_newest_poll_of_a_host_gets_a_call(build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one is that of an agent that was killed."""
    no_looks(monkeypatch)
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1")
    with ThreadPoolExecutor(1) as threads:
        old = threads.submit(agent.calls, wait="1")
        while not len(polls_of(cloud)):
            time.sleep(0.005)
        new = while_polling(cloud, lambda: agent.calls(wait="20"), lambda: create_and_step(cloud))
        assert (len(new), old.result(15)) == (1, [])


def test_third_poll_of_a_host_ends_the_oldest(build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    no_looks(monkeypatch)
    polls = polls_of(with_agents(build_cloud, 1))
    waits: list[Future[list[TakenCall]]] = []
    with ThreadPoolExecutor(4) as threads:
        for number, host in enumerate((1, 2, 1, 1)):
            waits.append(threads.submit(polls.wait, HostId(host), 20.0, 16))
            while len(polls) < min(number + 1, 3):
                time.sleep(0.005)
        assert waits[0].result(15) == []
        assert not any(wait.done() for wait in waits[1:])
        for host in (1, 2):
            polls.end(HostId(host))
        assert [wait.result(15) for wait in waits] == [[]] * 4


def test_registration_ends_the_polls_of_an_agent_that_was_killed(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would get calls that no agent carries out before the lease ends."""
    no_looks(monkeypatch)
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1")
    assert while_polling(cloud, lambda: agent.calls(wait="20"), agent.start) == []
    create_and_step(cloud)
    assert agent.call()["verb"] == "spawn"


def test_waiting_poll_gets_calls_that_another_process_stores(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 2)
    agent = agent_of(cloud, "node-1")
    guest = agent_guest(cloud)

    def store() -> None:
        with cloud.store.write() as tx:
            (host, _) = tx.agents.states(["node-1"])["node-1"]
            tx.agent_calls.add([NewCall(host, SERVER, None, Verb.CONSOLE_LOG, 0, {"lines": 1}, guest)], 30)

    (call,) = while_polling(cloud, lambda: agent.calls(wait="20"), store)
    assert (call["verb"], call["arguments"]) == ("console_log", {"lines": 1})


def agent_guest(cloud: Cloud) -> dict[str, object]:
    """Return the guest document of a server."""
    boot(cloud, 2)
    found = [
        each["guest"]
        for number in (1, 2)
        for each in agent_of(cloud, f"node-{number}").client.get(f"/hosts/node-{number}/servers").json["servers"]
    ]
    document: dict[str, object] = found[0]
    return document


def test_calls_of_a_failed_transaction_reach_no_poll(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    polls = CallPolls(cloud.store, 30.0)
    host = HostId(1)

    def fail() -> None:
        with polls.handing_out() as handout:
            assert handout.accepts(host)
            handout.add(TakenCall(1, host, Verb.SPAWN, 1, {}, {}))
            raise Invalid("rolled back")

    with ThreadPoolExecutor(1) as threads:
        polled = threads.submit(polls.wait, host, 20, 16)
        while not len(polls):
            time.sleep(0.005)
        with pytest.raises(Invalid):
            fail()
        assert polled.result(15) == []


def test_poll_whose_time_is_over_waits_for_the_calls_that_are_being_stored(build_cloud: BuildCloud) -> None:
    polls, host = CallPolls(with_agents(build_cloud, 1).store, 30.0), HostId(1)
    call = TakenCall(1, host, Verb.SPAWN, 1, {}, {})
    with ThreadPoolExecutor(1) as threads:
        polled = threads.submit(polls.wait, host, 0.2, 16)
        while not len(polls):
            time.sleep(0.005)
        with polls.handing_out() as handout:
            assert handout.accepts(host)
            time.sleep(0.4)
            assert not polled.done()
            handout.add(call)
        assert polled.result(15) == [call]


def test_heartbeats_in_one_statement_keep_users_and_states_apart(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 3)
    owners = [("node-1", "node-1"), ("node-2", "mallory"), ("node-9", "node-9"), ("node-3", "node-3")]
    beats = [(host, UserId(user), None) for host, user in owners]
    with cloud.store.read() as tx:
        before = {agent.host_name: agent.heartbeat_at for agent in tx.agents.all()}
    cloud.time.advance(5)
    agent_of(cloud, "node-3").register(self_fencing_s=None)  # it is starting
    with cloud.store.write() as tx:
        recorded = tx.agents.heartbeat(beats, AgentState.UP)
        assert recorded == {("node-1", UserId("node-1")): (None, None)}
        after = {agent.host_name: agent.heartbeat_at for agent in tx.agents.all()}
    assert after["node-1"] > before["node-1"]
    assert after["node-2"] == before["node-2"]


def test_reports_in_one_transaction_are_answered_one_by_one(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 1)
    agent = agent_of(cloud, "node-1")
    create_and_step(cloud, 3)
    calls = agent.calls()
    reported = [
        (calls[0], agent, "done"),
        ({**calls[1], "epoch": calls[1]["epoch"] - 1}, agent, "done"),
        (calls[2], agent_of(cloud, "node-1", user="mallory"), "done"),
        (calls[2], agent, "failed"),
    ]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda each: each[1].report(each[0], each[2]).status, reported))
    assert answers == [200, 409, 403, 200]
    states = {row.id: row.state for row in cloud.rows(tables.agent_calls)}
    assert states == {calls[0]["id"]: "done", calls[1]["id"]: "running", calls[2]["id"]: "failed"}


def test_unexpected_error_does_not_end_the_thread(build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = with_agents(build_cloud, 2)
    guest, agent = agent_guest(cloud), agent_of(cloud, "node-1")
    find, failed = CallPolls._find, threading.Event()

    def fails_once(polls: CallPolls) -> None:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError
        find(polls)

    monkeypatch.setattr(CallPolls, "_find", fails_once)

    def store() -> None:
        assert failed.wait(15)
        with cloud.store.write() as tx:
            host = tx.agents.states(["node-1"])["node-1"][0]
            tx.agent_calls.add([NewCall(host, SERVER, None, Verb.CONSOLE_LOG, 0, {}, guest)], 30)

    (call,) = while_polling(cloud, lambda: agent.calls(wait="20"), store)
    assert call["verb"] == "console_log"


def test_maintenance_deletes_calls_whose_request_has_died(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud, 2)
    guest = agent_guest(cloud)
    create_and_step(cloud)
    with cloud.store.write() as tx:
        host = tx.agents.states(["node-1"])["node-1"][0]
        tx.agent_calls.add([NewCall(host, SERVER, None, Verb.CONSOLE_LOG, 0, {}, guest)], 30)
    for seconds, verbs in ((0, {"spawn", "console_log"}), (590, {"spawn", "console_log"}), (70, {"spawn"})):
        cloud.time.advance(seconds)
        cloud.assembled.maintenance.run_if_due()
        assert {row.verb for row in cloud.rows(tables.agent_calls)} == verbs, "a job keeps its calls"
