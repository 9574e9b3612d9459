"""A real RabbitMQ for the acceptance tests: a private node in a directory of its own, on ports of its own."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.processes import free_port
from tests.programs import PROGRAMS

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
TAIL_LINES = 30


class BrokerFailed(Exception):
    """The broker did not start; the message ends with its last output, or with how to install it."""


@dataclass
class RabbitMQ:
    """A broker that can be stopped, frozen and started again; it keeps its address and its durable queues."""

    directory: Path
    port: int = field(default_factory=free_port)
    _names_port: int = field(default_factory=free_port)
    _peers_port: int = field(default_factory=free_port)
    _names: subprocess.Popen[bytes] | None = None
    _node: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the transport_url, with the default user of a new broker, which is limited to loopback."""
        return f"rabbit://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start the broker. Raises BrokerFailed unless it answers in time."""
        server, epmd = PROGRAMS["rabbitmq"].path(), shutil.which("epmd")
        if server is None or epmd is None:
            raise BrokerFailed("RabbitMQ is not installed. `make programs` installs it on Debian and Ubuntu.")
        environment = self._environment()
        with (self.directory / "broker.log").open("ab") as log:
            # Nodes find each other through epmd. Without this, the node starts one that outlives it.
            self._names = subprocess.Popen(
                [epmd, "-port", str(self._names_port), "-address", "127.0.0.1"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            self._wait_for(self._names_port, self._names)
            self._node = subprocess.Popen(
                [server, "-noinput"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # its helpers are stopped with it
            )
        self._wait_for(self.port, self._node)

    def stop(self) -> None:
        """Stop the broker as an operator does; work in progress is finished."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker, like a power cut."""
        self._end(signal.SIGKILL)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep connections open without an answer while the block lasts."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._node is not None and self._node.poll() is None:
            self._signal(how)
            try:
                self._node.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._node.wait()
        if self._names is not None and self._names.poll() is None:
            self._names.terminate()
            self._names.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self._node is not None
        if number is signal.SIGTERM:
            self._node.send_signal(number)
        else:
            os.killpg(self._node.pid, number)

    def _wait_for(self, port: int, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise BrokerFailed(f"The broker ended with status {process.returncode}.\n{self._output()}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise BrokerFailed(f"The broker did not answer within {START_TIMEOUT_S:.0f} s.\n{self._output()}")

    def _output(self) -> str:
        return "\n".join((self.directory / "broker.log").read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        for name, text in {"rabbitmq.conf": "", "advanced.config": "[].\n", "plugins": "[].\n", "env.conf": ""}.items():
            (self.directory / name).write_text(text)
        return kept | {
            "HOME": str(self.directory),  # the location of Erlang's shared secret
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._names_port),
            "RABBITMQ_ALLOW_INPUT": "true",  # the node replaces the script, so the handle is the node's
            "RABBITMQ_NODENAME": f"covey-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._peers_port),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.directory / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self.directory / "env.conf"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }


@contextmanager
def running_rabbitmq(directory: Path) -> Iterator[RabbitMQ]:
    """Run a broker until the context ends. Raises BrokerFailed, with how to install it, if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    broker = RabbitMQ(directory)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
