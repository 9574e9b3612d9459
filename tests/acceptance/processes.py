"""Real processes for the acceptance tests: Covey, and the OpenStack client."""

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

import yaml

from tests.acceptance.forked import fork_covey

BESIDE_PYTHON = Path(sys.executable).parent
COMMANDS = BESIDE_PYTHON  # conftest.py replaces it with preloaded commands
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
COMMAND_TIMEOUT_S = 120.0


class Failed(Exception):
    """A process failed; the message ends with its output."""


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return this process' environment without variables that configure Covey or a client."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PROMETHEUS_"))}
    return kept | {"HOME": str(home)} | more


@dataclass(frozen=True)
class Result:
    """The status and the output of a command."""

    status: int
    stdout: str
    stderr: str


def covey(directory: Path, *arguments: str, stdin: str = "", **more: str) -> Result:
    """Run `covey ...` in the directory until it ends; further keywords are environment variables."""
    done = subprocess.run(
        [COMMANDS / "covey", *arguments],
        cwd=directory,
        env=environment(directory, **more),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_TIMEOUT_S,
    )
    return Result(done.returncode, done.stdout, done.stderr)


class Process(Protocol):
    """What tests use of a `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def start_covey(
    directory: Path,
    *arguments: str,
    variables: Mapping[str, str],
    stdout: BinaryIO,
    stderr: BinaryIO,
    preloaded: bool = True,
    leads_session: bool = False,
) -> Process:
    """Start `covey ...` in the directory. A preloaded one is a fork of a process that has imported it."""
    variables = environment(directory, **variables)
    if preloaded and COMMANDS != BESIDE_PYTHON:
        address = COMMANDS / "socket"
        return fork_covey(address, arguments, directory, variables, stdout, stderr, leads_session=leads_session)
    return subprocess.Popen(
        [BESIDE_PYTHON / "covey", *arguments],
        cwd=directory,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=leads_session,
    )


@dataclass(frozen=True)
class Covey:
    """A running service."""

    url: str
    port: int
    directory: Path
    process: Process

    @property
    def stdout(self) -> str:
        return (self.directory / "stdout.log").read_text()

    @property
    def log(self) -> str:
        return (self.directory / "stderr.log").read_text()

    def stop(self) -> None:
        """Send SIGTERM. Raises Failed unless the process exits with status 0 in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"Covey still ran {STOP_TIMEOUT_S:.0f} s after SIGTERM.\n{self.log}") from error
        if status != 0:
            raise Failed(f"Covey ended with status {status} after SIGTERM.\n{self.log}")


@contextmanager
def running_covey(
    directory: Path,
    *arguments: str,
    port: int | None = None,
    variables: Mapping[str, str] | None = None,
    preloaded: bool = True,
) -> Iterator[Covey]:
    """Run `covey ...` (serve or demo) in the directory, until the context ends, on a port of its own.

    Raises Failed if the service does not answer, and if SIGTERM does not end it well.
    """
    directory.mkdir(parents=True, exist_ok=True)
    chosen = port or free_port()
    with (directory / "stdout.log").open("wb") as stdout, (directory / "stderr.log").open("wb") as stderr:
        process = start_covey(
            directory,
            *(*arguments, "--port", str(chosen)),
            variables=variables or {},
            stdout=stdout,
            stderr=stderr,
            preloaded=preloaded,
        )
    running = Covey(f"http://127.0.0.1:{chosen}", chosen, directory, process)
    try:
        _wait_until_healthy(running)
        yield running
        if process.poll() is None:
            running.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait_until_healthy(running: Covey) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        status = running.process.poll()
        if status is not None:
            raise Failed(f"Covey ended with status {status}.\n{running.stdout}\n{running.log}")
        if is_healthy(running.port):
            return
        time.sleep(0.05)
    raise Failed(f"Covey did not answer within {START_TIMEOUT_S:.0f} s.\n{running.log}")


def listening(port: int) -> int:
    """Return how many serving processes listen: each has a socket of its own."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(state == "0A" and int(local.split(":")[1], 16) == port for _, local, _, state, *_ in sockets)


def is_healthy(port: int) -> bool:
    """Return whether a service is ready."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


@dataclass(frozen=True)
class Cloud:
    """One entry of a clouds.yaml, used by the real client: one process for each command."""

    file: Path
    name: str
    client: Path | None = None  # the client of this environment by default

    def run(self, command: str, stdin: bytes | None = None) -> str:
        """Run `openstack COMMAND` and return its output. Raises Failed."""
        done = self._done(command, stdin)
        if done.returncode != 0:
            raise Failed(f"openstack {command}: status {done.returncode}\n{done.stdout!r}\n{done.stderr.decode()}")
        return done.stdout.decode()

    def json(self, command: str, stdin: bytes | None = None) -> Any:
        """Run `openstack COMMAND -f json` and return the parsed output. Raises Failed."""
        return json.loads(self.run(f"{command} -f json", stdin))

    def refusal(self, command: str) -> str:
        """Return the error output of a command that fails. Raises Failed if it succeeds."""
        done = self._done(command, None)
        if done.returncode == 0:
            raise Failed(f"openstack {command}: succeeded\n{done.stdout!r}")
        return done.stderr.decode()

    def environment(self, **more: str) -> dict[str, str]:
        return environment(self.file.parent, OS_CLIENT_CONFIG_FILE=str(self.file), OS_CLOUD=self.name, **more)

    def credentials(self) -> dict[str, str]:
        """Return the `auth` section of the cloud."""
        auth: dict[str, str] = yaml.safe_load(self.file.read_text())["clouds"][self.name]["auth"]
        return auth

    def _done(self, command: str, stdin: bytes | None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.client or COMMANDS / "openstack", *shlex.split(command)],
            env=self.environment(),
            input=stdin or b"",
            capture_output=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
        )


@dataclass
class Session:
    """One interactive client process that runs many commands.

    Its line reader supports no quotes: arguments must not contain white space. It reports no exit status, so a
    command succeeds if its output is as expected: JSON, or empty.
    """

    cloud: Cloud
    _process: subprocess.Popen[str] = field(init=False)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self.cloud.client or COMMANDS / "openstack"],
            env=self.cloud.environment(PYTHONUNBUFFERED="1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=STOP_TIMEOUT_S)

    def run(self, command: str) -> None:
        """Run a command without output. Raises Failed if it writes any."""
        output = self._output(command)
        if output.strip():
            raise Failed(f"openstack {command}\n{output}")

    def json(self, command: str) -> Any:
        """Run a command with `-f json` and return the parsed output. Raises Failed."""
        output = self._output(f"{command} -f json")
        try:
            return json.loads(output)
        except ValueError as error:
            raise Failed(f"openstack {command}\n{output}") from error

    def text(self, command: str) -> str:
        """Run a command and return its output."""
        return self._output(command)

    def refusal(self, command: str) -> str:
        """Return the output of a command that fails. Raises Failed if the output is empty or a table."""
        output = self._output(command)
        if not output.strip() or output.startswith("+-"):
            raise Failed(f"openstack {command}: succeeded\n{output}")
        return output

    def _output(self, command: str) -> str:
        """Return the client's output up to a mark that a second command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mark = "end-of-output"
        timer = threading.Timer(COMMAND_TIMEOUT_S, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(f"{command}\n!echo {mark}\n")
            self._process.stdin.flush()
            lines: list[str] = []
            for line in self._process.stdout:
                if line.strip() == mark:
                    return "".join(lines)
                lines.append(line)
        finally:
            timer.cancel()
        raise Failed(f"openstack {command}: the client ended\n{''.join(lines)}")
