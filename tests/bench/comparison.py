"""The filter and weigh step of Nova compared with Covey's decisions, in one run and on equal hosts."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bench import decisions, fleets, peers
from tests.bench.decisions import Timing
from tests.bench.table import Row, Target

NOVA = "nova==34.0.0"
RATIO_TARGET, TARGET_HOSTS = 5_000, 10_000
_RUN_S, _BATCH_S = 420, 150
_STEP = Path(__file__).with_name("nova_step.py")


def prepared(directory: Path, log: Callable[[str], None]) -> Path:
    """Return the Python of a virtual environment with Nova, created if missing."""
    return peers.prepared(directory, "nova", (NOVA,), log)


def measure(
    python: Path, sizes: tuple[int, ...], repeats: int, batch: int, log: Callable[[str], None]
) -> Iterator[Row]:
    """Yield rows at each size: Nova and Covey, one server and a batch, and their ratios; also Nova with aggregates."""
    for size in sizes:
        hosts = fleets.hosts(size)
        log(f"Nova: {size:,} hosts, one server and a batch of {batch}")
        answer = _run_nova(python, hosts, [], repeats, batch)
        log(f"Nova: {size:,} hosts, each in two aggregates")
        aggregate_sizes = [fleets.HOSTS_PER_RACK, fleets.HOSTS_PER_SWITCH]
        yield from _one_server(size, hosts, answer, _run_nova(python, hosts, aggregate_sizes, repeats, 0))
        yield from _batch(size, hosts, answer, batch)


def _one_server(size: int, hosts: fleets.Hosts, bare: dict[str, Any], placed: dict[str, Any]) -> Iterator[Row]:
    covey = decisions.one_server(hosts, fleets.fleet(hosts), (decisions.ANTI_AFFINITY,), 500)
    nova, with_aggregates = _timing(bare["singles"]), _timing(placed["singles"])
    about = f"{len(bare['filters'])} filters, {len(bare['weighers'])} weighers, the defaults"
    targets = (Target("ratio", at_least=RATIO_TARGET),) if size >= TARGET_HOSTS else ()
    name = f"Nova {bare['version']}, {size:,} hosts"
    yield covey.row(f"Covey, {size:,} hosts, anti-affinity", "group of 20")
    yield nova.row(f"{name}, anti-affinity", f"group of 20; {about}")
    yield _ratio(f"Nova / Covey, {size:,} hosts, anti-affinity", nova, covey, *targets)
    yield with_aggregates.row(
        f"{name}, anti-affinity, 2 aggregates each", "group of 20; like the racks and switches of Covey's hosts"
    )
    yield _ratio(f"Nova / Covey, {size:,} hosts, anti-affinity, 2 aggregates each", with_aggregates, covey)


def _batch(size: int, hosts: fleets.Hosts, answer: dict[str, Any], wanted: int) -> Iterator[Row]:
    each = _timing(answer["batch"])
    count = len(each.wall)
    short = "" if count == wanted else f"; out of time, {count} of {wanted}"
    nova = Timing([sum(each.wall)], [sum(each.cpu)])
    covey, placed = decisions.batch(hosts, fleets.fleet(hosts), (decisions.ANTI_AFFINITY,), count, 50, fresh=False)
    assert placed == count
    name = f"{size:,} hosts, batch of {count}, anti-affinity"
    yield covey.row(f"Covey, {name}", "group of 20")
    yield nova.row(f"Nova {answer['version']}, {name}", f"group of 20; filter, weigh and consume for each{short}")
    yield _ratio(f"Nova / Covey, {name}", nova, covey)


def _ratio(what: str, nova: Timing, covey: Timing, *targets: Target) -> Row:
    return Row(what, ratio=nova.cpu_us / covey.cpu_us, targets=targets, note="of CPU")


def _run_nova(
    python: Path, hosts: fleets.Hosts, aggregate_sizes: list[int], repeats: int, batch: int
) -> dict[str, Any]:
    parameters = {
        "used": hosts.used,
        "members": hosts.groups[0],
        "vcpus": fleets.VCPUS,
        "vcpu_ratio": fleets.VCPU_RATIO,
        "memory_mb": fleets.MEMORY_MB,
        "disk_gb": fleets.DISK_GB,
        "amounts": list(fleets.AMOUNTS.values()),
        "aggregate_sizes": aggregate_sizes,
        "repeats": repeats,
        "batch": batch,
        "longest_s": _BATCH_S,
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
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _timing(pairs: list[tuple[float, float]]) -> Timing:
    return Timing([wall for wall, _ in pairs], [cpu for _, cpu in pairs])
