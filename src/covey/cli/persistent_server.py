"""The parent of the serving processes. It restarts those that die or freeze, for as long as it runs."""

import threading
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import structlog
from granian.server.mp import MPServer

from covey.cli.watchdog import Watchdog

log = structlog.get_logger()

_STABLE_S = 10.0  # a process that lived this long is restarted at once
_FIRST_DELAY_S = 0.1
_LAST_DELAY_S = 2.0


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
