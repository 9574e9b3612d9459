"""Heartbeats of the serving processes to their parent, which ends one that is frozen.

Every process accepts connections for itself, so the kernel still gives new connections to one that is stopped.
"""

import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from multiprocessing.connection import Connection

import structlog

log = structlog.get_logger()

_INTERVAL_S = 0.5
_PID = struct.Struct("!q")


def send_heartbeats(to_parent: Connection) -> None:
    """Tell the parent twice a second, from a thread of its own, that this process runs."""

    def send() -> None:
        with suppress(OSError):  # the parent has ended
            while True:
                to_parent.send_bytes(_PID.pack(os.getpid()))
                time.sleep(_INTERVAL_S)

    threading.Thread(target=send, name="covey-heartbeat", daemon=True).start()


class Watchdog:
    """Kills processes without a heartbeat for a time. One that has not sent any yet is still starting."""

    def __init__(
        self,
        heartbeats: Connection,
        silent_s: float,
        pids: Callable[[], Collection[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._heartbeats = heartbeats
        self._silent_s = silent_s
        self._pids = pids
        self._clock = clock
        self._seen: dict[int, float] = {}
        self._looked_at = clock()

    def watch(self) -> None:
        """Look twice a second, until the process ends."""
        while True:
            self._heartbeats.poll(_INTERVAL_S)
            self.look()
            time.sleep(_INTERVAL_S / 2)

    def look(self) -> None:
        """Read the heartbeats, and kill the processes that are silent."""
        now, pids = self._clock(), self._pids()
        while self._heartbeats.poll():
            self._seen[_PID.unpack(self._heartbeats.recv_bytes())[0]] = now
        paused = now - self._looked_at > 4 * _INTERVAL_S  # this process was stopped itself: the others may have been
        self._looked_at = now
        self._seen = {pid: now if paused else seen for pid, seen in self._seen.items() if pid in pids}
        for pid, seen in self._seen.items():
            if now - seen > self._silent_s:
                log.error("serve.frozen", pid=pid, silent_s=round(now - seen, 1))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
