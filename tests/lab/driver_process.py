"""The libvirt hypervisor in a process on a host, as an agent has it: tests call it, kill it and start it again."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Self

from covey.agent.hypervisor import HypervisorFault
from covey.agent.libvirt import connect
from covey.agent.libvirt.settings import LibvirtSettings
from tests.lab.hosts import Host, wait_for


class Refused(HypervisorFault):
    """The hypervisor raised an error; `kind` is its class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class DriverProcess:
    """Passes each method call on to the hypervisor in the process. Calls of several threads run at once."""

    host: Host
    settings: dict[str, Any]
    _socket: Path = field(init=False)
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Return when the hypervisor takes calls."""
        self._socket = self.host.directory / f"driver-{os.urandom(4).hex()}"
        document = json.dumps(self.settings | {"address": self.host.address})
        command = self.host.inside(sys.executable, "-m", __name__, str(self._socket), document)
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        self._process = started = subprocess.Popen(command, env=environment)
        wait_for(lambda: self._socket.exists() or started.poll() is not None)
        assert started.poll() is None

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL it, in the middle of whatever it does."""
        for pid in self.host.pids_of(str(self._socket)):
            os.kill(pid, signal.SIGKILL)
        if self._process:
            self._process.wait()

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._call(verb, args, kwargs)

    def _call(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with Client(str(self._socket)) as connection:
            connection.send((verb, args, kwargs))
            kind, value = connection.recv()
        if kind is not None:
            raise Refused(kind, value)
        return value


def _serve(socket: str, document: dict[str, Any]) -> None:
    instances = Path(document.pop("instances"))
    hypervisor = connect(LibvirtSettings(**document, uri="qemu:///system", instances=instances))
    events: list[tuple[str, str]] = []
    watches: list[bool] = []
    with Listener(f"{socket}.part", "AF_UNIX") as listener:
        Path(f"{socket}.part").rename(socket)
        while True:
            threading.Thread(target=_answer, args=(listener.accept(), hypervisor, events, watches), daemon=True).start()


def _answer(connection: Connection, hypervisor: Any, events: list[tuple[str, str]], watches: list[bool]) -> None:
    with connection:
        verb, args, kwargs = connection.recv()
        try:
            match verb:
                case "watch":
                    value = None
                    events.clear()
                    if not watches:
                        watches.append(True)
                        hypervisor.watch(lambda *event: events.append(event))
                case "heard":
                    value = list(events)
                case "shares_disks" | "kind":
                    value = getattr(hypervisor, verb)
                case _:
                    value = getattr(hypervisor, verb)(*args, **kwargs)
        except HypervisorFault as fault:
            connection.send((type(fault).__name__, fault.message))
        else:
            connection.send((None, value))


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]))
