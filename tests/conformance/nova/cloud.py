"""The laboratory while it runs: programs of Nova, Covey, and the original Placement."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from keystoneauth1.adapter import Adapter
from openstack.connection import Connection

from tests.acceptance.keystone import REGION, Keystone
from tests.acceptance.processes import BESIDE_PYTHON, Covey, covey, free_port, running_covey

HERE = Path(__file__).parent
PASSWORD = "nova-secret"
START_S = 600.0
SYNC_S = 10
_SCHEDULERS = ("scheduler-1", "scheduler-2")
_NOVA = ("computes", "nova-api", *_SCHEDULERS, "nova-conductor")  # in the order in which they stop


class LabFailed(Exception):
    """A program of the laboratory failed; the message ends with its output."""


def say(text: str, end: str = "\n") -> None:
    """Print at once: the laboratory takes minutes."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def eventually(holds: Callable[[], object], what: str, log: Path | None = None, within_s: float = START_S) -> None:
    """Wait until the function returns something true. Raises LabFailed, with the end of the log."""
    deadline = time.monotonic() + within_s
    while True:
        began = time.monotonic()
        if holds():
            return
        if began > deadline:
            raise LabFailed(f"Not within {within_s:.0f} s: {what}\n{log.read_text()[-4000:] if log else ''}")
        time.sleep(max(0.5, 2 * (time.monotonic() - began)))  # to ask costs Nova more than all else here


@dataclass
class Lab:
    """A running Nova cloud. `computes` are the names of its hosts."""

    directory: Path
    computes: Sequence[str]
    keystone: Keystone
    commands: Path
    covey_options: tuple[str, ...]
    covey_port: int = field(default_factory=free_port)
    nova_port: int = field(default_factory=free_port)
    original_port: int = field(default_factory=free_port)
    _covey: AbstractContextManager[Covey] | None = None
    _programs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def covey_url(self) -> str:
        return f"http://127.0.0.1:{self.covey_port}"

    @property
    def original_url(self) -> str:
        """The address of the original Placement."""
        return f"http://127.0.0.1:{self.original_port}/placement"

    def connect(self, user: str = "admin", project: str = "admin") -> Connection:
        """Return a connection of the SDK."""
        password = self.keystone.admin_password if user == "admin" else PASSWORD
        return Connection(session=self.keystone.session(user, password, project), region_name=REGION)

    # Covey

    def start_covey(self) -> None:
        """Start Covey, on the port that the catalogue names."""
        serve = ("serve", *self.covey_options, "--fleet", str(self.directory / "fleet.yaml"))
        self._covey = running_covey(self.directory / "covey", *serve, port=self.covey_port)
        self._covey.__enter__()

    def stop_covey(self) -> None:
        if self._covey is not None:
            self._covey.__exit__(None, None, None)
            self._covey = None

    def covey(self, *command: str, allowed: tuple[int, ...] = (0,)) -> str:
        """Run a command of Covey on its database, and return the output. Raises LabFailed."""
        clouds = {"OS_CLIENT_CONFIG_FILE": str(self.directory / "clouds.yaml")}
        done = covey(self.directory, *command, *self.covey_options, **clouds)
        if done.status not in allowed:
            raise LabFailed(f"covey {' '.join(command)}: {done.status}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def start_sync(self, *options: str) -> None:
        """Start `covey sync nova`, which reads Nova until it is stopped."""
        command = (str(BESIDE_PYTHON / "covey"), "sync", "nova", "--cloud", "admin", *options, *self.covey_options)
        self.start("covey-sync", *command, OS_CLIENT_CONFIG_FILE=str(self.directory / "clouds.yaml"))

    # Placement

    def start_original(self) -> None:
        """Start the original Placement."""
        self.start(
            "placement",
            "python",
            str(HERE / "wsgi.py"),
            "placement.wsgi.api",
            str(self.original_port),
            "/placement",
            OS_PLACEMENT_CONFIG_DIR=str(self.directory),
        )
        self._wait_for(self.original_port, "placement")

    def set_placement(self, url: str) -> None:
        """Change the endpoints of Placement in the catalogue. Programs that run keep the old one."""
        session = self.keystone.session("admin", self.keystone.admin_password, "admin")
        identity = Adapter(session, endpoint_override=self.keystone.auth_url)
        service = identity.get("/services", params={"type": "placement"}).json()["services"][0]["id"]
        for endpoint in identity.get("/endpoints", params={"service_id": service}).json()["endpoints"]:
            identity.patch(f"/endpoints/{endpoint['id']}", json={"endpoint": {"url": url}})

    # Programs of Nova

    def start(self, name: str, *command: str, **environment: str) -> None:
        """Start a program; its output goes to NAME.out."""
        with (self.directory / f"{name}.out").open("ab") as output:
            self._programs[name] = subprocess.Popen(
                [str(self.commands / command[0]), *command[1:]],
                env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def stop(self, name: str) -> None:
        """End a program."""
        program = self._programs.pop(name)
        program.terminate()
        try:
            program.wait(20)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def stop_all(self) -> None:
        for name in list(self._programs):
            self.stop(name)
        self.stop_covey()

    def start_nova(self, *scheduler_files: str) -> None:
        """Start the services of Nova, and wait until all computes report."""
        began_at = datetime.now(UTC)
        config = f"--config-file={self.directory / 'nova.conf'}"
        self.start("nova-conductor", "nova-conductor", config)
        self.start_schedulers(*scheduler_files)
        self.start(
            "nova-api",
            "python",
            str(HERE / "wsgi.py"),
            "nova.wsgi.osapi_compute",
            str(self.nova_port),
            OS_NOVA_CONFIG_DIR=str(self.directory),
        )
        self.start("computes", "python", str(HERE / "computes.py"), str(self.directory))
        self._wait_for(self.nova_port, "nova-api")
        self._wait_for_services([*self.computes, *_SCHEDULERS], began_at)

    def stop_nova(self) -> None:
        for name in _NOVA:
            self.stop(name)

    @contextmanager
    def reconfigured(self, options: str) -> Iterator[None]:
        """Run all of Nova with further options until the block ends."""
        file = self.directory / "nova.conf"
        kept = file.read_text()
        self._restart_nova(file, kept + options)
        try:
            yield
        finally:
            self._restart_nova(file, kept)

    def _restart_nova(self, file: Path, text: str) -> None:
        self.stop_nova()
        file.write_text(text)
        self.start_nova()

    def start_schedulers(self, *files: str) -> None:
        """Start two nova-schedulers, with further configuration files.

        One with two workers does not do: they share a connection to Placement that was opened before their fork.
        """
        for name in _SCHEDULERS:
            (self.directory / f"{name}.conf").write_text(f"[DEFAULT]\nhost = {name}\n")
            names = ("nova.conf", f"{name}.conf", *files)
            self.start(name, "nova-scheduler", *(f"--config-file={self.directory / each}" for each in names))

    def restart_schedulers(self, *files: str) -> None:
        """Start the schedulers again with other configuration files, and wait until they report."""
        for name in _SCHEDULERS:
            self.stop(name)
        began_at = datetime.now(UTC)
        self.start_schedulers(*files)
        self._wait_for_services(_SCHEDULERS, began_at)

    def configure_compute(self, name: str, options: str = "") -> None:
        """Write the configuration of a compute; it is read when the compute starts."""
        state = self.directory / "state" / name
        state.mkdir(parents=True, exist_ok=True)
        own = f"[DEFAULT]\nhost = {name}\nstate_path = {state}\nlog_file = {self.directory}/nova-compute-{name}.log\n"
        (self.directory / "computes" / f"{name}.conf").write_text(own + options)

    def start_compute(self, name: str) -> None:
        """Start one nova-compute that does not run, and wait until it reports."""
        began_at = datetime.now(UTC)
        self._programs["computes"].send_signal(signal.SIGHUP)
        self._wait_for_services([name], began_at)

    def kill_compute(self, name: str) -> None:
        """Kill one nova-compute, as the loss of its host does."""
        process = int((self.directory / "computes" / f"{name}.pid").read_text())
        os.kill(process, signal.SIGKILL)
        # Its parent can wait for it, and start it again, once all of its threads have ended.
        stat, threads = Path(f"/proc/{process}/stat"), Path(f"/proc/{process}/task")
        eventually(lambda: stat.read_text().rpartition(") ")[2][0] == "Z" and len([*threads.iterdir()]) == 1, name)

    def restart_compute(self, name: str, options: str = "") -> None:
        """Start one nova-compute again with other options."""
        self.kill_compute(name)
        self.configure_compute(name, options)
        self.start_compute(name)

    def manage(self, *arguments: str, allowed: tuple[int, ...] = (0,)) -> str:
        """Run nova-manage and return its output. Raises LabFailed."""
        done = subprocess.run(
            [self.commands / "nova-manage", f"--config-file={self.directory / 'nova.conf'}", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
        )
        if done.returncode not in allowed:
            raise LabFailed(f"nova-manage {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def discover(self) -> None:
        """Map new computes to the cell."""
        self.manage("cell_v2", "discover_hosts")

    def _wait_for(self, port: int, name: str) -> None:
        def answers() -> bool:
            try:
                urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
            except HTTPError:
                return True
            except OSError:
                return False
            return True

        eventually(answers, f"{name} answers", self.directory / f"{name}.out")

    def _wait_for_services(self, hosts: Sequence[str], since: datetime) -> None:
        """Wait until services have reported since then. That of a compute follows its first update of Placement."""
        cloud = self.connect()

        def report() -> bool:
            found = {one.host: one for one in cloud.compute.services()}
            return all(host in found and _time(found[host].updated_at) > since for host in hosts)

        eventually(report, f"{', '.join(hosts)} report", self.directory / "computes.out")


def _time(text: str | None) -> datetime:
    return datetime.fromisoformat(text or "1970-01-01T00:00:00").replace(tzinfo=UTC)
