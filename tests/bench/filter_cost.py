"""What CoveyFilter costs nova-scheduler and Covey for each instance, beside Nova's own step on the same hosts."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import requests

from covey.storage import engine, schema
from covey.storage.store import Store
from tests.acceptance.processes import running_covey
from tests.bench import cpu, fleets
from tests.bench.backends import BACKENDS
from tests.bench.decisions import Timing
from tests.bench.table import Row, markdown
from tests.conformance.nova.cloud import HERE
from tests.conformance.nova.deployment import install_package
from tests.environments import HERE as ENVIRONMENTS
from tests.environments import prepared

_STEP = Path(__file__).with_name("filter_step.py")
_COVEY = "[api]\nauth_strategy = none\n[log]\nlevel = error\n"
_MEMBER = "00000000-0000-4000-8000-0001{:08d}"  # as nova_step names the members of its group
_REQUESTS, _REPEATS, _RUN_S = 200, 7, 420


def measure(hosts: int, log: Callable[[str], None]) -> Iterator[Row]:
    """Yield the rows of a fleet of that size, on PostgreSQL."""
    commands = prepared(ENVIRONMENTS / "nova", HERE / "requirements.txt")
    install_package(commands)
    log(f"CoveyFilter: {hosts:,} hosts")
    with (
        tempfile.TemporaryDirectory(prefix="covey-bench-", ignore_cleanup_errors=True) as directory,
        BACKENDS["postgresql"](Path(directory)) as backend,
    ):
        made = engine.connect(backend.url)
        schema.upgrade(made)
        fleets.add_to(Store(made), hosts)
        with Store(made).read() as tx:
            uuids = {provider.name: provider.uuid for provider in tx.fleet_records.all().providers}
        made.dispose()
        config = Path(directory) / "covey.conf"
        config.write_text(_COVEY)
        service = Path(directory) / "service"
        options = ("serve", "--config-file", str(config), "--database", backend.url)
        with running_covey(service, *options, preloaded=False) as covey:
            _place_members(f"{covey.url}/placement", hosts, uuids)
            before = _cpu(covey.process.pid, backend.cpu_s)
            answer = _run(commands / "python", f"{covey.url}/placement", hosts, uuids)
            after = _cpu(covey.process.pid, backend.cpu_s)
    nova, asking = (Timing(*map(list, zip(*answer[name], strict=True))) for name in ("nova", "filter"))
    each = (after - before) / (_REQUESTS + 1) * 1e6
    name = f"{hosts:,} hosts, anti-affinity, group of 20"
    yield nova.row(f"Nova {answer['version']}, filter and weigh, {name}", "the defaults")
    yield asking.row(f"CoveyFilter in nova-scheduler, {name}", f"Covey and PostgreSQL: {each:,.0f} us of CPU a request")
    yield Row(
        f"Nova's step / CoveyFilter, {name}", ratio=nova.cpu_us / (asking.cpu_us + each), note="of CPU, all of it"
    )


def _place_members(url: str, size: int, uuids: dict[str, str]) -> None:
    """Let the members of the group hold resources, as Nova's instances do."""
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.36"}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
    resources = {str(kind): amount for kind, amount in fleets.AMOUNTS.items()}
    for number, row in enumerate(fleets.hosts(size).groups[0]):
        body = {"allocations": {uuids[f"n{row}"]: {"resources": resources}}, **owner}
        answer = requests.put(f"{url}/allocations/{_MEMBER.format(number)}", json=body, headers=headers, timeout=30)
        assert answer.status_code == 204, answer.text


def _cpu(service: int, database: Callable[[], float] | None) -> float:
    return cpu.seconds(service) + (database() if database else 0)


def _run(python: Path, url: str, size: int, uuids: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
    hosts = fleets.hosts(size)
    parameters = {
        "used": hosts.used,
        "members": hosts.groups[0],
        "vcpus": fleets.VCPUS,
        "vcpu_ratio": fleets.VCPU_RATIO,
        "memory_mb": fleets.MEMORY_MB,
        "disk_gb": fleets.DISK_GB,
        "amounts": list(fleets.AMOUNTS.values()),
        "aggregate_sizes": [],
        "repeats": _REPEATS,
        "requests": _REQUESTS,
        "url": url,
        "uuids": [uuids[f"n{row}"] for row in range(size)],
    }
    done = subprocess.run(
        [python, "-P", "-W", "ignore", _STEP],
        input=json.dumps(parameters),
        env={**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_RUN_S,
    )
    answer: dict[str, list[tuple[float, float]]] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    print(markdown([*measure(1_000, print)]))  # noqa: T201 -- a quick look, without the other benchmarks
