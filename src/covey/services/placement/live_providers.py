"""Keeps the resource providers of the fleet in memory, up to date with the change log."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from covey.model.changes import Cursor, UsageChange
from covey.model.inventory import ResourceClass
from covey.scheduler.candidates import Providers
from covey.services import gc_tuning
from covey.storage.store import Transaction

_NO_WRITER = "-"  # matches the tag of no writer, so that the log returns every change


class LiveProviders:
    """One `Providers` for the process. A lock serializes its users, and each use applies new changes first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._providers: Providers | None = None
        self._cursor: Cursor | None = None

    @contextmanager
    def fresh(self, tx: Transaction) -> Iterator[Providers]:
        """Yield the providers as this transaction sees them, or newer, under the lock."""
        with self._lock:
            yield self._refresh(tx)

    def known_ids(self, uuids: Iterable[str]) -> dict[str, int] | None:
        """Return the ids of providers at the last refresh; None if one is unknown or nothing is loaded."""
        providers = self._providers
        rows = [] if providers is None else [providers.row_of_uuid.get(uuid) for uuid in uuids]
        if providers is None or None in rows:
            return None
        return {record.uuid: record.id for record in (providers.records[row] for row in rows if row is not None)}

    def _refresh(self, tx: Transaction) -> Providers:
        providers, self._providers = self._providers, None  # back in place once everything below has succeeded
        changes = None if self._cursor is None else tx.changes.since(self._cursor, _NO_WRITER)
        if providers is None or changes is None or not changes.intact or changes.structure:
            return self._load(tx)
        self._cursor = changes.cursor
        for use in changes.uses:
            _apply(use, providers)
        self._providers = providers
        return providers

    def _load(self, tx: Transaction) -> Providers:
        """Load all providers in one transaction. Until that succeeds, nothing is loaded."""
        self._providers = None
        self._cursor = tx.changes.begin()
        records = tx.providers.records()
        self._providers = Providers(records)
        gc_tuning.freeze(len(records))
        return self._providers


def _apply(use: UsageChange, providers: Providers) -> None:
    hosts = zip(ResourceClass, (use.vcpus, use.memory_mb, use.disk_gb), strict=True)
    for resource_class, amount in (*hosts, *use.others):
        if amount:
            providers.take(use.host_id, resource_class, amount)
