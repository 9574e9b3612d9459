"""Reads over HTTP, of a real `covey serve` on each database: a server, and pages of servers and hypervisors."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import requests

from tests.acceptance import storm
from tests.acceptance.processes import Covey, running_covey
from tests.bench import cpu, fleets, runs
from tests.bench.backends import Backend, running_backend
from tests.bench.table import Row

BATCH = 1000
SERVERS = 50_000
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "compute 2.1000"}
# Servers have hosts but are never built.
VARIABLES = storm.settings(storm.UNLIMITED, WORKER__THREADS="0", LOG__LEVEL="info")
CONNECTIONS = (1, 32)
ROUNDS = 3
_LONGEST_S = 60.0
_ONES, _PAGES = 2_000, 20  # requests in a round
_LISTS = (  # path and microversion
    ("/servers", "2.96"),
    ("/servers/detail", "2.96"),
    ("/os-hypervisors/detail", "2.53"),
    ("/os-hypervisors/detail", "2.96"),  # without usage
)


def fill(covey: Covey, servers: int) -> None:
    """Create servers in batches; four of five batches have their own group."""
    for number in range(servers // BATCH):
        group = {"server_group": {"name": f"group-{number}", "policies": ["soft-anti-affinity:rack"]}}
        created = requests.post(f"{covey.url}/compute/v2.1/os-server-groups", json=group, headers=HEADERS, timeout=60)
        group_id = created.json()["server_group"]["id"] if number % 5 else None
        body = storm.boot_body(f"s{number}", "bench", group_id, min_count=BATCH, max_count=BATCH)
        requests.post(f"{covey.url}/compute/v2.1/servers", json=body, headers=HEADERS, timeout=600).raise_for_status()


def measure(
    names: Sequence[str],
    hosts: int,
    servers: int,
    parent: Path | None,
    describe: Callable[[str], None],
    log: Callable[[str], None],
) -> Iterator[Row]:
    """Yield rows for each database."""
    for name in names:
        with running_backend(name, parent) as (backend, directory):
            describe(f"{backend.name}, reads: {backend.about}")
            log(f"{backend.name}: {hosts:,} hosts, {servers:,} servers")
            storm.apply_fleet(directory, backend.url, fleets.fleet_file(hosts))
            arguments = ("serve", "--database", backend.url)
            with running_covey(directory / "serve", *arguments, variables=VARIABLES) as covey:
                fill(covey, servers)
                yield from _rows(backend, covey, servers)


def _rows(backend: Backend, covey: Covey, servers: int) -> Iterator[Row]:
    listed = requests.get(f"{covey.url}/compute/v2.1/servers", headers=HEADERS, timeout=60).json()["servers"]
    ones = [_get(f"/servers/{server['id']}", "2.96") for server in listed]
    for connections in CONNECTIONS:
        what = f"GET /servers/{{id}}, {connections} connection{'s' if connections > 1 else ''}"
        yield _row(backend, covey, what, ones, connections, _ONES)
    for path, version in _LISTS:
        what = f"GET {path} at {version}, a page of 1,000 among {servers:,} servers"
        yield _row(backend, covey, what, [_get(path, version)], 1, _PAGES)


def _get(path: str, version: str) -> str:
    about = f"Host: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: compute {version}\r\n"
    return f"GET /compute/v2.1{path} HTTP/1.1\r\n{about}\r\n"


def _row(backend: Backend, covey: Covey, what: str, asked: list[str], connections: int, total: int) -> Row:
    def used() -> tuple[float, float | None]:
        return cpu.seconds(covey.process.pid), None if backend.cpu_s is None else backend.cpu_s()

    def load(number: int) -> runs.Run:
        return runs.load(covey.port, asked, connections, number, _LONGEST_S, used)

    load(max(connections, total // 10))  # a warm-up
    kept = [load(total) for _ in range(ROUNDS)]
    row = runs.row(f"{backend.name}, {what}", kept, "")
    failed = {status for run in kept for status in run.statuses} - {"200"}
    return Row(row.what, note=f"FAILED: {failed}") if failed else row
