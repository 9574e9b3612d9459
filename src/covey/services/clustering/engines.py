"""Which processes do turns of actions: each says from time to time that it is there."""

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from covey.model.access import Actor
from covey.model.clustering.receivers import Engine
from covey.ports import Access, Clock
from covey.services.log_clearing import LogClearing
from covey.storage.store import Store

_SAID_EVERY = timedelta(seconds=10)
_UP = timedelta(seconds=30)  # since it was last heard of
_FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Engines:
    """What operators can know of them."""

    store: Store
    access: Access
    clock: Clock

    def all(self, actor: Actor) -> list[tuple[Engine, bool]]:
        """Those that were heard of lately, and whether each is up. Raises Forbidden."""
        self.access.require(actor, "services:index")
        with self.store.read() as tx:
            engines = tx.clustering.engines.all()
        now = self.clock()
        return [(engine, now - engine.updated_at <= _UP) for engine in engines]


@dataclass(slots=True)
class Heartbeat:
    """Says that this process is there. Its workers share it."""

    store: Store
    clock: Clock
    id: str
    host: str
    clearing: LogClearing = field(default_factory=LogClearing)
    _due: datetime | None = None
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def beat(self) -> None:
        """Say so, unless that was done a moment ago; and forget those that have long been silent, and old news."""
        with self._one_at_a_time:
            now = self.clock()
            if self._due is not None and now < self._due:
                return
            with self.store.write() as tx:
                tx.clustering.engines.alive(Engine(self.id, self.host, now))
                tx.clustering.engines.forget(now - _FORGOTTEN)
                self.clearing.clear(tx, now)
            self._due = now + _SAID_EVERY
