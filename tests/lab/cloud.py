"""Covey in the laboratory: a service, a worker and an agent on each host; the stock client and SDK use them."""

import base64
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import openstack
import requests

from covey.cli.users import with_user, write
from tests.acceptance.processes import Cloud as ClientCloud
from tests.acceptance.processes import environment
from tests.acceptance.storm import Client
from tests.agreement import disagreements, places_of
from tests.lab.hosts import Host, Lab, wait_for
from tests.lab.sectors import boots

T = TypeVar("T")

DOWN_AFTER_S = 4
PORT = 8774
MAX_SERVERS = 1000
_PASSWORD = "secret"
_COVEY = Path(sys.executable).with_name("covey")
_NEW_NETWORK = 0x40000000  # of setns
_CONF = """\
[api]
host = {address}
port = {port}
auth_strategy = basic
users_file = {directory}/users.yaml
password_cache_s = 600
request_timeout_s = 60
connection_timeout_s = 120
[database]
connection = sqlite:///{directory}/covey.sqlite
[driver]
backend = agents
[agents]
heartbeat_s = 0.5
down_after = {down_after}
call_lease_s = 5
fence_command = sh -c 'kill -9 "$(cat "{lab}/$0/power")"'
[worker]
lease_s = 5
poll_interval_s = 0.1
[image]
data_dir = {directory}/images
[quota]
instances = -1
cores = -1
ram = -1
server_groups = -1
server_group_members = -1
"""


@dataclass(frozen=True)
class Killable:
    """A process of the cloud that is killed with SIGKILL and started again."""

    name: str
    kill: Callable[[], None]
    start: Callable[[], None]


@dataclass
class Cloud:
    """All processes of Covey, in the network of the hosts. Each agent runs on its host, and dies with it."""

    lab: Lab
    directory: Path
    shared_disks: bool = True
    down_after_s: float = DOWN_AFTER_S
    projects: Collection[str] = ()  # each has an administrator of the same name
    agent_options: Mapping[str, str] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.url = f"http://{self.lab.address}:{PORT}"
        self.instances = (self.lab.shared if self.shared_disks else self.lab.local) / "cloud"
        users: dict[str, Any] = {"projects": [], "users": []}
        users = with_user(users, "admin", "operators", ("admin",), _PASSWORD)
        for project in self.projects:
            users = with_user(users, project, project, ("admin",), _PASSWORD)
        for host in self.lab.hosts:
            users = with_user(users, host.name, "service", ("service",), _PASSWORD)
        write(self.directory / "users.yaml", users)
        self._write_clouds()
        (self.directory / "covey.conf").write_text(
            _CONF.format(
                address=self.lab.address,
                port=PORT,
                directory=self.directory,
                down_after=self.down_after_s,
                lab=self.lab.directory,
            )
        )
        # Sockets of this thread, and of no other, are in the network of the hosts.
        self._network = ThreadPoolExecutor(1, initializer=_enter_network, initargs=(self.lab.network,))
        config = openstack.config.OpenStackConfig(config_files=[str(self.clouds)], load_envvars=False)
        self._connection = openstack.connection.Connection(config=config.get_one("admin"))

    @property
    def clouds(self) -> Path:
        return self.directory / "clouds.yaml"

    @property
    def database(self) -> str:
        return f"sqlite:///{self.directory}/covey.sqlite"

    def start(self) -> None:
        """Return when the service answers and every host is up."""
        self.lab.power_cycle_unresponsive()
        self.start_service()
        self.start_worker()
        for host in self.lab.hosts:
            self.start_agent(host)
        wait_for(self.is_up)

    def power_cycle_unresponsive(self) -> None:
        """Start again what an earlier test has left off: hosts, and agents. Return when every host is up."""
        self.lab.power_cycle_unresponsive()
        for host in self.lab.hosts:
            if not host.pids_of(f"{_COVEY} agent"):
                self.kill_agent(host)
                self.start_agent(host)
        wait_for(self.is_up)

    def stop(self) -> None:
        self.sdk(lambda connection: connection.close())
        for host in self.lab.hosts:
            self.kill_agent(host)
        for name in tuple(self._running):
            self.kill(name)

    def start_service(self) -> None:
        """Return when it answers."""
        self._start("serve", *self.lab.inside(str(_COVEY), "serve", "--config-file", f"{self.directory}/covey.conf"))
        wait_for(self._is_healthy)

    def start_worker(self) -> None:
        self._start("worker", *self.lab.inside(str(_COVEY), "worker", "--config-file", f"{self.directory}/covey.conf"))

    def kill(self, name: str) -> None:
        """Kill the service or the worker, with the processes that it has started."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def killable(self) -> list[Killable]:
        """Return the service, the worker, and the agent and the libvirtd of each host."""
        hosts = self.lab.hosts
        return [
            Killable("serve", partial(self.kill, "serve"), self.start_service),
            Killable("worker", partial(self.kill, "worker"), self.start_worker),
            *(Killable(f"agent {h.name}", partial(self.kill_agent, h), partial(self.start_agent, h)) for h in hosts),
            *(Killable(f"libvirtd {h.name}", h.kill_libvirtd, h.start_libvirtd) for h in hosts),
        ]

    def covey(self, *arguments: str) -> None:
        """Run the `covey` command of an operator."""
        command = self.lab.inside(str(_COVEY), *arguments, "--config-file", f"{self.directory}/covey.conf")
        subprocess.run(command, env=environment(self.directory), check=True, timeout=60)

    def start_agent(self, host: Host, **more: str) -> None:
        options = {
            "AGENT__AUTH_STRATEGY": "basic",
            "AGENT__USERNAME": host.name,
            "AGENT__PASSWORD": _PASSWORD,
            "AGENT__INSECURE": "true",  # its network is in this machine
            "AGENT__RESERVED_MEMORY_MB": "0",
            "LIBVIRT__ADDRESS": host.address,
            "LIBVIRT__PEER_URI": "qemu+tcp://{address}/system",
            "LIBVIRT__INSTANCES_DIR": str(self.instances),
            "LIBVIRT__SHARED_DISKS": str(self.shared_disks).lower(),
            "LIBVIRT__TB_CACHE_MB": "4",
            "LIBVIRT__STOP_TIMEOUT_S": "0",
            **self.agent_options,
            **more,
        }
        state = str(host.directory / "agent")
        command = host.inside(str(_COVEY), "agent", "--host", host.name, "--service", self.url, "--state-dir", state)
        self._start(host.name, *command, **{f"OS_{name}": value for name, value in options.items()})

    def kill_agent(self, host: Host) -> None:
        for pid in host.pids_of(f"{_COVEY} agent"):
            os.kill(pid, signal.SIGKILL)
        if host.name in self._running:
            self.kill(host.name)

    def client(self) -> ClientCloud:
        """Return the stock command line client, which runs in the network of the hosts."""
        script = self.directory / "openstack"
        command = self.lab.inside(str(_COVEY.with_name("openstack")))
        script.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
        script.chmod(0o755)
        return ClientCloud(self.clouds, "admin", script)

    def sdk(self, call: Callable[[Any], T]) -> T:
        """Call with the SDK's connection, in the network of the hosts."""
        return self._network.submit(call, self._connection).result()

    def inside(self, task: Callable[[], None]) -> Callable[[], None]:
        """Return a task for a thread of its own, whose sockets are in the network of the hosts."""

        def run() -> None:
            _enter_network(self.lab.network)
            task()

        return run

    def connect(self, ports: Sequence[int], project: str, timeout_s: float = 60) -> Client:
        """Return a client of a project's administrator, for a thread in the network of the hosts."""
        secret = base64.b64encode(f"{project}:{_PASSWORD}".encode()).decode()
        return Client(ports, project, timeout_s, self.lab.address, {"Authorization": f"Basic {secret}"})

    def is_up(self) -> bool:
        """Whether the service answers, and every host is up."""
        try:
            states = self.ask("GET", "/compute/v2.1/os-services?binary=nova-compute")["services"]
        except requests.RequestException:
            return False
        return [each["state"] for each in states] == ["up"] * len(self.lab.hosts)

    def states(self) -> dict[str, str]:
        """Return the state of each host: up or down."""
        return {each.host: each.state for each in self.sdk(lambda sdk: list(sdk.compute.services()))}

    def boot(self, name: str, **attributes: Any) -> str:
        """Return the id of a server that is on its way."""
        server = {"name": name, "flavor_id": "nano", "image_id": self.image, "networks": "none"} | attributes
        return str(self.sdk(lambda sdk: sdk.compute.create_server(**server)).id)

    def upload(self, path: Path, image: str, disk_format: str = "qcow2") -> None:
        """Create a public image with this id and the data of a file."""
        fields = {"id": image, "name": path.stem, "disk_format": disk_format, "container_format": "bare"}
        self.ask("POST", "/image/v2/images", {**fields, "visibility": "public"})
        self.ask("PUT", f"/image/v2/images/{image}/file", path.read_bytes())

    def group(self, *policies: str) -> str:
        body = {"server_group": {"name": "g", "policies": policies}}
        return str(self.ask("POST", "/compute/v2.1/os-server-groups", body)["server_group"]["id"])

    def server(self, server: str) -> Any:
        return self.sdk(lambda sdk: sdk.compute.get_server(server))

    def host_of(self, server: str) -> str:
        return str(self.server(server).compute_host)

    def wait_for(self, server: str, status: str = "ACTIVE") -> Any:
        """Return a server that has the status and no task."""

        def ready() -> bool:
            found = self.server(server)
            assert found.status in {status, "BUILD"} or found.status != "ERROR", found.fault
            return found.status == status and found.task_state is None

        wait_for(ready, 90, 0.2)
        return self.server(server)

    def delete(self, *servers: str) -> None:
        """Delete servers, and wait until they are gone."""
        for server in servers:
            self.sdk(partial(_delete, server=server))
        for server in servers:
            wait_for(lambda: self.sdk(lambda sdk: sdk.compute.find_server(server)) is None, 60, 0.2)  # noqa: B023

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a document, or bytes. Return the document of the response, of microversion 2.1000 where there is one."""
        data = {"data": body} if isinstance(body, bytes) else {"json": body}
        kind = {"Content-Type": "application/octet-stream"} if isinstance(body, bytes) else {}
        call = lambda _: requests.request(  # noqa: E731
            method,
            self.url + path,
            **data,
            auth=("admin", _PASSWORD),
            headers={"OpenStack-API-Version": "compute 2.1000", **kind},
            timeout=30,
        )
        response = self.sdk(call)
        assert response.ok, response.text
        return response.json() if response.content else None

    def boots(self, server: str) -> int:
        """Return how often the disk of a server was booted."""
        log = self.instances / server / "console.log"
        return boots(log.read_text()) if log.exists() else 0

    def wait_for_boots(self, server: str, count: int) -> None:
        wait_for(lambda: self.boots(server) == count)

    def really(self) -> dict[str, set[str]]:
        """Return the servers that run on each host, as its libvirt says."""
        return {host.name: {s for s, runs in host.domains().items() if runs} for host in self.lab.hosts}

    def recorded(self) -> dict[str, set[str]]:
        """Return the servers that run on each host, as the service says."""
        servers = self.sdk(lambda sdk: list(sdk.compute.servers(all_projects=True)))
        active = [each for each in servers if each.status in {"ACTIVE", "VERIFY_RESIZE"}]
        return {host.name: {s.id for s in active if s.compute_host == host.name} for host in self.lab.hosts}

    def disagreements(self) -> list[str]:
        """Return a sentence for each server, guest and disk that is not as the service records it."""
        servers = self.ask("GET", f"/compute/v2.1/servers/detail?all_tenants=1&limit={MAX_SERVERS}")["servers"]
        guests: dict[str, dict[str, str]] = {}
        for host in self.lab.hosts:
            for server, power in host.powers().items():
                guests.setdefault(server, {})[host.name] = power
        disks = {host: {path.name for path in root.glob("*-*-*-*-*")} for host, root in self.roots.items()}
        found = disagreements(servers, guests, set().union(*disks.values()))
        if not self.shared_disks:
            places = {each["id"]: places_of(each) for each in servers}
            found += [
                f"a disk of {server} is on {host}, which does not have it"
                for host, there in disks.items()
                for server in there
                if places.get(server) and host not in (places[server] or ())
            ]
        return found

    @property
    def roots(self) -> dict[str, Path]:
        """The directories of guests' files: one that all hosts share, or one of each host."""
        if self.shared_disks:
            return {"shared": self.instances}
        return {host.name: host.directory / "local" / self.instances.name for host in self.lab.hosts}

    def logs(self) -> list[str]:
        """Return what each process has logged."""
        return [path.read_text() for path in sorted(self.directory.glob("*.log"))]

    def _start(self, name: str, *command: str, **variables: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                env=environment(self.directory, **variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _is_healthy(self) -> bool:
        try:
            return self.sdk(lambda _: requests.get(f"{self.url}/healthcheck", timeout=5).ok)
        except requests.RequestException:
            return False

    def _write_clouds(self) -> None:
        entry = {
            "auth_type": "http_basic",
            "auth": {"username": "admin", "password": _PASSWORD, "endpoint": f"{self.url}/placement"},
            "compute_endpoint_override": f"{self.url}/compute/v2.1",
            "placement_endpoint_override": f"{self.url}/placement",
            "image_endpoint_override": f"{self.url}/image",
            "clustering_endpoint_override": f"{self.url}/clustering/v1",
            "identity_endpoint_override": f"{self.url}/identity/v3",
        }
        write(self.clouds, {"clouds": {"admin": entry}})

    image: str = ""


def _delete(connection: Any, server: str) -> None:
    connection.compute.delete_server(server)


def _enter_network(pid: int) -> None:
    with Path(f"/proc/{pid}/ns/net").open() as network:
        assert ctypes.CDLL(None).setns(network.fileno(), _NEW_NETWORK) == 0
