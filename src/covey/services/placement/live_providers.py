"""Keeps the resource providers of the fleet in memory, up to date with the change log."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from covey.model.changes import Cursor
from covey.scheduler.fleet import Fleet
from covey.services import gc_tuning
from covey.storage.store import Transaction

_NO_WRITER = "-"  # matches the tag of no writer, so that the log returns every change


class LiveProviders:
    """One `Fleet` for the process. A lock serializes its users, and each use applies new changes first."""

    _providers: Fleet | None = None
    _cursor: Cursor | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def fresh(self, tx: Transaction) -> Iterator[Fleet]:
        """Yield the providers as this transaction sees them, or newer, under the lock."""
        with self._lock:
            yield self._refresh(tx)

    def known_ids(self, uuids: Iterable[str]) -> dict[str, int] | None:
        """Return the ids of providers at the last refresh; None if one is unknown or nothing is loaded."""
        providers = self._providers
        if providers is None:
            return None
        rows = {uuid: providers.row_of_uuid.get(uuid) for uuid in uuids}
        known = {uuid: int(providers.ids[row]) for uuid, row in rows.items() if row is not None}
        return known if len(known) == len(rows) else None

    def _refresh(self, tx: Transaction) -> Fleet:
        providers, self._providers = self._providers, None  # back in place once everything below has succeeded
        changes = None if self._cursor is None else tx.changes.since(self._cursor, _NO_WRITER)
        if providers is None or changes is None or not changes.intact or changes.structure:
            return self._load(tx)
        self._cursor = changes.cursor
        providers.take_all((use.host_id, use.amounts) for use in changes.uses)
        self._providers = providers
        return providers

    def _load(self, tx: Transaction) -> Fleet:
        """Load all providers in one transaction. Until that succeeds, nothing is loaded."""
        self._providers = None
        self._cursor = tx.changes.begin()
        records = tx.providers.records()
        self._providers = Fleet(records)
        gc_tuning.freeze(len(records))
        return self._providers
