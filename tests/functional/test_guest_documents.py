"""What agents get of a server, and what they report of its guest: boot data, console, migration, power."""

import base64
from typing import Any

import pytest

from covey.services.overview import get_overview
from covey.storage import tables
from tests.acceptance.openapi_resources import PUBLIC_KEY
from tests.functional.agents import agent_of, boot, host_of, with_agents, work
from tests.functional.fleets import IMAGE, BuildCloud, Cloud

USER_DATA = base64.b64encode(b"#!/bin/sh\necho hello\n").decode()


def migrating(cloud: Cloud) -> tuple[str, Any, Any]:
    """Return a server that migrates, its agent, and the agent's call."""
    server = boot(cloud)
    cloud.act(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    cloud.step()
    agent = host_of(cloud, server)
    return server, agent, agent.call()


def migrations(cloud: Cloud, server: str) -> list[Any]:
    found: list[Any] = cloud.admin.get(f"/servers/{server}/migrations").json["migrations"]
    return found


def power_of(cloud: Cloud, server: str) -> tuple[str, int]:
    shown = cloud.alice.get(f"/servers/{server}").json["server"]
    return shown["status"], shown["OS-EXT-STS:power_state"]


@pytest.mark.sqlite_only
def test_guest_gets_key_user_data_and_image(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    cloud.add_key_pair("laptop")
    server = cloud.request_server(cloud.alice, key_name="laptop", user_data=USER_DATA, name="Web 1").json["server"][
        "id"
    ]
    assert cloud.alice.delete("/os-keypairs/laptop").status in {202, 204}, "the server keeps the key"
    cloud.step()
    guest = host_of(cloud, server).call()["guest"]
    assert guest["user_data"] == USER_DATA
    assert guest["keys"] == [{"name": "laptop", "public_key": PUBLIC_KEY}]
    assert (guest["image"]["id"], guest["hostname"]) == (IMAGE, "web-1")


@pytest.mark.sqlite_only
def test_server_without_boot_data_stores_none(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    boot(cloud)
    assert cloud.rows(tables.server_boot_data) == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize("user_data", ["not base64!", "QQ=", "A" * 65536])
def test_invalid_user_data_returns_400(build_cloud: BuildCloud, user_data: str) -> None:
    answer = build_cloud(1).alice.post(
        "/servers",
        {"server": {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none", "user_data": user_data}},
    )
    assert answer.status == 400
    assert "user_data" in answer.message


def test_live_migration_shows_its_progress(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, agent, call = migrating(cloud)
    (shown,) = migrations(cloud, server)
    assert (shown["status"], shown["memory_processed_bytes"]) == ("preparing", None)
    progress = {"percent": 25, "processed_bytes": 256, "total_bytes": 1024, "remaining_bytes": 768}
    assert agent.report(call, "running", progress=progress).status == 200
    (shown,) = migrations(cloud, server)
    amounts = [shown[f"memory_{name}_bytes"] for name in ("processed", "total", "remaining")]
    assert (shown["status"], amounts) == ("running", [256, 1024, 768])
    one = cloud.admin.get(f"/servers/{server}/migrations/{shown['id']}")
    assert one.json["migration"] == shown
    agent.report(call)
    cloud.step()
    assert migrations(cloud, server) == []
    assert cloud.admin.get(f"/servers/{server}/migrations/{shown['id']}").status == 404
    assert cloud.alice.get(f"/servers/{server}/migrations").status == 403


def test_aborted_live_migration_leaves_the_server_on_its_host(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, agent, call = migrating(cloud)
    (shown,) = migrations(cloud, server)
    path = f"/servers/{server}/migrations/{shown['id']}"
    assert cloud.alice.delete(path).status == 403
    assert cloud.admin.delete(path).status == 202
    cloud.step()
    assert agent.report(call, "running").json == {"abort": True}
    assert agent.report(call, "failed", error="aborted").status == 200
    cloud.step()
    assert host_of(cloud, server).host == agent.host
    assert power_of(cloud, server)[0] == "ACTIVE"
    (move,) = cloud.admin.get("/os-migrations").json["migrations"]
    assert move["status"] == "cancelled"
    assert cloud.admin.delete(path).status == 400


def test_live_migration_that_no_agent_began_is_aborted_at_once(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    cloud.act(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    cloud.step()
    (shown,) = migrations(cloud, server)
    assert cloud.admin.delete(f"/servers/{server}/migrations/{shown['uuid']}").status == 202
    cloud.step()
    assert host_of(cloud, server).calls() == []
    assert cloud.admin.get("/os-migrations").json["migrations"][0]["status"] == "cancelled"


def test_live_migration_that_arrives_before_its_abort_is_complete(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, agent, call = migrating(cloud)
    (shown,) = migrations(cloud, server)
    agent.report(call)
    assert cloud.admin.delete(f"/servers/{server}/migrations/{shown['id']}").status == 202
    cloud.step()
    assert host_of(cloud, server).host != agent.host


def test_abort_of_another_servers_migration_returns_404(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, _, _ = migrating(cloud)
    (shown,) = migrations(cloud, server)
    other = boot(cloud)
    assert cloud.admin.delete(f"/servers/{other}/migrations/{shown['id']}").status == 404


def test_server_deleted_while_it_migrates_is_destroyed_on_both_hosts_source_first(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, source, call = migrating(cloud)
    destination = agent_of(cloud, call["arguments"]["destination"]["name"])
    cloud.alice.delete(f"/servers/{server}")
    cloud.step()
    assert destination.calls() == []
    assert source.report(call).status == 409
    source.report(source.call())
    cloud.step()
    assert destination.call()["verb"] == "destroy"
    assert cloud.alice.get(f"/servers/{server}").status == 200


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("seen", "final"),
    [("shutdown", ("SHUTOFF", 4)), ("crashed", ("SHUTOFF", 6)), ("paused", ("ACTIVE", 3)), ("running", ("ACTIVE", 1))],
)
def test_power_state_that_a_host_saw_is_shown(build_cloud: BuildCloud, seen: str, final: tuple[str, int]) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    agent = host_of(cloud, server)
    events = {"events": [{"server": server, "power": seen, "epoch": 5}]}
    assert agent.client.post(f"/hosts/{agent.host}/events", events).json == {"repeat": []}
    assert power_of(cloud, server) == final


def test_power_state_is_ignored_from_other_hosts_and_during_a_task(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    agent = host_of(cloud, server)
    other = agent_of(cloud, "node-1" if agent.host != "node-1" else "node-2")
    events = {"events": [{"server": server, "power": "crashed"}, {"server": "nonsense", "power": "crashed"}]}
    assert other.client.post(f"/hosts/{other.host}/events", events).json == {"repeat": []}
    assert power_of(cloud, server) == ("ACTIVE", 1)
    cloud.act(cloud.alice, server, "reboot", {"type": "HARD"})
    assert agent.client.post(f"/hosts/{agent.host}/events", events).json == {"repeat": [server]}
    assert power_of(cloud, server) == ("HARD_REBOOT", 1)
    work(cloud)
    assert agent.client.post(f"/hosts/{agent.host}/events", events).json == {"repeat": []}
    assert power_of(cloud, server) == ("SHUTOFF", 6)


def test_power_state_from_before_the_last_call_is_ignored(build_cloud: BuildCloud) -> None:
    """The guest ended by itself, and was started before the report arrived."""
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    agent = host_of(cloud, server)

    def seen(power: str, epoch: int) -> tuple[str, int]:
        events = {"events": [{"server": server, "power": power, "epoch": epoch}]}
        assert agent.client.post(f"/hosts/{agent.host}/events", events).status == 200
        return power_of(cloud, server)

    epochs = []
    for action in ("os-stop", "os-start"):
        cloud.act(cloud.alice, server, action)
        cloud.step()
        call = agent.call()
        cloud.time.advance(20)
        agent.report(call, "running")
        cloud.time.advance(15)
        cloud.step()  # the job has a newer lease; the call keeps its epoch
        assert agent.report(call).status == 200
        cloud.step()
        epochs.append(call["epoch"])
    stopped_at, started_at = epochs
    assert power_of(cloud, server) == ("ACTIVE", 1)
    assert seen("shutdown", stopped_at) == ("ACTIVE", 1)
    assert work(cloud) == []
    (shown,) = agent.client.get(f"/hosts/{agent.host}/servers").json["servers"]
    assert (shown["epoch"], shown["task"], shown["guest"]["power"]) == (started_at, None, "running")
    assert seen("crashed", started_at) == ("SHUTOFF", 6), "it happened to the guest that was started"


def test_power_of_a_migrated_guest_is_accepted(build_cloud: BuildCloud) -> None:
    """Its metadata may have the epoch of a call before the one that ended the migration."""
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    epoch = cloud.rows(tables.servers)[0].call_epoch or 1
    cloud.act(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    work(cloud)
    agent = host_of(cloud, server)
    events = {"events": [{"server": server, "power": "crashed", "epoch": epoch}]}
    assert agent.client.post(f"/hosts/{agent.host}/events", events).status == 200
    assert power_of(cloud, server) == ("SHUTOFF", 6)


def test_stopped_server_that_runs_is_stopped_again(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    agent = host_of(cloud, server)
    cloud.act(cloud.alice, server, "os-stop")
    work(cloud)
    events = {"events": [{"server": server, "power": "running"}]}
    agent.client.post(f"/hosts/{agent.host}/events", events)
    assert work(cloud) == [(agent.host, "power")]
    assert power_of(cloud, server) == ("SHUTOFF", 4)


@pytest.mark.sqlite_only
def test_crashed_server_can_be_started(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    agent = host_of(cloud, server)
    agent.client.post(f"/hosts/{agent.host}/events", {"events": [{"server": server, "power": "crashed"}]})
    cloud.act(cloud.alice, server, "os-start")
    work(cloud)
    assert power_of(cloud, server) == ("ACTIVE", 1)


@pytest.mark.sqlite_only
def test_console_log_of_a_simulated_server(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    server = cloud.boot(name="web")
    answer = cloud.act(cloud.alice, server, "os-getConsoleOutput", {"length": 1})
    assert (answer.status, answer.json) == (200, {"output": "web login: "})
    assert cloud.act(cloud.bob, server, "os-getConsoleOutput", {}).status == 404
    output = cloud.act(cloud.alice, server, "os-getConsoleOutput", {}).json["output"]
    assert (server in output, str(cloud.host(server)) in output) == (True, False), "a tenant learns no host"


@pytest.mark.sqlite_only
def test_console_log_of_a_host_that_does_not_answer_returns_503(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server = boot(cloud)
    host_of(cloud, server).register()
    answer = cloud.act(cloud.alice, server, "os-getConsoleOutput", {})
    assert (answer.status, answer.message) == (503, "The server's host does not answer. Try again in a moment.")
    assert cloud.rows(tables.agent_calls) == []


def test_health_and_overview_show_agents_and_running_migrations(build_cloud: BuildCloud) -> None:
    cloud = with_agents(build_cloud)
    server, agent, call = migrating(cloud)
    progress = {"percent": 10, "processed_bytes": 256, "total_bytes": 1024, "remaining_bytes": 768}
    agent.report(call, "running", progress=progress)
    cloud.time.advance(5)
    shown = cloud.admin.below("/dashboard").get("/data/health").json
    destination = call["arguments"]["destination"]["name"]
    move = {"server": server, "source": agent.host, "destination": destination, "live": True, "percent": 25}
    assert shown["migrations"] == [move]
    assert [(each["host"], each["state"]) for each in shown["agents"]] == [(f"node-{i}", "up") for i in (1, 2, 3)]
    assert all(each["heartbeat_age_s"] >= 5 for each in shown["agents"])
    found = get_overview(cloud.store, "nova")
    assert [(move.server_id, move.source) for move in found.migrations] == [(server, agent.host)]
    assert len(found.agents) == 3
    assert not any("not report" in warning for warning in found.warnings)
    with cloud.store.write() as tx:
        tx.agents.take_silent(1)
    warnings = get_overview(cloud.store, "nova").warnings
    assert "3 agents do not report: node-1, node-2, node-3. The hosts take no servers." in warnings
