"""Transactions: atomic, isolated, serialized where they write; each failure is an error of the model."""

import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from covey.model.errors import Conflict, Invalid, Unavailable
from covey.model.hosts import Host
from covey.model.ids import ProjectId
from covey.request_slots import wait_limit
from covey.storage import engine
from covey.storage.engine import TimeLimits
from covey.storage.store import Store
from tests.build import NOW, a_host
from tests.contract.concurrency import conflicts, run_concurrently
from tests.databases import PostgreSQL
from tests.sessions import wait_for_last_session

TIMEOUT_S = 30
WEB = ProjectId("web")
OTHERS = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"


def names(store: Store) -> list[str]:
    with store.read() as tx:
        return [host.name for host in tx.hosts.find()]


def test_write_that_raises_is_rolled_back(store: Store) -> None:
    def write_and_raise() -> None:
        with store.write() as tx:
            tx.hosts.add([a_host("n1")], NOW)
            tx.quotas.set_for_project(WEB, {"cores": 1})
            raise KeyError

    with pytest.raises(KeyError):
        write_and_raise()
    assert names(store) == []
    with store.read() as tx:
        assert tx.quotas.of_project(WEB) == {}


def test_read_sees_one_snapshot(store: Store) -> None:
    with store.read() as before:
        assert before.hosts.find() == []
        with store.write() as tx:
            tx.hosts.add([a_host("n1")], NOW)
            tx.quotas.set_for_project(WEB, {"cores": 1})
        assert before.hosts.find() == []
        assert before.quotas.of_project(WEB) == {}
    assert names(store) == ["n1"]


def test_uncommitted_change_is_invisible(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("n1")], NOW)
        assert [host.name for host in tx.hosts.find()] == ["n1"]
        assert names(store) == []


def test_writers_queue_rather_than_fail(store: Store) -> None:
    def write(number: int) -> None:
        for step in range(5):
            with store.write() as tx:
                before = len(tx.hosts.find())
                tx.hosts.add([a_host(f"n{number}-{step}")], NOW)
                assert len(tx.hosts.find()) > before

    assert conflicts(run_concurrently([partial(write, number) for number in range(20)])) == []
    assert len(names(store)) == 100


def test_deferred_constraint_is_a_conflict_and_the_store_stays_usable(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("n1")], NOW)
        host = tx.hosts.find()[0].id
        first, second = tx.aggregates.add([("u1", "a1", "z1", None), ("u2", "a2", "z2", None)], NOW)
    errors = []
    for _ in range(40):  # more often than the pool has connections
        with pytest.raises(Conflict, match="Another request changed the same resource") as caught, store.write() as tx:
            tx.aggregates.add_hosts([(first, host), (second, host)], NOW)
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == len(errors), "an error belongs to one failure"
    assert names(store) == ["n1"]


def test_unforeseen_constraint_is_a_conflict(store: Store) -> None:
    with pytest.raises(Conflict, match="Another request changed the same resource"), store.write() as tx:
        tx.quotas.set_for_project(WEB, {"cores": -2})


def test_deadlocked_writers_end_in_at_most_one_conflict(store: Store) -> None:
    """PostgreSQL resolves this deadlock; on SQLite the second writer waits."""
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2")], NOW)
        first, second = tx.hosts.find()
    both_hold = threading.Barrier(2)

    def lock(one: Host, other: Host) -> None:
        with store.write() as tx:
            tx.aggregates.lock_hosts([one.id])
            with suppress(threading.BrokenBarrierError):
                both_hold.wait(0.3)
            tx.aggregates.lock_hosts([other.id])

    errors = conflicts(run_concurrently([partial(lock, first, second), partial(lock, second, first)]))
    assert len(errors) <= 1
    assert all(isinstance(error, Conflict) for error in errors)


def test_value_too_large_for_the_database_is_invalid(store: Store) -> None:
    def keep() -> dict[str, int]:
        with store.write() as tx:
            tx.quotas.set_for_project(ProjectId("p" * 300), {"cores": 1})
            return tx.quotas.of_project(ProjectId("p" * 300))

    (result,) = run_concurrently([keep])
    assert result == {"cores": 1} or isinstance(result, Invalid)


def test_ping_succeeds_when_the_database_answers(store: Store) -> None:
    store.ping()


@pytest.fixture(params=["sqlite", "postgresql"])
def unreachable(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgresql":
        return Store(engine.connect(f"postgresql://unknown@/nothing?host={tmp_path}"))
    (tmp_path / "covey.sqlite").mkdir()
    return Store(engine.connect(f"sqlite:///{tmp_path / 'covey.sqlite'}"))


def test_unreachable_database_is_unavailable(unreachable: Store) -> None:
    with pytest.raises(Unavailable, match="The database does not answer"):
        unreachable.ping()
    with pytest.raises(Unavailable), unreachable.read() as tx:
        tx.hosts.find()
    with pytest.raises(Unavailable), unreachable.write() as tx:
        tx.hosts.add([a_host()], NOW)


def test_lost_connection_is_unavailable_and_recovers(store: Store, connected: sa.Engine) -> None:
    if connected.dialect.name != "postgresql":
        pytest.skip("a file has no connection to lose")

    def lose_the_connection() -> None:
        with store.write() as tx:
            tx.hosts.add([a_host("n1")], NOW)
            with connected.begin() as other:
                other.execute(sa.text(f"SELECT pg_terminate_backend(pid) {OTHERS}"))
            tx.hosts.find()

    with pytest.raises(Unavailable):
        lose_the_connection()
    assert names(store) == []


def test_single_reads_share_a_connection_and_see_the_newest_commit(store: Store) -> None:
    connections = set[int]()
    for number in range(3):
        with store.read_once() as tx:
            assert len(tx.hosts.find()) == number
            connections.add(id(tx.hosts._connection))
        with store.write() as tx:
            tx.hosts.add([a_host(f"n{number}")], NOW)
    assert len(connections) == 1


def test_single_read_that_raises_returns_its_connection(store: Store) -> None:
    for _ in range(40):  # more often than the pool has connections
        with pytest.raises(KeyError), store.read_once():
            raise KeyError
    assert names(store) == []


def test_single_reads_leave_no_connection_open_after_the_engine(postgresql_server: PostgreSQL) -> None:
    with postgresql_server.fresh() as database:  # in the shared one, a session of another test may still end
        ended, connected = engine.connect(database), engine.connect(database)
        with Store(ended).read_once() as tx:
            tx.hosts.find()
        ended.dispose()
        wait_for_last_session(connected)
        connected.dispose()


def test_single_read_by_the_driver_notices_a_lost_connection(
    database: str, connected: sa.Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if connected.dialect.name != "postgresql":
        pytest.skip("a file has no connection to lose")
    monkeypatch.setattr(engine, "_IDLE_S", 3600)
    used = engine.connect(database)
    store = Store(used)
    with store.read_once() as tx:
        assert not tx.work.any_due()
    with connected.connect() as other:
        other.execute(sa.text(f"SELECT pg_terminate_backend(pid) {OTHERS}"))
    with pytest.raises(Unavailable), store.read_once() as tx:
        tx.work.any_due()
    assert store.lost_connections == 1
    assert not caplog.records, "no reset of the lost connection was tried"
    with store.read_once() as tx:
        assert not tx.work.any_due()
    used.dispose()


@pytest.mark.parametrize("idle_s", [0, 3600], ids=["pinged", "not pinged"])
def test_single_read_on_a_lost_connection_recovers(
    database: str, connected: sa.Engine, idle_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connected.dialect.name != "postgresql":
        pytest.skip("a file has no connection to lose")
    monkeypatch.setattr(engine, "_IDLE_S", idle_s)
    used = engine.connect(database)
    store = Store(used)

    def read() -> list[Host]:
        with store.read_once() as tx:
            return tx.hosts.find()

    read()
    with connected.begin() as other:
        other.execute(sa.text(f"SELECT pg_terminate_backend(pid) {OTHERS}"))
    if idle_s:
        with pytest.raises(Unavailable):
            read()
    assert read() == []
    assert store.lost_connections == 1
    used.dispose()


URLS = {
    "another database": "mysql://u:secret@h/n",
    "no URL": "covey.sqlite",
    "a file in memory, which no two threads share": "sqlite:///:memory:",
    "no file": "sqlite://",
}


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
def test_unsupported_database_is_invalid(url: str) -> None:
    with pytest.raises(Invalid, match="Covey stores in SQLite") as caught:
        engine.connect(url)
    assert "secret" not in caught.value.message


def test_transaction_of_a_frozen_process_ends(postgresql_database: str) -> None:
    """The database ends a session that is idle in a transaction, so that others get what it holds."""
    limits, held = TimeLimits(idle_in_transaction_s=1), list[str]()
    frozen, other = (Store(engine.connect(postgresql_database, limits=limits)) for _ in range(2))

    def freeze() -> None:
        with frozen.write() as tx:
            tx.topology.begin_change()
            with wait_limit(TIMEOUT_S), other.write() as waiting:
                waiting.topology.hold()
                held.append("by the other")

    with pytest.raises(Unavailable):
        freeze()
    assert held == ["by the other"]
