"""The parent of the serving processes restarts those that die, and kills those that freeze.

Every process accepts connections for itself, so the kernel still gives new connections to one that is stopped. Each
process sends heartbeats to the parent.
"""

import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import structlog
from granian.server.mp import MPServer

log = structlog.get_logger()

_INTERVAL_S = 0.5
_PID = struct.Struct("!q")
_STABLE_S = 10.0  # a process that lived this long is restarted at once
_FIRST_DELAY_S = 0.1
_LAST_DELAY_S = 2.0


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


class PersistentServer(MPServer):
    """Granian ends when a process dies twice within seconds. This server waits a little, and continues."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- Granian's own
        super().__init__(*args, **options)
        self.respawn_failed_workers = True
        self._started_at: dict[int, float] = {}
        self._delays: dict[int, float] = {}

    def watch(self, heartbeats: Connection, silent_s: float) -> None:
        """Kill serving processes that send no heartbeats for this time; they are then restarted."""
        watchdog = Watchdog(heartbeats, silent_s, lambda: {worker.inner.pid for worker in self.wrks})
        threading.Thread(target=watchdog.watch, name="covey-watchdog", daemon=True).start()

    def _respawn_workers(self, workers: Iterable[int], spawn_target: Any, target_loader: Any, delay: float = 0) -> None:  # noqa: ANN401
        for index in workers:
            if not delay:  # it died; a reload has a delay
                self._back_off(index)
            if self.interrupt_signal:
                return
            self._started_at[index] = time.monotonic()
            super()._respawn_workers([index], spawn_target, target_loader, delay)
        self.respawned_wrks.clear()  # by these, Granian would find that it restarts too often

    def _back_off(self, index: int) -> None:
        """Wait before a process starts again that died soon after its last start. Returns early on a signal."""
        lived_s = time.monotonic() - self._started_at.get(index, 0.0)
        if lived_s >= _STABLE_S:
            self._delays.pop(index, None)
        delay_s = self._delays.get(index, 0.0)
        self._delays[index] = min(max(2 * delay_s, _FIRST_DELAY_S), _LAST_DELAY_S)
        log.warning("serve.restarting", process=index + 1, delay_s=delay_s)
        until = time.monotonic() + delay_s
        while not self.interrupt_signal and time.monotonic() < until:
            time.sleep(0.05)
