"""The change log: a reader counts each change once, whatever transactions are open."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from covey.model.changes import UsageChange
from covey.model.ids import HostId
from covey.services.maintenance import CHANGES_KEPT, Maintenance
from covey.storage import engine
from covey.storage.store import Store
from tests.build import NOW

OWN = "mine"
USE = UsageChange(HostId(1), 1, 512, 1)


@pytest.fixture
def postgresql(postgresql_database: str) -> sa.Engine:
    """An engine for tests with several concurrent transactions; SQLite has one writer."""
    connected = engine.connect(postgresql_database)
    with connected.begin() as connection:
        connection.execute(sa.text("TRUNCATE fleet_changes"))
    return connected


def test_loaded_change_is_not_counted_again_when_the_fence_passes_it(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with postgresql.connect() as slow, slow.begin():
        slow.execute(sa.text("SELECT pg_current_xact_id()"))  # older than the change, and still open
        with store.write() as tx:
            tx.changes.add_uses([USE])
        with store.read() as tx:
            cursor = tx.changes.begin()  # the snapshot includes the change, which is beyond the fence
        for _ in range(3):
            with store.read() as tx:
                changes = tx.changes.since(cursor, OWN)
            assert changes.uses == ()
            cursor = changes.cursor
    with store.read() as tx:
        changes = tx.changes.since(cursor, OWN)
    assert changes.uses == ()
    with store.write() as tx:
        tx.changes.add_uses([USE])
    with store.read() as tx:
        assert tx.changes.since(changes.cursor, OWN).uses == (USE,)
    postgresql.dispose()


def test_older_snapshot_does_not_move_the_cursor_back(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with store.read() as tx:
        cursor = tx.changes.begin()
    with store.read() as older:
        older.hosts.find()  # its snapshot begins here
        with store.write() as tx:
            tx.changes.add_uses([USE])
        with store.read() as tx:
            changes = tx.changes.since(cursor, OWN)
        assert changes.uses == (USE,)
        changes = older.changes.since(changes.cursor, OWN)
        assert changes.uses == ()
    with store.read() as tx:
        assert tx.changes.since(changes.cursor, OWN).uses == ()
    postgresql.dispose()


def test_each_foreign_change_is_returned_once_and_own_changes_never(store: Store) -> None:
    with store.read() as tx:
        cursor = tx.changes.begin()
    with store.write() as tx:
        tx.changes.add_uses([USE])
        tx.changes.add_uses([USE], OWN)
    with store.read() as tx:
        changes = tx.changes.since(cursor, OWN)
    assert (changes.uses, changes.structure) == ((USE,), False)
    with store.write() as tx:
        tx.changes.add_structure()
    with store.read() as tx:
        changes = tx.changes.since(changes.cursor, OWN)
    assert (changes.uses, changes.structure) == ((), True)


def test_maintenance_trims_old_changes_and_keeps_newer_ones(store: Store) -> None:
    times = [NOW, NOW + timedelta(seconds=1), NOW + CHANGES_KEPT / 2, NOW + CHANGES_KEPT]
    maintenance = Maintenance(store, lambda: times[0])

    def changes_left() -> int:
        with store.read() as tx:
            return len(tx.changes.since(start, OWN).uses)

    def add(count: int) -> None:
        with store.write() as tx:
            tx.changes.add_uses([USE] * count)

    with store.read() as tx:
        start = tx.changes.begin()
    add(1)
    maintenance.run_if_due()
    add(2)
    for expected in (3, 3, 2):
        times.pop(0)
        maintenance.run_if_due()
        assert changes_left() == expected
