"""Real agents with simulated hypervisors, and a real service that they work for."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from covey.agent.simulated_world import World
from tests.acceptance.processes import Process, start_covey
from tests.acceptance.storm import UNLIMITED, KillableProcess, settings
from tests.agreement import disagreements, wait_for_agreement

TIMEOUT_S = 60.0
MAX_SERVERS = 1000
IMAGE_DATA = b"a bootable disk" * 1000
SERVICE = settings(
    UNLIMITED,  # tests that share a service leave their servers
    DRIVER__BACKEND="agents",
    AGENTS__HEARTBEAT_S="0.5",
    AGENTS__DOWN_AFTER="3",
    AGENTS__CALL_LEASE_S="3",
    WORKER__LEASE_S="3",
    WORKER__POLL_INTERVAL_S="0.05",
    IMAGE__DATA_DIR="images",
)


def wait_until(true: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.05)


@dataclass
class AgentProcess:
    """A `covey agent` that can be stopped, killed and started again; its guests stay."""

    host: str
    url: str
    directory: Path
    world_file: Path
    variables: dict[str, str] = field(default_factory=dict)
    process: Process | None = None

    @property
    def log(self) -> str:
        return (self.directory / "stderr.log").read_text()

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        options = {
            "OS_AGENT__AUTH_STRATEGY": "none",
            "OS_SIMULATED_HYPERVISOR__STATE_FILE": str(self.world_file),
            **{f"OS_{name}": value for name, value in self.variables.items()},
        }
        where = ("--host", self.host, "--service", self.url, "--state-dir", "state")
        with (self.directory / "stderr.log").open("ab") as stderr, Path(os.devnull).open("wb") as stdout:
            self.process = start_covey(
                self.directory,
                *("agent", "--hypervisor", "simulated", *where),
                variables=options,
                stdout=stdout,
                stderr=stderr,
            )

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        return self._end(signal.SIGTERM)

    def exit_status(self) -> int:
        """Return the exit status of an agent that ends by itself."""
        assert self.process is not None
        return self.process.wait(TIMEOUT_S)

    def wait_for(self, words: str, times: int = 1) -> None:
        """Wait until the log has these words so many times."""
        wait_until(lambda: self.log.count(words) >= times, f"{self.host} logs {words}")

    def _end(self, number: int) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(number)
        status = self.process.wait(TIMEOUT_S)
        self.process = None
        return status


@dataclass
class AgentLab:
    """A service, the world of simulated hosts, and the agents of some of them."""

    directory: Path
    database: str
    variables: Mapping[str, str] = field(default_factory=dict)
    agents: dict[str, AgentProcess] = field(default_factory=dict)
    flavor: str = "small"
    image: str = ""
    _left: set[str] = field(default_factory=set)  # servers of earlier tests, whose agents are gone

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.world_file = self.directory / "world.sqlite"
        self.world = World(self.world_file)
        self.service = KillableProcess(self.directory / "serve", self.database, {**SERVICE, **self.variables})
        self.url = f"http://127.0.0.1:{self.service.port}"

    def prepare(self) -> None:
        """Give the service a flavor, and an image with data."""
        flavor = {"name": "small", "id": "small", "vcpus": 1, "ram": 512, "disk": 1}
        self.ask("POST", "/compute/v2.1/flavors", {"flavor": flavor})
        fields = {"name": "linux", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        self.image = self.ask("POST", "/image/v2/images", fields)["id"]
        sent = requests.put(
            f"{self.url}/image/v2/images/{self.image}/file",
            data=IMAGE_DATA,
            headers={**_HEADERS, "Content-Type": "application/octet-stream"},
            timeout=TIMEOUT_S,
        )
        assert sent.status_code == 204, sent.text

    def kill_agents(self) -> None:
        for agent in self.agents.values():
            agent.kill()
        self.agents.clear()

    def leave(self) -> None:
        """End a test of several that share the lab: the next ones do not look at the servers that it leaves."""
        self._end_agents()
        self._left |= {server["id"] for server in self._servers()}
        self._left |= {
            row["server"] for row in self.world.read("SELECT server FROM guests UNION SELECT server FROM disks")
        }

    def close(self) -> None:
        self._end_agents()
        self.service.kill()

    def _end_agents(self) -> None:
        """Kill the agents, and end their guardians, which guard no host without a contact."""
        self.kill_agents()
        for contact in self.directory.glob("*/state/contact.json"):
            contact.unlink()

    def agent(self, host: str, *, latency_s: float = 0.0, **variables: str) -> AgentProcess:
        """Return the agent of a host, not started; variables are GROUP__OPTION."""
        variables = {"SIMULATED_HYPERVISOR__LATENCY_S": str(latency_s), **variables}
        agent = AgentProcess(host, self.url, self.directory / host, self.world_file, variables)
        self.agents[host] = agent
        return agent

    def started(self, *hosts: str, latency_s: float = 0.0, **variables: str) -> list[AgentProcess]:
        """Start agents, and wait until they are up."""
        agents = [self.agent(host, latency_s=latency_s, **variables) for host in hosts]
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.wait_for("agent.up")
        return agents

    def ask(self, method: str, path: str, body: object = None, *, status: int | None = None) -> Any:
        """Return the document of a response. The status is 2xx, or the given one."""
        response = requests.request(method, self.url + path, json=body, headers=_HEADERS, timeout=TIMEOUT_S)
        assert response.ok if status is None else response.status_code == status, (response.status_code, response.text)
        return response.json() if response.content else None

    def boot(self, name: str, host: str | None = None) -> str:
        """Boot a server, forced to a host if one is given. Return its id."""
        server = {"name": name, "flavorRef": self.flavor, "imageRef": self.image, "networks": "none"}
        if host is not None:
            server["availability_zone"] = f"nova:{host}"
        return str(self.ask("POST", "/compute/v2.1/servers", {"server": server})["server"]["id"])

    def booted(self, name: str, host: str | None = None) -> str:
        """Boot a server, and wait until it is active."""
        server = self.boot(name, host)
        self.wait_for(server, "ACTIVE")
        return server

    def act(self, server: str, action: str, **details: object) -> None:
        self.ask("POST", f"/compute/v2.1/servers/{server}/action", {action: details or None})

    def server(self, server: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/compute/v2.1/servers/{server}")["server"]
        return found

    def host_of(self, server: str) -> str | None:
        host: str | None = self.server(server)["OS-EXT-SRV-ATTR:host"]
        return host

    def wait_for(self, server: str, status: str) -> dict[str, Any]:
        """Wait until a server has the status and no task."""
        wait_until(lambda: self._is(server, status), f"server {server} is {status}")
        return self.server(server)

    def delete(self, server: str) -> None:
        self.ask("DELETE", f"/compute/v2.1/servers/{server}")

    def wait_until_gone(self, server: str) -> None:
        url = f"{self.url}/compute/v2.1/servers/{server}"
        gone = lambda: requests.get(url, headers=_HEADERS, timeout=TIMEOUT_S).status_code == 404  # noqa: E731
        wait_until(gone, f"server {server} is gone")

    def service_state(self, host: str) -> str | None:
        """Return the state of a host's compute service, up or down."""
        services = self.ask("GET", "/compute/v2.1/os-services?binary=nova-compute")["services"]
        return next((each["state"] for each in services if each["host"] == host), None)

    def wait_for_agreement(self) -> None:
        """Wait until rows and guests agree. The error has what does not."""
        wait_for_agreement(self.disagreements, TIMEOUT_S)

    def disagreements(self) -> list[str]:
        """Return a sentence for each server whose guest is not as its row says, and for each guest without a row."""
        servers = [each for each in self._servers() if each["id"] not in self._left]
        guests: dict[str, dict[str, str]] = {}
        for row in self.world.read("SELECT host, server, power FROM guests"):
            if row["server"] not in self._left:
                guests.setdefault(row["server"], {})[row["host"]] = row["power"]
        disks = {row["server"] for row in self.world.read("SELECT server FROM disks")} - self._left
        double_runs = [row for row in self.world.read("SELECT * FROM double_runs") if row["server"] not in self._left]
        found = [f"{row['server']} ran on {row['host']} and {row['other_host']}" for row in double_runs]
        return found + disagreements(servers, guests, disks)

    def _servers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask(
            "GET", f"/compute/v2.1/servers/detail?all_tenants=1&limit={MAX_SERVERS}"
        )["servers"]
        return found

    def _is(self, server: str, status: str) -> bool:
        found = self.server(server)
        assert found["status"] == status or found["status"] != "ERROR", found
        return found["status"] == status and found["OS-EXT-STS:task_state"] is None


_HEADERS = {"X-Auth-Token": "admin:operators", "OpenStack-API-Version": "compute 2.90"}
