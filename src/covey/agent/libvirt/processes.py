"""The QEMU processes of Covey's guests, as the kernel shows them: libvirt, which may hang, is not asked."""

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from covey.agent.hypervisor import HypervisorFault
from covey.agent.libvirt.domains import NAME_PREFIX

_POLL_S = 0.02
_NAME = re.compile(rb"\0-name\0(?:[^\0]*,)?guest=" + NAME_PREFIX.encode() + rb"([0-9a-f-]{36})[,\0]")


@dataclass(frozen=True, slots=True)
class Processes:
    """Those that run from a disk below one directory. A guest of others may have a name like one of Covey's."""

    instances: Path
    proc: Path = Path("/proc")

    def find(self) -> dict[str, int]:
        """Return the process id of each guest that runs, by server."""
        found: dict[str, int] = {}
        for entry in self.proc.iterdir():
            if entry.name.isdigit():
                server = self._server(entry)
                if server is not None:
                    found[server] = int(entry.name)
        return found

    def kill(self, server: str, timeout_s: float) -> None:
        """Return when the process of a guest has ended. Raises HypervisorFault if it does not end in time."""
        pid = self.find().get(server)
        if pid is None:
            return
        deadline = time.monotonic() + timeout_s
        try:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        except PermissionError as error:
            raise HypervisorFault(f"The agent may not kill process {pid} of the guest {server}.") from error
        while self._server(self.proc / str(pid)) == server:
            if time.monotonic() > deadline:
                raise HypervisorFault(f"Process {pid} of the guest {server} does not end.")
            time.sleep(_POLL_S)

    def _server(self, process: Path) -> str | None:
        """Return whose guest a process is; None for another process, and for one that has ended."""
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            return None
        named = _NAME.search(command)
        if named is None:
            return None
        server = named[1].decode()
        return server if os.fsencode(f"{self.instances}/{server}/") in command else None
