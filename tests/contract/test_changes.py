"""The change log: a reader counts each change once, whatever transactions are open."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from covey.model.changes import UsageChange
from covey.model.errors import StaleClaim
from covey.model.resources import Resources, server_resources
from covey.services.maintenance import CHANGES_KEPT, Maintenance
from covey.storage import engine
from covey.storage.store import Store
from covey.storage.tables import fleet_changes
from tests.build import NOW

OWN = "mine"
USE = UsageChange(1, server_resources(1, 512, 1))


@pytest.fixture
def postgresql(postgresql_database: str) -> sa.Engine:
    """An engine for tests with several concurrent transactions; SQLite has one writer."""
    connected = engine.connect(postgresql_database)
    with connected.begin() as connection:
        connection.execute(sa.text("TRUNCATE fleet_changes"))
    return connected


def test_loaded_change_is_not_counted_again_while_an_older_transaction_is_open(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with postgresql.connect() as slow, slow.begin():
        slow.execute(sa.text("SELECT pg_current_xact_id()"))  # older than the change, and still open
        with store.write() as tx:
            tx.changes.add_uses([USE])
        with store.read() as tx:
            cursor = tx.changes.begin()
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


def test_logged_change_has_the_amounts_of_every_class(store: Store) -> None:
    with store.read() as tx:
        cursor = tx.changes.begin()
    uses = [
        UsageChange(1, Resources({"VCPU": 2, "DISK_GB": 3, "VF": -1})),
        UsageChange(2, Resources({"CUSTOM_GPU": 1})),
    ]
    with store.write() as tx:
        tx.changes.add_uses(uses)
    with store.read() as tx:
        assert [*tx.changes.since(cursor, OWN).uses] == uses


def test_change_that_commits_late_is_returned_once(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with store.read() as tx:
        cursor = tx.changes.begin()
    with store.write() as slow:
        slow.changes.add_uses([USE])
        for number in range(1, 4):
            other = UsageChange(2, server_resources(number, 0, 0))
            with store.write() as tx:
                tx.changes.add_uses([other])
            with store.read() as tx:
                changes = tx.changes.since(cursor, OWN)
            assert changes.uses == (other,)  # not those of earlier rounds, although an older transaction is open
            cursor = changes.cursor
    with store.read() as tx:
        changes = tx.changes.since(cursor, OWN)
    assert changes.uses == (USE,)
    with store.read() as tx:
        assert tx.changes.since(changes.cursor, OWN).uses == ()
    postgresql.dispose()


def test_log_of_a_restored_dump_is_not_counted(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with store.write() as tx:
        tx.changes.add_uses([USE])
    with postgresql.begin() as connection:
        connection.execute(sa.text("UPDATE fleet_changes SET tx = tx + 1000000"))  # ids of the server of the dump
    with store.read() as tx:
        cursor = tx.changes.begin()
    with store.write() as tx:
        tx.changes.add_uses([UsageChange(2, server_resources(1, 0, 0))])
    for expected in ((UsageChange(2, server_resources(1, 0, 0)),), ()):
        with store.read() as tx:
            changes = tx.changes.since(cursor, OWN)
        assert (changes.uses, changes.intact) == (expected, True)
        cursor = changes.cursor
    Maintenance(store, lambda: NOW).run_if_due()
    with postgresql.connect() as connection:
        left = connection.execute(sa.select(fleet_changes.c.host_id).where(fleet_changes.c.host_id.is_not(None)))
        assert left.scalars().all() == [2]
    postgresql.dispose()


def test_another_start_of_the_server_breaks_the_log(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with store.read() as tx:
        cursor = tx.changes.begin()
        assert tx.changes.since(cursor, OWN).intact
        assert not tx.changes.since(replace(cursor, server="2020-01-01 00:00:00+00"), OWN).intact
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


def test_change_of_the_transaction_that_looked_is_returned_once_after_its_commit(postgresql: sa.Engine) -> None:
    """Its snapshot does not list it as in progress, although later transactions have ended."""
    store = Store(postgresql)
    with store.read() as tx:
        cursor = tx.changes.begin()
    late = UsageChange(2, server_resources(1, 0, 0))
    with store.write() as looks:
        looks.changes._connection.execute(sa.text("SELECT pg_current_xact_id()"))  # as a locked row assigns it
        with store.write() as tx:
            tx.changes.add_uses([USE])
        changes = looks.changes.since(cursor, OWN)
        assert changes.uses == (USE,)
        looks.changes.add_uses([late])
        with store.read() as tx:
            assert tx.changes.since(changes.cursor, OWN).uses == ()
    for expected in ((late,), ()):
        with store.read() as tx:
            changes = tx.changes.since(changes.cursor, OWN)
        assert changes.uses == expected
    postgresql.dispose()


def test_each_foreign_change_is_returned_once_and_own_changes_never(store: Store) -> None:
    with store.read() as tx:
        cursor = tx.changes.begin()
    with store.write() as tx:
        tx.changes.add_uses([USE])
        tx.changes.add_uses([USE], OWN)
    with store.read() as tx:
        changes = tx.changes.since(cursor, OWN)
    assert (changes.uses, changes.structure) == ((USE,), ())
    with store.read() as tx:
        assert tx.changes.since(changes.cursor, OWN).uses == ()


def test_structural_changes_form_a_chain_of_tokens(store: Store) -> None:
    with store.read() as tx:
        cursor = tx.changes.begin()
    for providers, aggregates in (((3, 1), ()), ((), (2,))):
        with store.write() as tx:
            tx.topology.changed(providers=providers, aggregates=aggregates)
    with store.read() as tx:
        changes = tx.changes.since(cursor, OWN)
    first, second = changes.structure
    assert (first.providers, first.aggregates, second.providers, second.aggregates) == ((1, 3), (), (), (2,))
    assert (first.previous, first.token, second.token) == (cursor.token, second.previous, changes.cursor.token)
    assert changes.intact
    assert len({cursor.token, first.token, second.token}) == 3


def test_token_that_the_log_does_not_explain_breaks_it(store: Store) -> None:
    with store.read() as tx:
        cursor = tx.changes.begin()
    with store.write() as tx:
        tx.topology.changed(providers=[1])
    with store.write() as tx:
        tx.topology.changed(providers=[2])
    with store.read() as tx:
        assert tx.changes.since(cursor, OWN).intact
        assert not tx.changes.since(replace(cursor, token="another"), OWN).intact


def test_claim_on_another_topology_is_stale(store: Store) -> None:
    with store.read() as tx:
        token = tx.changes.begin().token
    with store.write() as tx:
        tx.topology.require(token)
    with store.write() as tx:
        tx.topology.changed(aggregates=[1])
    with pytest.raises(StaleClaim), store.write() as tx:
        tx.topology.require(token)


def test_structural_change_waits_for_a_claim_that_holds_the_token(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with store.read() as tx:
        token = tx.changes.begin().token
    committed = threading.Event()

    def change() -> None:
        with store.write() as tx:
            tx.topology.changed(providers=[1])
        committed.set()

    with store.write() as claim:
        claim.topology.require(token)
        claim.topology.finish()
        other = threading.Thread(target=change)
        other.start()
        assert not committed.wait(0.3)
    other.join()
    assert committed.is_set()
    postgresql.dispose()


def test_claim_proceeds_while_a_structural_change_is_open(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    with store.read() as tx:
        token = tx.changes.begin().token
    with store.write() as slow:  # a long `covey fleet apply`: it takes the token at its end
        slow.topology.changed(providers=[1])
        with store.write() as tx:
            tx.topology.require(token)
    with pytest.raises(StaleClaim), store.write() as tx:
        tx.topology.require(token)
    postgresql.dispose()


def test_reader_that_missed_trimmed_rows_notices(store: Store) -> None:
    with store.read() as tx:
        suspended = tx.changes.begin()
    with store.write() as tx:
        tx.changes.add_uses([USE])
    with store.write() as tx:
        mark = tx.changes.mark()
    with store.read() as tx:
        reader = tx.changes.since(suspended, OWN).cursor
    with store.write() as tx:
        tx.changes.trim(mark)
    with store.read() as tx:
        assert not tx.changes.since(suspended, OWN).intact
        assert tx.changes.since(reader, OWN).intact
        assert tx.changes.since(tx.changes.begin(), OWN).intact


def test_maintenance_trims_old_changes_and_keeps_newer_ones(store: Store) -> None:
    times = [NOW, NOW + timedelta(seconds=1), NOW + CHANGES_KEPT / 2, NOW + CHANGES_KEPT]
    maintenance = Maintenance(store, lambda: times[0])

    def changes_left() -> int:
        with store.read() as tx:
            query = sa.select(sa.func.count()).where(fleet_changes.c.host_id.is_not(None))
            found: int = tx.changes._connection.execute(query).scalar_one()
            return found

    def add(count: int) -> None:
        with store.write() as tx:
            tx.changes.add_uses([USE] * count)

    before = changes_left()
    add(1)
    maintenance.run_if_due()
    add(2)
    for expected in (before + 3, before + 3, 2):
        times.pop(0)
        maintenance.run_if_due()
        assert changes_left() == expected
