"""The real Placement compared with Covey: equal requests over HTTP for equal providers on one PostgreSQL server."""

import http.client
import json
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import sqlalchemy as sa

from covey.storage import engine as databases
from covey.storage import schema
from tests.acceptance.processes import environment, free_port, running_covey
from tests.bench import checks, cpu, ledgers, peers, runs
from tests.bench.backends import Backend, postgresql
from tests.bench.candidates import AMOUNTS, QUERIES, flat
from tests.bench.machine import filesystem
from tests.bench.runs import Run
from tests.bench.table import Row, Target

PLACEMENT = "openstack-placement==16.0.0"
REQUIREMENTS = (PLACEMENT, "gunicorn", "psycopg2-binary")
PROVIDERS = 10_000
CANDIDATES_TARGETS = {"50": 100, "1000": 30}  # by limit: CPU of Placement / CPU of Covey
ALLOCATIONS_TARGET = 10
CLIENTS = (1, 8, 16)
WORKERS, THREADS = 2, 8  # of gunicorn
# A query with few candidates: three aggregates, a trait, and a large amount of VCPUs.
NARROW = {
    "resources": ["VCPU:100,MEMORY_MB:4096,DISK_GB:20"],
    "required": ["CUSTOM_SSD"],
    "member_of": ["in:" + ",".join(f"{number:08x}-0000-4000-8000-000000000000" for number in (5, 6, 7))],
}
_HEADERS = (
    "Host: 127.0.0.1\r\nX-Auth-Token: admin\r\nAccept: application/json\r\nOpenStack-API-Version: placement 1.39\r\n"
)
_OPTIONS = "[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = {}\n"
_START_S, _STOP_S, _ANSWER_S = 60.0, 15.0, 60.0

Json = Mapping[str, Any]


@dataclass(slots=True)
class Side:
    """One of the two services with its own database."""

    name: str
    port: int
    pid: int
    backend: Backend
    url: str
    candidates: int  # number of timed calls; the real Placement takes a second for each
    allocations: int
    longest_s: float = 30.0  # for one run
    sent: int = 0  # allocation requests
    accepted: int = 0
    failures: list[str] = field(default_factory=list)

    def ask(self, question: Mapping[str, list[str]]) -> Run:
        """Repeat one query with one client, after a warm-up."""
        request = f"GET {_path(question)} HTTP/1.1\r\n{_HEADERS}\r\n"
        self._load([request], WORKERS, WORKERS, "200")
        return self._load([request], 1, self.candidates, "200")

    def allocate(self, clients: int) -> Run:
        """Allocate for new consumers, each on the next provider."""
        self._load(self._allocations(4 * clients), clients, 4 * clients, "204")
        return self._load(self._allocations(self.allocations), clients, self.allocations, "204")

    def _allocations(self, total: int) -> list[str]:
        first, self.sent = self.sent, self.sent + total
        return [_allocation(number) for number in range(first, first + total)]

    def _load(self, requests: list[str], clients: int, total: int, expected: str) -> Run:
        run = runs.load(self.port, requests, clients, total, self.longest_s, self._cpu)
        self.accepted += run.statuses["204"]
        other = {status: count for status, count in run.statuses.items() if status not in (expected, "unanswered")}
        if other or not run.answered:
            self.failures.append(f"{self.name} answered {dict(run.statuses)} to {requests[0].partition(' HTTP')[0]}")
        return run

    def _cpu(self) -> tuple[float, float | None]:
        assert self.backend.cpu_s is not None
        return cpu.seconds(self.pid), self.backend.cpu_s()


def _path(question: Mapping[str, list[str]]) -> str:
    return f"/allocation_candidates?{urlencode(question, doseq=True)}"


def _allocation(number: int) -> str:
    provider = number * 617 % PROVIDERS + 1  # every provider once, in a scattered order
    body = json.dumps(
        {
            "allocations": {_provider(provider): {"resources": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}},
            "project_id": ledgers.OWNER,
            "user_id": ledgers.OWNER,
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
    )
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    consumer = uuid.uuid5(uuid.NAMESPACE_URL, str(number))
    return f"PUT /allocations/{consumer} HTTP/1.1\r\n{_HEADERS}{about}\r\n{body}"


def _provider(number: int) -> str:
    return f"{2**20 + number:08x}-0000-4000-8000-000000000000"


def measure(
    venv: Path, parent: Path | None, describe: Callable[[str], None], log: Callable[[str], None]
) -> Iterator[Row]:
    """Yield rows of both services for each query, their ratios, and the comparison of their responses."""
    python = peers.prepared(venv, "placement, gunicorn, psycopg2", REQUIREMENTS, log)
    with tempfile.TemporaryDirectory(prefix="covey-bench-", dir=parent, ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        with postgresql(directory) as backend, ExitStack() as both:
            describe(f"Placement beside Covey, {backend.name}: {backend.about}, on {filesystem(directory)}")
            describe(f"{PLACEMENT}: gunicorn, {WORKERS} processes of {THREADS} threads; Covey: as by default")
            log(f"Placement: {PROVIDERS:,} providers in both")
            records = list(flat(PROVIDERS))
            covey = both.enter_context(_covey(directory, backend, records))
            placement = both.enter_context(
                running_placement(directory, backend, python, lambda url: ledgers.fill_placement(url, records))
            )
            yield _same_answers(covey, placement)
            yield from _candidates(covey, placement, log)
            yield from _allocations(covey, placement, log)
            yield _checks_row(covey, placement)


@contextmanager
def _covey(directory: Path, backend: Backend, records: list[Any]) -> Iterator[Side]:
    engine = databases.connect(backend.url, pool_size=1)
    schema.upgrade(engine)
    engine.dispose()
    ledgers.fill_covey(backend.url, records)
    options = directory / "covey.conf"
    options.write_text("[api]\nauth_strategy = none\n")
    arguments = ("serve", "--api", "placement", "--config-file", str(options), "--database", backend.url)
    with running_covey(directory / "covey", *arguments) as running:
        yield Side("Covey", running.port, running.process.pid, backend, backend.url, 200, 1_000)


@contextmanager
def running_placement(directory: Path, backend: Backend, python: Path, fill: Callable[[str], None]) -> Iterator[Side]:
    """Run the real Placement on its own database of the same server, which `fill` gets the URL of."""
    with psycopg.connect(backend.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE placement")
    url = sa.make_url(backend.url).set(drivername="postgresql", database="placement")
    home = directory / "placement"
    home.mkdir()
    (home / "placement.conf").write_text(_OPTIONS.format(_text(url.set(drivername="postgresql+psycopg2"))))
    variables = environment(home, OS_PLACEMENT_CONFIG_DIR=str(home))
    sync = [str(python.with_name("placement-manage")), "--config-file", str(home / "placement.conf"), "db", "sync"]
    with (home / "log").open("wb") as log:
        subprocess.run(sync, env=variables, check=True, stdout=log, stderr=log, timeout=_START_S)
        port = free_port()
        flags = [
            "--workers",
            str(WORKERS),
            "--worker-class",
            "gthread",
            "--threads",
            str(THREADS),
            "--keep-alive",
            "75",
        ]
        process = subprocess.Popen(
            [python, "-m", "gunicorn", *flags, "--bind", f"127.0.0.1:{port}", "placement.wsgi.api:application"],
            cwd=home,
            env=variables,
            stdout=log,
            stderr=log,
        )
    try:
        _wait(port, process, home / "log")
        fill(_text(url))  # after the process has inserted the standard classes and traits
        yield Side(
            PLACEMENT.replace("openstack-placement==", "Placement "), port, process.pid, backend, _text(url), 5, 200
        )
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _text(url: sa.URL) -> str:
    return url.render_as_string(hide_password=False)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            get(port, "/")
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise subprocess.SubprocessError(f"Placement does not respond:\n{log.read_text()[-2000:]}")


def get(port: int, path: str) -> Json:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
    try:
        connection.request("GET", path, headers=dict(line.split(": ", 1) for line in _HEADERS.split("\r\n") if line))
        document: Json = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return document


def _same_answers(covey: Side, placement: Side) -> Row:
    """Compare the responses before timing: a ratio of services that respond differently means nothing."""
    problems: list[str] = []
    counts = []
    for name, question in {"narrow": NARROW, **{name: _question(name) for name in QUERIES}}.items():
        answers = get(covey.port, _path(question)), get(placement.port, _path(question))
        problems += [f"{name}: {what}" for what in differences(*answers, whole=question is NARROW)]
        counts.append(f"{len(answers[0].get('allocation_requests', ())):,}")
    summary = f"{counts[0]} candidates where no limit cuts, with their providers' use and traits"
    summary += f"; as many where one does: {', '.join(counts[1:])}"
    return Row("Placement and Covey, the same answers", note=f"FAILED: {'; '.join(problems)}" if problems else summary)


def _question(name: str) -> Mapping[str, list[str]]:
    return {"resources": [AMOUNTS], **QUERIES[name][0]}


def differences(covey: Json, placement: Json, *, whole: bool) -> list[str]:
    """Return how two responses differ: in the number of candidates and, when both are whole, in the candidates."""
    if not all(answer.get("allocation_requests") for answer in (covey, placement)):
        return [f"no candidates: {str(covey)[:200]} and {str(placement)[:200]}"]
    counts = [len(answer["allocation_requests"]) for answer in (covey, placement)]
    if counts[0] != counts[1]:
        return [f"{counts[0]} and {counts[1]} candidates"]
    if not whole:
        return []
    return [
        f"other {part}: {sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key))[:3]}"
        for part, read in {"candidates": _requests, "providers": _summaries}.items()
        if (left := read(covey)) != (right := read(placement))
    ]


def _requests(answer: Json) -> dict[str, Any]:
    return {
        provider: part["resources"]
        for request in answer["allocation_requests"]
        for provider, part in request["allocations"].items()
    }


def _summaries(answer: Json) -> dict[str, Any]:
    return {key: {**each, "traits": sorted(each["traits"])} for key, each in answer["provider_summaries"].items()}


def _candidates(covey: Side, placement: Side, log: Callable[[str], None]) -> Iterator[Row]:
    for name in QUERIES:
        question = _question(name)
        log(f"Placement: candidates, {name}")
        target = Target("ratio", at_least=CANDIDATES_TARGETS[question["limit"][0]])
        what = f"{PROVIDERS:,} providers, candidates, {name}"
        yield from _compared(what, (covey, covey.ask(question)), (placement, placement.ask(question)), target)


def _allocations(covey: Side, placement: Side, log: Callable[[str], None]) -> Iterator[Row]:
    for clients in CLIENTS:
        log(f"Placement: allocations, {clients} clients")
        what = f"{PROVIDERS:,} providers, PUT /allocations, {clients} client{'s' if clients > 1 else ''}"
        target = Target("ratio", at_least=ALLOCATIONS_TARGET)
        yield from _compared(what, (covey, covey.allocate(clients)), (placement, placement.allocate(clients)), target)


def _compared(what: str, covey: tuple[Side, Run], placement: tuple[Side, Run], target: Target) -> Iterator[Row]:
    for side, run in (covey, placement):
        if not run.answered:
            yield Row(f"{side.name}, {what}", note=f"FAILED: {dict(run.statuses)}")
            return
        left = run.statuses["unanswered"]
        yield runs.row(f"{side.name}, {what}", [run], f"; out of time for {left} more" if left else "")
    covey_run, placement_run = covey[1], placement[1]
    alone = placement_run.server_cpu_s / placement_run.answered / (covey_run.server_cpu_s / covey_run.answered)
    note = f"of CPU, server and database; of the servers alone x{alone:.1f}"
    yield Row(f"Placement / Covey, {what}", ratio=placement_run.cpu_us / covey_run.cpu_us, targets=(target,), note=note)


def _checks_row(covey: Side, placement: Side) -> Row:
    """Check that the accepted consumers are exactly the stored ones, and that no inventory is exceeded."""
    problems = [*covey.failures, *placement.failures]
    for side in (covey, placement):
        with psycopg.connect(side.url) as connection:
            held = connection.execute("SELECT COUNT(*) FROM consumers").fetchone()
        if held != (PROVIDERS + side.accepted,):
            problems.append(
                f"{side.name}: {side.accepted} were accepted, {held and held[0] - PROVIDERS} consumers exist"
            )
    engine = databases.connect(covey.url, pool_size=1)
    problems += checks.overuse(engine)
    engine.dispose()
    summary = f"all hold after {covey.accepted:,} allocations by Covey and {placement.accepted:,} by Placement"
    return Row(
        "Placement and Covey, checks on the rows", note=f"FAILED: {'; '.join(problems)}" if problems else summary
    )
