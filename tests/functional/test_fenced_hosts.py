"""Hosts that an operator fences by hand, with `covey host fence`."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from covey.cli.main import covey
from covey.clock_and_ids import random_uuid
from covey.model.errors import Conflict, CoveyError, DriverFault, Invalid, NotFound
from covey.services.agents.fenced_hosts import FencedHosts
from covey.services.agents.fencing import Fencing
from covey.storage import tables
from tests.functional.agents import HostAgent, agent_of, boot, host_of, with_agents, work
from tests.functional.fleets import BuildCloud, Cloud


def fenced_hosts(cloud: Cloud, command: str | None = "true") -> FencedHosts:
    fencing = None if command is None else Fencing(cloud.store, random_uuid, command)
    return FencedHosts(cloud.store, cloud.assembled.host_watch.notifications, fencing, silence_s=20)


def state(cloud: Cloud, host: str) -> str:
    services = cloud.admin.get("/os-services").json["services"]
    return next(str(service["state"]) for service in services if service["host"] == host)


def slow_command(directory: Path) -> str:
    """Return a command that notes in `begun` which host it fences, and ends once there is a file `end`."""
    script = directory / "fence"
    script.write_text(f"#!/bin/sh\necho $1 >> {directory}/begun\nwhile [ ! -e {directory}/end ]; do sleep 0.02; done\n")
    script.chmod(0o755)
    return str(script)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def booted(build_cloud: BuildCloud, hosts: int = 3) -> tuple[Cloud, str, HostAgent]:
    """Return a cloud with a server, and the agent of its host."""
    cloud = with_agents(build_cloud, hosts)
    server = boot(cloud, hosts)
    return cloud, server, host_of(cloud, server)


def test_fenced_host_is_down_and_its_server_is_evacuated_by_the_operator(
    build_cloud: BuildCloud, tmp_path: Path
) -> None:
    cloud, server, source = booted(build_cloud)
    called = tmp_path / "called"
    script = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    command = f"{sys.executable} -c '{script}' {called}"
    assert fenced_hosts(cloud, command).fence(source.host) == 1
    assert called.read_text() == source.host
    assert state(cloud, source.host) == "down"
    assert cloud.act(cloud.admin, server, "evacuate", {}).status == 200
    assert [verb for _, verb in work(cloud)] == ["evacuate"], "the fenced host is never asked"
    assert host_of(cloud, server).host != source.host


def test_workers_evacuate_a_fenced_host_on_request(build_cloud: BuildCloud) -> None:
    cloud, server, source = booted(build_cloud)
    assert fenced_hosts(cloud).fence(source.host, evacuate=True) == 1
    assert [verb for _, verb in work(cloud)] == ["evacuate"]
    assert host_of(cloud, server).host != source.host


def test_host_that_comes_back_is_not_fenced_any_more(build_cloud: BuildCloud) -> None:
    cloud, server, source = booted(build_cloud)
    fenced_hosts(cloud).fence(source.host)
    assert source.heartbeat().status == 404, "it registers again, and compares what runs with what should"
    source.start()
    assert state(cloud, source.host) == "up"
    assert cloud.act(cloud.admin, server, "evacuate", {}).status == 400


@pytest.mark.parametrize(
    ("command", "host", "is_off", "error"),
    [
        ("false", "node-1", False, DriverFault),
        ("/no/such/command", "node-1", False, DriverFault),
        (None, "node-1", False, Invalid),
        ("true", "node-9", False, NotFound),
        ("true", "node-1", True, Conflict),
    ],
    ids=["failed", "missing", "no command", "no agent", "said to be off but reporting"],
)
def test_host_that_is_not_fenced_stays_up(
    build_cloud: BuildCloud, command: str | None, host: str, is_off: bool, error: type[CoveyError]
) -> None:
    cloud = with_agents(build_cloud, 1)
    with pytest.raises(error):
        fenced_hosts(cloud, command).fence(host, is_off=is_off)
    assert state(cloud, "node-1") == "up"


def test_host_that_is_off_needs_no_command(build_cloud: BuildCloud) -> None:
    cloud, _, source = booted(build_cloud)
    cloud.time.advance(21)
    assert fenced_hosts(cloud, None).fence(source.host, is_off=True) == 1
    assert state(cloud, source.host) == "down"


def test_host_that_reports_after_the_command_is_not_fenced(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command was told about another machine, or the host has started again."""
    cloud = with_agents(build_cloud, 1)
    agent, hosts = agent_of(cloud, "node-1"), fenced_hosts(cloud)
    write, transactions = cloud.store.write, iter(["the lease", "the outcome"])

    def reporting() -> object:
        if next(transactions) == "the lease":
            return write()
        monkeypatch.undo()
        cloud.time.advance(1)
        assert agent.heartbeat().status == 200
        return write()

    monkeypatch.setattr(cloud.store, "write", reporting)
    with pytest.raises(Conflict, match="may run guests"):
        hosts.fence("node-1")
    assert state(cloud, "node-1") == "up"


def test_host_that_registers_while_the_command_runs_is_not_fenced(build_cloud: BuildCloud, tmp_path: Path) -> None:
    """The command was a power cycle: the host has started again, and its agent the guests."""
    cloud = with_agents(build_cloud, 1)
    hosts = fenced_hosts(cloud, slow_command(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        fenced = pool.submit(hosts.fence, "node-1")
        until((tmp_path / "begun").exists)
        agent_of(cloud, "node-1").start()
        (tmp_path / "end").touch()
        with pytest.raises(Conflict, match="may run guests"):
            fenced.result()
    assert state(cloud, "node-1") == "up"


def test_command_runs_once_at_a_time_for_a_host(build_cloud: BuildCloud, tmp_path: Path) -> None:
    """An operator fences a host while a worker, in another process, fences it as well."""
    cloud = with_agents(build_cloud, 1)
    command = slow_command(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(fenced_hosts(cloud, command).fence, "node-1")
        until((tmp_path / "begun").exists)
        with pytest.raises(Conflict, match="runs for node-1 already"):
            fenced_hosts(cloud, command).fence("node-1")
        (tmp_path / "end").touch()
        assert first.result() == 0
    assert (tmp_path / "begun").read_text() == "node-1\n"
    assert fenced_hosts(cloud, command).fence("node-1") == 0, "the lease ended with the command"


def test_command_line_fences_a_host(build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, _, source = booted(build_cloud)
    monkeypatch.setenv("OS_AGENTS__FENCE_COMMAND", "true")
    url = cloud.connection.url.render_as_string(hide_password=False)
    done = CliRunner().invoke(covey, ["host", "fence", source.host, "--database", url], catch_exceptions=False)
    assert done.output == f"{source.host} is fenced and down. Servers on it, which may be evacuated: 1.\n"
    (agent,) = (row for row in cloud.rows(tables.agents) if row.user_id == source.host)
    assert (agent.state, agent.fenced_at is not None) == ("down", True)
