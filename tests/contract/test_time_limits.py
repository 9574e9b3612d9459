"""PostgreSQL: nothing is waited for without a limit, and what exceeds a limit is an error of the model."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from covey.model.errors import Unavailable
from covey.model.ids import ProjectId
from covey.request_slots import RequestSlots, wait_limit
from covey.storage import changes, engine
from covey.storage.engine import TimeLimits
from covey.storage.rows import execute, pipeline
from covey.storage.store import Store
from tests.build import NOW, a_host
from tests.databases import PostgreSQL
from tests.frozen_server import FrozenServer
from tests.postgresql_cluster import Cluster

SHORT = TimeLimits(connect_s=2, pool_s=0.2, lock_s=0.3, statement_s=0.5, idle_in_transaction_s=10)
WAITED = "waited too long"
TIMEOUT_S = 30


@pytest.fixture
def store(postgresql_database: str) -> Store:
    return Store(engine.connect(postgresql_database, limits=SHORT))


def sleep(tx: Any, seconds: float) -> None:
    tx._connection.execute(sa.text(f"SELECT pg_sleep({seconds})"))


@contextmanager
def lock(database: str, table: str) -> Iterator[None]:
    """Hold a table in another session."""
    other = engine.connect(database)
    with other.begin() as connection:
        connection.execute(sa.text(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
        yield
    other.dispose()


def test_statement_ends_at_its_limit_and_the_connection_stays(store: Store) -> None:
    with pytest.raises(Unavailable, match=WAITED), store.read() as tx:
        sleep(tx, TIMEOUT_S)
    store.ping()
    assert store.lost_connections == 0


def sqlstate(error: Unavailable) -> str:
    driver: Any = error.__cause__
    return str(driver.orig.sqlstate)


def test_wait_for_a_lock_ends_at_its_limit(store: Store, postgresql_database: str) -> None:
    with lock(postgresql_database, "hosts"):
        with pytest.raises(Unavailable, match=WAITED) as raised, store.write() as tx:
            tx.hosts.add([a_host("is-locked-out")], NOW)
        store.ping()
    assert sqlstate(raised.value) == "55P03", "the limit of locks, before that of statements"
    with store.read() as tx:
        assert "is-locked-out" not in [host.name for host in tx.hosts.find()]


@pytest.mark.parametrize("ends", [False, True], ids=["within it", "after its last answer"])
def test_transaction_that_is_frozen_in_a_pipeline_ends(postgresql_database: str, ends: bool) -> None:
    """PostgreSQL's own limit does not count then. Who waits for its locks ends its session."""
    limits = replace(SHORT, idle_in_transaction_s=1)
    frozen, other = (Store(engine.connect(postgresql_database, limits=limits)) for _ in range(2))

    def gets_the_lock() -> bool:
        with suppress(Unavailable), other.write() as tx:
            tx.topology.hold()
            return True
        return False

    with suppress(Unavailable), frozen.write() as tx, ExitStack() as stack:
        stack.enter_context(pipeline(tx._connection))
        execute(tx._connection, "SELECT pg_advisory_xact_lock(?)", changes._LOCK_KEY).fetchone()
        if ends:
            execute(tx._connection, "SELECT pg_sleep(0.1)")  # psycopg sends Flush after Sync, and waits
            stack.close()
        assert not gets_the_lock(), "it may be slow, not frozen"
        time.sleep(limits.idle_in_transaction_s)
        assert any(gets_the_lock() for _ in range(3))


def test_large_statement_reaches_a_server_that_is_slow_to_read(
    postgresql_server: PostgreSQL, postgresql_database: str
) -> None:
    """The wait goes on without a request slot, also while the statement is being sent."""
    size = 16 * 2**20
    with FrozenServer(postgresql_server.socket) as server:
        slow = engine.connect(server.url(postgresql_database))
        with slow.connect() as connection:
            connection.scalar(sa.text("SELECT 1"))
            server.freeze()
            threading.Timer(0.3, server.go_on).start()
            assert connection.scalar(sa.text("SELECT length(CAST(:sent AS text))"), {"sent": "x" * size}) == size
        slow.dispose()


def test_whole_tables_may_take_longer(store: Store) -> None:
    with store.read(long=True) as tx:
        sleep(tx, 1)
    with pytest.raises(Unavailable), store.read() as tx:
        sleep(tx, 1)


def test_attempt_to_connect_ends_at_its_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = Store(engine.connect(f"postgresql://covey@127.0.0.1:{silent.getsockname()[1]}/covey", limits=SHORT))
        began = time.monotonic()
        with wait_limit(2 * TIMEOUT_S), pytest.raises(Unavailable), store.read():
            pass
    assert time.monotonic() - began < TIMEOUT_S


@contextmanager
def login_server() -> Iterator[int]:
    """Yield the port of a server that accepts each login, and answers nothing after it."""

    def accept(client: socket.socket) -> None:
        client.recv(1 << 16)  # the startup packet
        settings = {"server_version": "16.0", "client_encoding": "UTF8", "standard_conforming_strings": "on"}
        texts = (f"{name}\0{value}\0".encode() for name, value in settings.items())
        status = b"".join(b"S" + struct.pack("!i", len(text) + 4) + text for text in texts)
        ready = b"R" + struct.pack("!ii", 8, 0) + status + b"K" + struct.pack("!iii", 12, 1, 1)
        client.sendall(ready + b"Z" + struct.pack("!i", 5) + b"I")

    def serve() -> None:
        with suppress(OSError):  # the listening socket is closed
            while True:
                clients.append(listening.accept()[0])
                accept(clients[-1])

    clients: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for client in clients:
                client.close()


def test_new_connection_without_an_answer_after_the_login_ends_at_its_limit() -> None:
    """Also outside of requests, which have a deadline: for workers, and where the fleet is loaded at the start."""
    with ThreadPoolExecutor(1) as pool, login_server() as port:
        url = f"postgresql://covey@127.0.0.1:{port}/covey?sslmode=disable&gssencmode=disable"
        store = Store(engine.connect(url, limits=SHORT))
        waiting = pool.submit(store.read().__enter__)
        assert isinstance(waiting.exception(TIMEOUT_S), Unavailable)


def test_lost_route_ends_a_connection_at_its_limit(postgresql_database: str) -> None:
    """The kernel closes it when nothing that was sent is acknowledged for so long, in milliseconds."""
    with engine.connect(postgresql_database, limits=SHORT).connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        assert driver.info.get_parameters()["tcp_user_timeout"] == "2000"


def test_command_has_no_limit_for_statements_and_locks(postgresql_database: str) -> None:
    with engine.connect(postgresql_database).connect() as connection:
        limits = [connection.scalar(sa.text(f"SHOW {name}")) for name in ("statement_timeout", "lock_timeout")]
    assert limits == ["0", "0"]


def test_wait_for_a_connection_ends_at_its_limit(postgresql_database: str) -> None:
    store = Store(engine.connect(postgresql_database, pool_size=1, limits=SHORT))
    with store.read(), wait_limit(TIMEOUT_S):
        began = time.monotonic()
        with pytest.raises(Unavailable, match=WAITED), store.read():
            pass
    assert time.monotonic() - began < TIMEOUT_S / 2
    store.ping()


def test_request_waits_no_longer_than_its_deadline(store: Store, postgresql_database: str) -> None:
    patient = Store(engine.connect(postgresql_database))
    with wait_limit(0.2), pytest.raises(Unavailable), patient.read() as tx:
        sleep(tx, TIMEOUT_S)
    assert patient.lost_connections == 1, "the connection is closed, since an answer may still come"
    patient.ping()
    with wait_limit(-1), pytest.raises(Unavailable, match=WAITED), store.read():
        pass


def test_server_that_does_not_answer_is_unavailable_and_recovers(
    postgresql_server: PostgreSQL, postgresql_database: str
) -> None:
    with FrozenServer(postgresql_server.socket) as server:
        store = Store(engine.connect(server.url(postgresql_database), limits=SHORT))
        store.ping()
        server.freeze()
        for ask in (store.ping, lambda: sleep_in(store)):
            with wait_limit(1), pytest.raises(Unavailable):
                ask()
        server.go_on()
        store.ping()
        assert store.lost_connections > 0


def sleep_in(store: Store) -> None:
    with store.read() as tx:
        sleep(tx, 0)


def test_unanswered_commit_is_unavailable(postgresql_server: PostgreSQL, postgresql_database: str) -> None:
    """Its outcome is unknown: the live fleet drops its copy upon this error."""

    def commit() -> None:
        with wait_limit(2), store.write() as tx:
            tx.quotas.set_for_project(ProjectId("web"), {"cores": 1})
            server.freeze()

    with FrozenServer(postgresql_server.socket) as server:
        store = Store(engine.connect(server.url(postgresql_database), limits=SHORT))
        with pytest.raises(Unavailable):
            commit()


def test_request_that_waits_for_a_lock_gives_up_its_slot(store: Store, postgresql_database: str) -> None:
    slots, waits, answered = RequestSlots(1), threading.Event(), list[str]()

    def blocked(*_: object) -> list[bytes]:
        waits.set()
        with pytest.raises(Unavailable), store.write() as tx:
            tx.hosts.add([a_host("blocked")], NOW)  # other tests that share the database have other hosts
        answered.append("blocked")
        return []

    def prompt(*_: object) -> list[bytes]:
        answered.append("prompt")
        return []

    def call(app: Callable[..., list[bytes]]) -> None:
        slots.guard(app)({}, print)  # type: ignore[arg-type]

    store.ping()  # to connect would give up the slot, too
    with lock(postgresql_database, "hosts"):
        thread = threading.Thread(target=call, args=(blocked,), daemon=True)
        thread.start()
        assert waits.wait(TIMEOUT_S)
        call(prompt)
        thread.join(TIMEOUT_S)
    assert answered == ["prompt", "blocked"]


def test_standby_in_recovery_is_not_ready_and_refuses_writes(cluster: Cluster) -> None:
    with cluster.fresh() as database:
        store = Store(engine.connect(database, limits=SHORT))
        store.ping()
        add_host(store, "n1")
        cluster.become_standby()
        with suppress(Unavailable):
            store.ping()  # the connections are lost
        for refused in (store.ping, lambda: add_host(store, "n2"), lambda: add_host(store, "n3")):
            with pytest.raises(Unavailable, match="does not accept writes"):
                refused()
            with store.read() as tx:
                assert [host.name for host in tx.hosts.find()] == ["n1"]
        cluster.promote()
        store.ping()
        add_host(store, "n2")


def add_host(store: Store, name: str) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host(name)], NOW)
