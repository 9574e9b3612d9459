"""Real processes for the acceptance tests: Covey itself, and the OpenStack client that an operator would type into."""

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
from typing import Any, Self

import yaml

BESIDE_PYTHON = Path(sys.executable).parent
COMMANDS = BESIDE_PYTHON  # of what runs to its end; conftest.py has commands here that skip their slow start
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
    """This process' environment without anything that would configure Covey or a client behind a test's back."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PROMETHEUS_"))}
    return kept | {"HOME": str(home)} | more


@dataclass(frozen=True)
class Result:
    """The status and the output of a command."""

    status: int
    stdout: str
    stderr: str


def covey(directory: Path, *arguments: str, stdin: str = "", **more: str) -> Result:
    """Run `covey ...` in the directory to its end; further keywords are environment variables."""
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


@dataclass(frozen=True)
class Covey:
    """A running service."""

    url: str
    port: int
    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def stdout(self) -> str:
        return (self.directory / "stdout.log").read_text()

    @property
    def log(self) -> str:
        return (self.directory / "stderr.log").read_text()

    def stop(self) -> None:
        """Send SIGTERM. Raises Failed unless the process then ends well, and soon."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"Covey still ran {STOP_TIMEOUT_S:.0f} s after SIGTERM.\n{self.log}") from error
        if status != 0:
            raise Failed(f"Covey ended with status {status} after SIGTERM.\n{self.log}")


@contextmanager
def running_covey(
    directory: Path, *arguments: str, port: int | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[Covey]:
    """Run `covey ...` (serve or demo) in the directory, until the context ends, on a port of its own.

    Raises Failed if it does not answer, and if SIGTERM does not end it well.
    """
    directory.mkdir(parents=True, exist_ok=True)
    chosen = port or free_port()
    with (directory / "stdout.log").open("wb") as stdout, (directory / "stderr.log").open("wb") as stderr:
        process = subprocess.Popen(
            [BESIDE_PYTHON / "covey", *arguments, "--port", str(chosen)],
            cwd=directory,
            env=environment(directory, **(variables or {})),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
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
    """One entry of a clouds.yaml, used by the real client: a process for each command, as a person would."""

    file: Path
    name: str
    client: Path | None = None  # by default, the one of this environment

    def run(self, command: str, stdin: bytes | None = None) -> str:
        """Run `openstack COMMAND` and return what it wrote. Raises Failed."""
        done = self._done(command, stdin)
        if done.returncode != 0:
            raise Failed(f"openstack {command}: status {done.returncode}\n{done.stdout!r}\n{done.stderr.decode()}")
        return done.stdout.decode()

    def json(self, command: str, stdin: bytes | None = None) -> Any:
        """The same with `-f json`, read."""
        return json.loads(self.run(f"{command} -f json", stdin))

    def refusal(self, command: str) -> str:
        """What a command that has to fail tells its user. Raises Failed if it succeeds."""
        done = self._done(command, None)
        if done.returncode == 0:
            raise Failed(f"openstack {command}: succeeded\n{done.stdout!r}")
        return done.stderr.decode()

    def environment(self, **more: str) -> dict[str, str]:
        return environment(self.file.parent, OS_CLIENT_CONFIG_FILE=str(self.file), OS_CLOUD=self.name, **more)

    def credentials(self) -> dict[str, str]:
        """What the file has under `auth`."""
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
    """The same client, started once without a command and fed one after another, which spares its slow start.

    Its line reader has no quotes to speak of: words here hold no white space. It tells no status, so a command
    succeeds by writing what it was asked for: JSON, or nothing at all.
    """

    cloud: Cloud
    _process: subprocess.Popen[str] = field(init=False)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self.cloud.client or BESIDE_PYTHON / "openstack"],
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
        """Run a command that has nothing to say. Raises Failed if it speaks."""
        said = self._said(command)
        if said.strip():
            raise Failed(f"openstack {command}\n{said}")

    def json(self, command: str) -> Any:
        """Run a command with `-f json`, and read it. Raises Failed."""
        said = self._said(f"{command} -f json")
        try:
            return json.loads(said)
        except ValueError as error:
            raise Failed(f"openstack {command}\n{said}") from error

    def text(self, command: str) -> str:
        """Run a command, and tell what it said."""
        return self._said(command)

    def refusal(self, command: str) -> str:
        """What a command that has to fail tells its user. Raises Failed if it has nothing to say, or draws a table."""
        said = self._said(command)
        if not said.strip() or said.startswith("+-"):
            raise Failed(f"openstack {command}: succeeded\n{said}")
        return said

    def _said(self, command: str) -> str:
        """All that the client writes between the command and a mark that it is then told to write."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mark = "that was all"
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
