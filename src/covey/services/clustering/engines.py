"""Clustering engines: the processes that run actions, each known by its heartbeat."""

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from covey.model.access import Actor
from covey.model.clustering.actions import Engine
from covey.ports import Access, Clock
from covey.storage.store import Store

_INTERVAL = timedelta(seconds=10)
_UP = timedelta(seconds=30)  # since the last heartbeat


@dataclass(frozen=True, slots=True)
class Engines:
    """The list of engines, for operators."""

    store: Store
    access: Access
    clock: Clock

    def all(self, actor: Actor) -> list[tuple[Engine, bool]]:
        """Return the known engines, each with whether it is up. Raises Forbidden."""
        self.access.require(actor, "services:index")
        with self.store.read() as tx:
            engines = tx.clustering.engines.all()
        now = self.clock()
        return [(engine, now - engine.updated_at <= _UP) for engine in engines]


@dataclass(slots=True)
class Heartbeat:
    """Records that this process is alive. Its workers share one."""

    store: Store
    clock: Clock
    id: str
    host: str
    _due_at: datetime | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def beat(self) -> None:
        """Record it, unless the last record is younger than the interval."""
        with self._lock:
            now = self.clock()
            if self._due_at is not None and now < self._due_at:
                return
            with self.store.write() as tx:
                tx.clustering.engines.heartbeat(Engine(self.id, self.host, now))
            self._due_at = now + _INTERVAL
