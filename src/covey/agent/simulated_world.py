"""Simulated hosts and their guests: one SQLite database that all simulated hypervisors of a test share.

It outlives the agents, as real guests do. Every change is one transaction, so a killed agent leaves no half of one.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS guests (
    host TEXT NOT NULL, server TEXT NOT NULL, power TEXT NOT NULL, epoch INTEGER NOT NULL,
    vcpus INTEGER NOT NULL, memory_mb INTEGER NOT NULL, image TEXT, PRIMARY KEY (host, server)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS disks (
    host TEXT NOT NULL, server TEXT NOT NULL, image TEXT, boots INTEGER NOT NULL DEFAULT 0,
    console TEXT NOT NULL DEFAULT '', PRIMARY KEY (host, server)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS double_runs (server TEXT NOT NULL, host TEXT NOT NULL, other_host TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS ran_twice_when_defined AFTER INSERT ON guests WHEN NEW.power = 'running' BEGIN
    INSERT INTO double_runs SELECT NEW.server, NEW.host, host FROM guests
    WHERE server = NEW.server AND host <> NEW.host AND power IN ('running', 'paused');
END;
CREATE TRIGGER IF NOT EXISTS ran_twice_when_started AFTER UPDATE OF power ON guests WHEN NEW.power = 'running' BEGIN
    INSERT INTO double_runs SELECT NEW.server, NEW.host, host FROM guests
    WHERE server = NEW.server AND host <> NEW.host AND power IN ('running', 'paused');
END;
"""
_WATCH_INTERVAL_S = 0.25
_BUSY_TIMEOUT_S = 30.0

Changed = Callable[[str, str], None]


class World:
    """The guests of all simulated hosts, in a file or in memory. `double_runs` names each guest that ran twice."""

    def __init__(self, file: Path | None = None) -> None:
        self._connection = sqlite3.connect(
            file or ":memory:", timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        self._lock = threading.Lock()
        self._watchers: dict[str, Changed] = {}
        self._seen: dict[tuple[str, str], str] = {}
        with self._lock:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")  # a killed process loses nothing; a machine may
            self._connection.executescript(_SCHEMA)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run statements as one transaction, which excludes all others."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def read(self, statement: str, *parameters: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(statement, parameters).fetchall()

    def watch(self, host: str, changed: Changed) -> None:
        """Call `changed` for every guest of the host whose power changes. One thread serves all hosts."""
        with self._lock:
            if not self._watchers:
                threading.Thread(target=self._watch, name="covey-simulated-watch", daemon=True).start()
            self._watchers[host] = changed

    def _watch(self) -> None:
        seen, pause = (-1, -1), threading.Event()
        while True:
            with self._lock:  # the first number counts changes of other processes, the second those of this one
                others = self._connection.execute("PRAGMA data_version").fetchone()[0]
                version = others, self._connection.total_changes
            if version != seen:
                seen = version
                self._publish()
            pause.wait(_WATCH_INTERVAL_S)

    def _publish(self) -> None:
        now = {
            (row["host"], row["server"]): row["power"] for row in self.read("SELECT host, server, power FROM guests")
        }
        changed = [(key, power) for key, power in now.items() if self._seen.get(key, "running") != power]
        self._seen = now
        for (host, server), power in changed:
            if host in self._watchers:
                self._watchers[host](server, power)
