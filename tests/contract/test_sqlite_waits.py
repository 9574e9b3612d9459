"""SQLite: a request that waits for other writers gives up its slot, and waits no longer than its deadline."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from covey.model.errors import Unavailable
from covey.request_slots import RequestSlots, wait_limit
from covey.storage import engine, schema
from covey.storage.engine import TimeLimits
from covey.storage.store import Store

TIMEOUT_S = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "covey.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    connected = engine.connect(f"sqlite:///{path}", limits=TimeLimits(lock_s=2 * TIMEOUT_S))
    schema.upgrade(connected)
    store = Store(connected)
    store.ping()
    yield store
    connected.dispose()


@contextmanager
def other_writer(path: Path) -> Iterator[None]:
    """Hold the write lock, as another process may."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def write(store: Store) -> None:
    with suppress(Unavailable), store.write():
        pass


@pytest.mark.parametrize("writers", [1, 3])
def test_waiting_writers_hold_no_request_slot(store: Store, path: Path, writers: int) -> None:
    """The first waits for the lock of the file, the others for the first."""
    slots, answered = RequestSlots(1), threading.Event()
    waiting = threading.Semaphore(0)

    def writing(*_: object) -> list[bytes]:
        waiting.release()
        write(store)
        return []

    def prompt(*_: object) -> list[bytes]:
        answered.set()
        return []

    with other_writer(path):
        threads = [threading.Thread(target=slots.guard(writing), args=({}, print), daemon=True) for _ in range(writers)]
        for thread in threads:
            thread.start()
            assert waiting.acquire(timeout=TIMEOUT_S)
        threading.Thread(target=slots.guard(prompt), args=({}, print), daemon=True).start()
        is_answered = answered.wait(TIMEOUT_S)
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert is_answered


def test_writer_waits_until_its_deadline_only(store: Store, path: Path) -> None:
    ended = threading.Event()

    def late() -> None:
        with wait_limit(0.2), pytest.raises(Unavailable, match="waited too long for a lock"), store.write():
            pass
        ended.set()

    with other_writer(path):
        threading.Thread(target=late, daemon=True).start()
        assert ended.wait(TIMEOUT_S)


def test_writer_that_waited_leaves_the_connection_its_own_limit(store: Store, path: Path) -> None:
    with other_writer(path), wait_limit(0.1):
        write(store)
    with store.write() as tx:
        assert tx._connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 2 * TIMEOUT_S * 1000


def test_writer_goes_on_when_the_lock_is_free(store: Store, path: Path) -> None:
    done = threading.Event()

    def writing() -> None:
        with store.write():
            done.set()

    with other_writer(path):
        thread = threading.Thread(target=writing, daemon=True)
        thread.start()
        assert not done.wait(0.2)
    assert done.wait(TIMEOUT_S)
    thread.join(TIMEOUT_S)
