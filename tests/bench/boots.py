"""Server creation over HTTP: a real `covey serve` on each database, loaded from another process."""

import base64
import json
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from covey.cli import users
from covey.model.groups import Group, GroupPolicy, PolicyKind
from covey.model.ids import GroupId, ProjectId, UserId
from covey.storage import engine as databases
from covey.storage import schema
from covey.storage.store import Store
from tests.acceptance.processes import Covey, running_covey
from tests.bench import checks, cpu, fleets, runs
from tests.bench.backends import Backend, running_backend
from tests.bench.machine import filesystem
from tests.bench.runs import Run
from tests.bench.table import Row, Target

USER = "bench"
RATE_TARGET, P99_TARGET_MS, TARGET_CONNECTIONS = 1_500, 50, 32
_LONGEST_S = 60.0  # for one run of the load generator
_SETTLE_S = 60.0
_OPTIONS = """\
[api]
auth_strategy = basic
users_file = {users_file}
[driver]
latency_s = 0
[quota]
instances = -1
cores = -1
ram = -1
server_groups = -1
server_group_members = -1
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the benchmark."""

    hosts: int = 10_000
    groups: int = 2_000
    boots: int = 6_000
    boots_alone: int = 1_000  # over one connection
    warm_up: int = 1_000
    rounds: int = 3
    connections: tuple[int, ...] = (1, 8, 32)
    longest_s: float = 150.0  # for the rounds on one database; no round starts later


@dataclass(slots=True)
class Bench:
    """A running service and the statuses of its responses."""

    backend: Backend
    running: Covey
    engine: sa.Engine
    boots: list[str]  # requests
    headers: str
    statuses: Counter[str] = field(default_factory=Counter)

    def boot(self, connections: int, total: int) -> Run:
        """Create servers, each in the next group. CPU time counts until the worker has started all of them."""
        # Continue with the group after the last run, so that all groups grow equally.
        done = self.statuses.total() % len(self.boots)
        return self._load(self.boots[done:] + self.boots[:done], connections, total, self.statuses)

    def analyze(self) -> None:
        """Update the statistics now: otherwise, the time of the next autovacuum affects the results."""
        if self.engine.dialect.name == "postgresql":
            with self.engine.begin() as connection:
                connection.execute(sa.text("ANALYZE"))

    def get(self, connections: int, total: int) -> tuple[Run, Counter[str]]:
        """Read servers; return the run and its statuses."""
        with self.engine.connect() as connection:
            ids = connection.execute(sa.text("SELECT id FROM servers ORDER BY id LIMIT 5000")).scalars().all()
        statuses: Counter[str] = Counter()
        requests = [f"GET /compute/v2.1/servers/{server} HTTP/1.1\r\n{self.headers}\r\n" for server in ids]
        return self._load(requests, connections, total, statuses), statuses

    def _load(self, requests: list[str], connections: int, total: int, statuses: Counter[str]) -> Run:
        run = runs.load(self.running.port, requests, connections, total, _LONGEST_S, self._cpu, self._settle)
        statuses.update(run.statuses)
        return run

    def _cpu(self) -> tuple[float, float | None]:
        database = self.backend.cpu_s
        return cpu.seconds(self.running.process.pid), None if database is None else database()

    def _settle(self) -> float:
        """Wait until no work is left; return the seconds."""
        started = time.monotonic()
        with self.engine.connect() as connection:
            while time.monotonic() - started < _SETTLE_S:
                left = connection.execute(sa.text("SELECT COUNT(*) FROM work")).scalar_one()
                connection.rollback()
                if not left:
                    break
                time.sleep(0.05)
        return time.monotonic() - started


@contextmanager
def running_bench(backend: Backend, directory: Path, sizes: Sizes, settings: str) -> Iterator[Bench]:
    """Run a service with a fleet, a user and groups until the context ends."""
    password = secrets.token_urlsafe(9)
    document = users.with_user({"projects": [], "users": []}, USER, USER, ("member",), password)
    users.write(directory / "users.yaml", document)
    options = directory / "covey.conf"
    options.write_text(_OPTIONS.format(users_file=directory / "users.yaml") + settings)
    engine = databases.connect(backend.url, pool_size=2)
    try:
        schema.upgrade(engine)
        fleets.add_to(Store(engine), sizes.hosts)
        groups = _add_groups(engine, ProjectId(document["projects"][0]["id"]), sizes.groups)
        arguments = ("serve", "--config-file", str(options), "--database", backend.url)
        with running_covey(directory / "serve", *arguments) as running:
            with engine.connect() as connection:
                image = connection.execute(sa.text("SELECT id FROM images")).scalar_one()
            headers = _headers(password)
            yield Bench(backend, running, engine, [_boot(headers, group, image) for group in groups], headers)
    finally:
        engine.dispose()


def _add_groups(engine: sa.Engine, project: ProjectId, number: int) -> list[str]:
    policies, now = (GroupPolicy(PolicyKind.ANTI_AFFINITY),), datetime.now(UTC).replace(tzinfo=None)
    groups = [Group(GroupId(str(uuid.uuid4())), "g", project, UserId(USER), policies, 0, now) for _ in range(number)]
    with Store(engine).write() as tx:
        for group in groups:
            tx.groups.add(group)
    return [str(group.id) for group in groups]


def _headers(password: str) -> str:
    proof = base64.b64encode(f"{USER}:{password}".encode()).decode()
    return (
        f"Host: 127.0.0.1\r\nAuthorization: Basic {proof}\r\nAccept: application/json\r\n"
        "OpenStack-API-Version: compute 2.96\r\n"
    )


def _boot(headers: str, group: str, image: str) -> str:
    server = {
        "name": "bench",
        "flavorRef": "bench",
        "imageRef": image,
        "networks": "none",
        "metadata": {"role": "web"},
        "tags": ["bench"],
    }
    body = json.dumps({"server": server, "os:scheduler_hints": {"group": group}})
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"POST /compute/v2.1/servers HTTP/1.1\r\n{headers}{about}\r\n{body}"


def measure(
    names: list[str],
    sizes: Sizes,
    settings: str,
    parent: Path | None,
    describe: Callable[[str], None],
    log: Callable[[str], None],
) -> Iterator[Row]:
    """Yield rows for each database, and describe each database."""
    for name in names:
        with running_backend(name, parent) as (backend, directory):
            describe(f"{backend.name}: {backend.about}, on {filesystem(directory)}")
            log(f"{backend.name}: {sizes.hosts:,} hosts, {sizes.groups:,} groups")
            with running_bench(backend, directory, sizes, settings) as bench:
                yield from _rows(bench, sizes, log)


def _rows(bench: Bench, sizes: Sizes, log: Callable[[str], None]) -> Iterator[Row]:
    name = bench.backend.name
    bench.boot(max(sizes.connections), sizes.warm_up)
    bench.analyze()
    rounds: dict[int, list[Run]] = {connections: [] for connections in sizes.connections}
    until = time.monotonic() + sizes.longest_s
    for number in range(sizes.rounds):
        if number and time.monotonic() > until:
            log(f"{name}: out of time, {sizes.rounds - number} of {sizes.rounds} rounds are skipped")
            break
        for connections, kept in rounds.items():
            kept.append(bench.boot(connections, sizes.boots_alone if connections == 1 else sizes.boots))
            log(f"{name}: round {number + 1}, {connections} connections: {kept[-1].rate:.0f} boots/s")
    for connections, kept in rounds.items():
        yield row_of(f"{name}, boots, {_connections(connections)}", kept, _targets(connections))
    for connections in (1, max(sizes.connections)):
        run, statuses = bench.get(connections, 2 * sizes.boots_alone)
        row = row_of(f"{name}, GET /servers/{{id}}, {_connections(connections)}", [run], ())
        yield row if set(statuses) == {"200"} else Row(row.what, note=f"FAILED: {dict(statuses)}")
    yield checks_row(bench, sizes)


def _connections(number: int) -> str:
    return f"{number} connection{'s' if number > 1 else ''}"


def _targets(connections: int) -> tuple[Target, ...]:
    if connections != TARGET_CONNECTIONS:
        return ()
    return Target("per_second", at_least=RATE_TARGET), Target("p99_ms", at_most=P99_TARGET_MS)


def row_of(what: str, kept: list[Run], targets: tuple[Target, ...]) -> Row:
    """Return a row with the median of each number over the rounds."""
    note = ""
    if len(kept) > 1:
        rates = sorted(run.rate for run in kept)
        note += f"; rates {rates[0]:.0f} to {rates[-1]:.0f}; worst {max(max(run.latencies_ms) for run in kept):.0f} ms"
        note += f"; all ACTIVE {max(run.settled_s for run in kept):.1f} s after the last answer"
    return runs.row(what, kept, note, targets)


def checks_row(bench: Bench, sizes: Sizes) -> Row:
    accepted = bench.statuses["202"]
    found = checks.problems(bench.engine, accepted)
    errors = {status: count for status, count in bench.statuses.items() if status != "202"}
    if errors:
        found.append(f"answers other than 202: {errors}")
    summary = (
        "; ".join(found) if found else f"all hold after {accepted:,} boots (warm-up of {sizes.warm_up:,} included)"
    )
    return Row(f"{bench.backend.name}, checks on the rows", note=f"{'FAILED: ' if found else ''}{summary}")
