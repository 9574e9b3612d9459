"""Agents: what a thousand of them cost one service, and how many servers boot beside them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from covey.storage import engine as databases
from tests.acceptance import storm
from tests.acceptance.processes import Covey, running_covey
from tests.bench import cpu, runs
from tests.bench.backends import Backend, running_backend
from tests.bench.table import Row

AGENTS = 1_000
_HEARTBEAT_S = 10.0
_IDLE_S = 20.0
_BOOTS, _CONNECTIONS, _LONGEST_S = 1_000, 8, 120.0
_FLAVOR = "flavors:\n  - {name: bench, id: bench, vcpus: 1, memory_mb: 512, disk_gb: 1}\n"


def measure(
    names: Sequence[str],
    agents: int,
    parent: Path | None,
    describe: Callable[[str], None],
    log: Callable[[str], None],
) -> Iterator[Row]:
    """Yield rows for each database."""
    for name in names:
        with running_backend(name, parent) as (backend, directory):
            describe(f"{backend.name}, agents: {backend.about}")
            log(f"{backend.name}: {agents:,} agents")
            yield from _rows(backend, directory, agents)


def _rows(backend: Backend, directory: Path, agents: int) -> Iterator[Row]:
    storm.apply_fleet(directory, backend.url, _FLAVOR)
    arguments, hosts = ("serve", "--database", backend.url), f"{agents:,} hosts"
    variables = storm.settings(storm.UNLIMITED, DRIVER__BACKEND="agents")
    with running_covey(directory / "agents", *arguments, variables=variables) as covey:
        with AgentFleet.start(covey.port, agents) as fleet:
            yield _idle(backend, covey, agents)
            yield _boots(backend, covey, f"boots on {hosts} with agents")
        wrong = {what: number for what, number in fleet.counts.items() if not what.endswith(" 200")}
        note = f"FAILED: {wrong}" if wrong else ", ".join(f"{n} x {what}" for what, n in fleet.counts.items())
        yield Row(f"{backend.name}, answers to agents", note=note)
    with _database(backend) as connection:
        connection.execute(sa.text("DELETE FROM agents"))
        connection.execute(sa.text("UPDATE hosts SET agent_down = false"))
        connection.commit()
    with running_covey(directory / "simulated", *arguments, variables=storm.settings(storm.UNLIMITED)) as covey:
        yield _boots(backend, covey, f"boots on {hosts} without agents, simulated")


@dataclass(slots=True)
class AgentFleet:
    """The process of the agents."""

    process: subprocess.Popen[str]
    counts: dict[str, Any]

    @classmethod
    def start(cls, port: int, agents: int) -> Self:
        """Return when all agents are up."""
        command = [sys.executable, str(Path(__file__).with_name("agent_fleet.py"))]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"port": port, "agents": agents, "heartbeat_s": _HEARTBEAT_S}) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "up\n"
        return cls(process, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        printed = self.process.communicate(timeout=60)[0]
        self.counts = json.loads(printed)


def _idle(backend: Backend, covey: Covey, agents: int) -> Row:
    """Return what heartbeats and polls cost, and that they leave the fleet's change log alone."""
    time.sleep(_HEARTBEAT_S)
    before, changes, started = _cpu(backend, covey), _changes(backend), time.monotonic()
    time.sleep(_IDLE_S)
    seconds, after = time.monotonic() - started, _cpu(backend, covey)
    server, database = after[0] - before[0], (after[1] or 0) - (before[1] or 0)
    requests = agents * seconds * (1 / _HEARTBEAT_S + 1 / 20)
    written = _changes(backend) - changes
    shares = f"{100 * server / seconds:.0f} % of a CPU in the service, {100 * database / seconds:.0f} % in the database"
    return Row(
        f"{backend.name}, {agents:,} agents heartbeat every {_HEARTBEAT_S:g} s and wait for calls",
        cpu_us=(server + database) / requests * 1e6,
        per_second=requests / seconds,
        note=f"FAILED: {written} entries in the change log" if written else f"{shares}; the fleet did not change",
    )


def _boots(backend: Backend, covey: Covey, what: str) -> Row:
    body = json.dumps(storm.boot_body("s", "bench", None))
    head = "POST /compute/v2.1/servers HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: alice:web\r\n"
    version = "OpenStack-API-Version: compute 2.96\r\nContent-Type: application/json\r\n"
    request = f"{head}{version}Content-Length: {len(body)}\r\n\r\n{body}"

    def load(total: int) -> runs.Run:
        return runs.load(
            covey.port,
            [request],
            _CONNECTIONS,
            total,
            _LONGEST_S,
            lambda: _cpu(backend, covey),
            lambda: _settled(backend),
        )

    load(_BOOTS // 10)  # a warm-up
    run = load(_BOOTS)
    with _database(backend) as connection:
        states = connection.execute(sa.text("SELECT vm_state, COUNT(*) FROM servers GROUP BY vm_state")).all()
        counted = dict(tuple(row) for row in states)
    active_rate = run.answered / (run.seconds + run.settled_s)
    row = runs.row(f"{backend.name}, {what}, {_CONNECTIONS} connections", [run], "")
    failed = counted.keys() - {"active"} or run.statuses.keys() - {"202"}
    note = f"FAILED: {counted} {dict(run.statuses)}" if failed else f"{active_rate:.0f} ACTIVE a second; {row.note}"
    return Row(row.what, row.p50_ms, row.p99_ms, row.cpu_us, row.per_second, note=note)


def _settled(backend: Backend) -> float:
    """Wait until no job is left. Return the seconds."""
    started = time.monotonic()
    with _database(backend) as connection:
        while connection.execute(sa.text("SELECT COUNT(*) FROM work")).scalar_one():
            connection.rollback()
            if time.monotonic() - started > _LONGEST_S:
                break
            time.sleep(0.05)
    return time.monotonic() - started


def _cpu(backend: Backend, covey: Covey) -> tuple[float, float | None]:
    return cpu.seconds(covey.process.pid), None if backend.cpu_s is None else backend.cpu_s()


def _changes(backend: Backend) -> int:
    with _database(backend) as connection:
        found: int = connection.execute(sa.text("SELECT COUNT(*) FROM fleet_changes")).scalar_one()
        return found


def _database(backend: Backend) -> sa.Connection:
    return databases.connect(backend.url).connect()
