"""A rebalance on real processes, interrupted by a kill or a cancel."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.acceptance import storm
from tests.acceptance.invariants import read, violations
from tests.acceptance.processes import STOP_TIMEOUT_S, Process, start_covey
from tests.databases import PostgreSQL

SERVERS = 10
MOVES = SERVERS - 1  # all but one server must leave their host
# Slow steps, so that the test can interrupt them; short leases, so that work of a dead process continues soon.
VARIABLES = storm.settings(
    storm.UNLIMITED, DRIVER__LATENCY_S="0.2", WORKER__LEASE_S="2", WORKER__POLL_INTERVAL_S="0.05"
)
IDLE = VARIABLES | {"OS_WORKER__THREADS": "0"}
GROUPS = "/compute/v2.1/os-server-groups"

Document = dict[str, Any]


@contextmanager
def worker(directory: Path, database: str, variables: Mapping[str, str]) -> Iterator[Process]:
    """Run a `covey worker` until the context ends or the test kills it."""
    with (directory / "worker.log").open("ab") as log:
        command = ("worker", "--database", database)
        process = start_covey(directory, *command, variables=variables, stdout=log, stderr=log)
    try:
        yield process
        if process.poll() is None:
            storm.wait_until(lambda: _handles(process, signal.SIGTERM), "the worker handles SIGTERM")
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_TIMEOUT_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _handles(process: Process, number: signal.Signals) -> bool:
    """Return whether the process has installed a handler; before that, a signal ends it at once."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


@dataclass
class Site:
    """Two serving processes, a group with all servers on one host, and a database connection."""

    client: storm.Client
    rows: sa.Engine
    group: str = ""
    servers: frozenset[str] = frozenset()

    def create_crowded_group(self) -> None:
        """Create a group on one host, and change its policy to anti-affinity."""
        made = self.client.ask("POST", GROUPS, storm.group_body(["affinity"], {}))
        self.group = made.json["server_group"]["id"]
        body = storm.boot_body("s", group=self.group, min_count=SERVERS, max_count=SERVERS)
        assert self.client.ask("POST", "/compute/v2.1/servers", body).status == 202
        storm.wait_until_idle(self.rows)
        self.servers = frozenset(row.id for row in read(self.rows).servers)
        change = {"server_group": {"policies": ["anti-affinity"]}}
        assert self.client.ask("PUT", f"{GROUPS}/{self.group}", change).status == 200
        assert len(self.audit()["violations"]) == 1

    def act(self, body: Document) -> int:
        return self.client.ask("POST", f"{GROUPS}/{self.group}/action", body, of=1).status

    def audit(self) -> Document:
        found = self.client.ask("GET", f"{GROUPS}/{self.group}/audit?violations=true", of=1)
        document: Document = found.json["server_group_policy_audit"]
        return document

    def rebalance(self) -> Document:
        document: Document = self.client.ask("GET", f"{GROUPS}/{self.group}/rebalance", of=1).json["rebalance"]
        return document

    def is_half_done(self) -> bool:
        """Return whether some moves are done, one is in progress, and others have not started."""
        moving = [row for row in read(self.rows).servers if row.task_state is not None]
        return bool(moving) and 2 <= self.rebalance()["moves_done"] < MOVES - 2

    def start_and_wait(self) -> None:
        assert self.act({"rebalance": {}}) == 202
        storm.wait_until(self.is_half_done, "the rebalance is in its middle")

    def wait_for(self, status: str) -> Document:
        storm.wait_until(lambda: self.rebalance()["status"] != "running", "the rebalance is over")
        storm.wait_until_idle(self.rows)
        found = self.rebalance()
        assert found["status"] == status, found
        return found

    def assert_rebalanced(self) -> None:
        """Assert that every server is active on its own host."""
        servers = read(self.rows).servers
        assert {row.id for row in servers} == self.servers
        assert {row.vm_state for row in servers} == {"active"}
        assert len({row.host_id for row in servers}) == SERVERS
        assert self.audit()["violations"] == []
        assert violations(self.rows, idle=True) == []
        assert storm.deadlocks(self.rows) == 0


@contextmanager
def site(
    directory: Path, database: str, first: Mapping[str, str], second: Mapping[str, str]
) -> Iterator[tuple[Site, storm.KillableProcess]]:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 16))
    killable = [storm.KillableProcess(directory / f"serve-{i}", database, v) for i, v in enumerate((first, second))]
    with ExitStack() as stack:
        for process in killable:
            stack.callback(process.kill)
            process.start()
        rows = storm.connect(database)
        stack.callback(rows.dispose)
        client = storm.Client([process.port for process in killable])
        stack.callback(client.close)
        yield Site(client, rows), killable[0]
        assert storm.crashes([process.log for process in killable]) == []


def test_another_worker_continues_after_a_kill(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with postgresql_server.fresh() as database, site(tmp_path, database, IDLE, IDLE) as (here, _):
        with worker(tmp_path, database, VARIABLES) as killed_worker:
            here.create_crowded_group()
            here.start_and_wait()
            os.kill(killed_worker.pid, signal.SIGKILL)
            killed_worker.wait()
        assert here.rebalance()["status"] == "running"
        with worker(tmp_path, database, VARIABLES):
            assert here.wait_for("done")["moves_done"] == MOVES
        here.assert_rebalanced()


def test_worker_continues_after_a_serving_process_is_killed(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with postgresql_server.fresh() as database, site(tmp_path, database, VARIABLES, IDLE) as (here, killed_process):
        here.create_crowded_group()
        here.start_and_wait()
        killed_process.kill()
        assert here.rebalance()["status"] == "running"
        with worker(tmp_path, database, VARIABLES):
            assert here.wait_for("done")["moves_done"] == MOVES
        here.assert_rebalanced()


def test_second_rebalance_completes_a_cancelled_one(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with (
        postgresql_server.fresh() as database,
        site(tmp_path, database, VARIABLES, IDLE) as (here, _),
        worker(tmp_path, database, VARIABLES),
    ):
        here.create_crowded_group()
        here.start_and_wait()
        assert here.act({"rebalance": {}}) == 409
        assert here.act({"cancel_rebalance": {}}) == 202
        done = here.wait_for("cancelled")["moves_done"]
        assert 2 <= done < MOVES
        (broken,) = here.audit()["violations"]
        assert len(broken["members"]) == SERVERS - done  # the move in progress was finished
        assert violations(here.rows, idle=True, changed=True) == []
        assert here.act({"cancel_rebalance": {}}) == 409

        assert here.act({"rebalance": {}}) == 202
        assert here.wait_for("done")["moves_done"] == MOVES - done
        here.assert_rebalanced()
