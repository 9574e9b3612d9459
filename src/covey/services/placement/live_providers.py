"""The resource providers in memory: one picture of them for the process, and how it is kept true."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from covey.model.changes import Cursor, Use
from covey.model.inventory import ResourceClass
from covey.scheduler.candidates import Providers
from covey.services import gc_tuning
from covey.services.live_fleet import IDLE_S
from covey.storage.store import Transaction

_NOBODY = "-"  # no writer's tag: whatever the log has, this picture does not have yet


class LiveProviders:
    """One Providers for the process. Whoever looks at it holds it, and it is brought up to date first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._picture: Providers | None = None
        self._cursor = Cursor(0)
        self._looked_at = 0.0

    @contextmanager
    def fresh(self, tx: Transaction) -> Iterator[Providers]:
        """The providers as this reading transaction sees them, or newer; nobody else looks meanwhile."""
        with self._lock:
            yield self._refreshed(tx)

    def seen(self, uuids: Iterable[str]) -> dict[str, int] | None:
        """Which ids providers had when somebody last looked; None if one of them was not there, or nobody looked."""
        picture = self._picture
        rows = [] if picture is None else [picture.row_of_uuid.get(uuid) for uuid in uuids]
        if picture is None or None in rows:
            return None
        return {record.uuid: record.id for record in (picture.records[row] for row in rows if row is not None)}

    def _refreshed(self, tx: Transaction) -> Providers:
        now = time.monotonic()
        picture, idle = self._picture, now - self._looked_at > IDLE_S
        self._looked_at = now
        if picture is None or idle:
            return self._load(tx)
        changes = tx.changes.since(self._cursor, _NOBODY)
        if changes.structure:
            return self._load(tx)
        self._cursor = changes.cursor
        for use in changes.uses:
            _apply(use, picture)
        return picture

    def _load(self, tx: Transaction) -> Providers:
        """All of it from one moment. Until that has worked out there is no picture."""
        self._picture = None
        self._cursor = tx.changes.begin()
        records = tx.providers.records()
        self._picture = Providers(records)
        gc_tuning.freeze(len(records))
        return self._picture


def _apply(use: Use, picture: Providers) -> None:
    hosts = zip(ResourceClass, (use.vcpus, use.memory_mb, use.disk_gb), strict=True)
    for resource_class, amount in (*hosts, *use.others):
        if amount:
            picture.take(use.host_id, resource_class, amount)
