"""`covey adopt` of a large Placement: time, memory, and a comparison of what both services answer."""

import json
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covey.model.providers import InventoryRecord, ProviderRecord
from tests.acceptance.processes import BESIDE_PYTHON, environment, running_covey
from tests.bench import cpu, ledgers, peers, placement
from tests.bench.backends import Backend, postgresql
from tests.bench.ledgers import Holding
from tests.bench.machine import filesystem
from tests.bench.placement import PLACEMENT, REQUIREMENTS, THREADS, WORKERS, Side, get
from tests.bench.table import Row

PROVIDERS, CONSUMERS = 10_000, 50_000
CONNECTIONS = 8
_SAMPLE = 100  # providers and consumers whose answers are compared over HTTP
_PARTS = ("", "/inventories", "/traits", "/aggregates", "/allocations", "/usages")
_TRAITS = frozenset({"HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE42", "COMPUTE_NODE", "COMPUTE_TRUSTED_CERTS"})
_AGGREGATES = 40


@dataclass(frozen=True, slots=True)
class Adopted:
    """What a run of the command reports, and what it used."""

    report: Mapping[str, Any]
    seconds: float
    cpu_s: float
    peak_mb: float


def measure(
    venv: Path, parent: Path | None, sizes: tuple[int, int], describe: Callable[[str], None], log: Callable[[str], None]
) -> Iterator[Row]:
    """Yield the time of a copy and of an update without changes, and the comparison of the answers."""
    python = peers.prepared(venv, "placement, gunicorn, psycopg2", REQUIREMENTS, log)
    records = list(trees(sizes[0]))
    held = list(holdings(records, sizes[1]))
    what = f"adopt, {len(records):,} providers, {sizes[1]:,} consumers"
    with tempfile.TemporaryDirectory(prefix="covey-bench-", dir=parent, ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        with (
            postgresql(directory) as backend,
            placement.running_placement(
                directory, backend, python, lambda url: ledgers.fill_placement(url, records, held)
            ) as original,
        ):
            describe(f"{what}: {backend.name} ({backend.about}) on {filesystem(directory)}, {CONNECTIONS} connections")
            describe(f"{PLACEMENT}: gunicorn, {WORKERS} processes of {THREADS} threads")
            log(what)
            yield _row(what, _adopted(directory, backend, original), original, log)
            log(f"{what}, --update")
            yield _row(
                f"{what}, --update of what did not change",
                _adopted(directory, backend, original, "--update", "--skip-check"),
                original,
                log,
            )
            yield _same_answers(directory, backend, original, records, held)


def trees(count: int) -> Iterator[ProviderRecord]:
    """Yield hosts with one nested provider each."""
    for number in range(1, count, 2):
        has = {
            "VCPU": InventoryRecord(64, allocation_ratio=4.0),
            "MEMORY_MB": InventoryRecord(262_144, reserved=512),
            "DISK_GB": InventoryRecord(2_000),
        }
        aggregates = frozenset({_uuid("aggregate", number % _AGGREGATES)})
        traits = _TRAITS | {"CUSTOM_SSD"} if number % 4 == 1 else _TRAITS
        host, nic = _uuid("host", number), _uuid("nic", number)
        yield ProviderRecord(number, host, f"node-{number}", None, None, number % 90, has, traits, aggregates)
        functions = {"CUSTOM_VF": InventoryRecord(32, max_unit=4)}
        yield ProviderRecord(number + 1, nic, f"node-{number}-nic", number, number, 1, functions)


def holdings(records: list[ProviderRecord], consumers: int) -> Iterator[Holding]:
    """Yield the allocations of servers; every fifth one holds a part of a nested provider."""
    hosts = len(records) // 2
    for number in range(consumers):
        host = records[2 * (number % hosts)]
        consumer = _uuid("server", number)
        for kind, amount in (("VCPU", 2), ("MEMORY_MB", 4096), ("DISK_GB", 20)):
            yield consumer, host.id, kind, amount
        if number // hosts % 5 == 0:
            yield consumer, host.id + 1, "CUSTOM_VF", 1


def _uuid(kind: str, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}-{number}"))


def _adopted(directory: Path, backend: Backend, original: Side, *options: str) -> Adopted:
    """Run the command. Raises SubprocessError if it reports a difference."""
    command = [str(BESIDE_PYTHON / "covey"), "adopt", "--json", "--connections", str(CONNECTIONS), *options]
    command += ["--url", f"http://127.0.0.1:{original.port}", "--token", "admin", "--database", backend.url]
    begun = time.monotonic()
    output = directory / "adopt.json"
    with output.open("wb") as stdout:
        process = subprocess.Popen(command, env=environment(directory), stdout=stdout)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        log = (directory / "placement" / "log").read_text()
        raise subprocess.SubprocessError(
            f"covey adopt: status {process.returncode}\n{output.read_text()[:2000]}\n{log[-2000:]}"
        )
    took = time.monotonic() - begun
    return Adopted(json.loads(output.read_text()), took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _row(what: str, adopted: Adopted, original: Side, log: Callable[[str], None]) -> Row:
    steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in adopted.report["seconds"].items())
    log(f"{what}: {adopted.seconds:.0f} s")
    note = f"{adopted.seconds:.1f} s ({steps}), peak {adopted.peak_mb:.0f} MB, CPU {adopted.cpu_s:.1f} s; "
    note += (
        f"{adopted.report['requests']:,} requests; CPU of Placement since its start {cpu.seconds(original.pid):.0f} s"
    )
    return Row(what, per_second=adopted.report["requests"] / adopted.seconds, note=note)


def _same_answers(
    directory: Path, backend: Backend, original: Side, records: list[ProviderRecord], held: list[Holding]
) -> Row:
    """Compare answers over HTTP: a sample of providers and consumers, the listings, and candidates."""
    paths = [f"/resource_providers/{each.uuid}{part}" for each in _sample(records) for part in _PARTS]
    paths += [f"/allocations/{each[0]}" for each in _sample(held)]
    paths += ["/resource_providers", "/resource_classes", "/traits?name=startswith:CUSTOM_"]
    narrow = "member_of=" + _uuid("aggregate", 5)
    paths += [f"/allocation_candidates?resources=VCPU:2,MEMORY_MB:512,CUSTOM_VF:1&{narrow}"]
    options = directory / "covey.conf"
    options.write_text("[api]\nauth_strategy = none\n")
    serve = ("serve", "--api", "placement", "--config-file", str(options), "--database", backend.url)
    with running_covey(directory / "copy", *serve) as copy:
        different = [path for path in paths if _ordered(get(copy.port, path)) != _ordered(get(original.port, path))]
    summary = f"{len(paths)} answers are equal, listings and candidates among them"
    return Row("adopt, the same answers", note=f"FAILED: {', '.join(different[:5])}" if different else summary)


def _sample(rows: list[Any]) -> list[Any]:
    return rows[:: max(1, len(rows) // _SAMPLE)]


def _ordered(document: Any) -> Any:
    """Return a document whose lists have one order: the services promise none."""
    if isinstance(document, dict):
        return {key: _ordered(value) for key, value in document.items()}
    if isinstance(document, list):
        return sorted((_ordered(each) for each in document), key=json.dumps)
    return document
