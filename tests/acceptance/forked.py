"""Calls `covey` in a fork of the preloaded process: the test has the id of the process that runs it."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


class Forked:
    """A process with the methods of a `subprocess.Popen`. It is killed when the test run ends."""

    def __init__(self, server: socket.socket, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._status: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            self._server.settimeout(timeout)
            try:
                self._status = int(self._server.recv(8))
            except (TimeoutError, BlockingIOError) as error:
                raise subprocess.TimeoutExpired("covey", timeout or 0) from error
            self._server.close()
        return self._status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_covey(
    address: Path,
    arguments: Sequence[str],
    directory: Path,
    variables: Mapping[str, str],
    stdout: BinaryIO,
    stderr: BinaryIO,
    *,
    leads_session: bool,
) -> Forked:
    """Start `covey` in a fork of the process at this address."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(str(address))
    asked = json.dumps(["covey", list(arguments), str(directory), dict(variables), leads_session]).encode()
    with Path(os.devnull).open("rb") as nothing:
        socket.send_fds(server, [asked], [each.fileno() for each in (nothing, stdout, stderr)])
    return Forked(server, int(server.recv(16)))
