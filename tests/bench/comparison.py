"""Nova's filter and weigh step beside ours, in the same run and on the same hosts."""

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


def prepared(directory: Path, tell: Callable[[str], None]) -> Path:
    """The Python of a virtual environment with Nova, made if it is missing."""
    return peers.prepared(directory, "nova", (NOVA,), tell)


def measure(
    python: Path, sizes: tuple[int, ...], repeats: int, batch: int, tell: Callable[[str], None]
) -> Iterator[Row]:
    """At each size: Nova and Covey, one server and a batch, and the ratios; Nova once more with aggregates."""
    for size in sizes:
        made = fleets.hosts(size)
        tell(f"Nova: {size:,} hosts, one server and a batch of {batch}")
        answer = _ask(python, made, [], repeats, batch)
        tell(f"Nova: {size:,} hosts, each in two aggregates")
        places = [fleets.HOSTS_PER_RACK, fleets.HOSTS_PER_SWITCH]
        yield from _one_server(size, made, answer, _ask(python, made, places, repeats, 0))
        yield from _batch(size, made, answer, batch)


def _one_server(size: int, made: fleets.Hosts, bare: dict[str, Any], placed: dict[str, Any]) -> Iterator[Row]:
    ours = decisions.one_server(made, fleets.fleet(made), (decisions.APART,), 500)
    theirs, with_places = _timing(bare["singles"]), _timing(placed["singles"])
    about = f"{len(bare['filters'])} filters, {len(bare['weighers'])} weighers, the default ones"
    targets = (Target("ratio", at_least=RATIO_TARGET),) if size >= TARGET_HOSTS else ()
    name = f"Nova {bare['version']}, {size:,} hosts"
    yield ours.row(f"Covey, {size:,} hosts, anti-affinity", "group of 20")
    yield theirs.row(f"{name}, anti-affinity", f"group of 20; {about}")
    yield _ratio(f"Nova / Covey, {size:,} hosts, anti-affinity", theirs, ours, *targets)
    yield with_places.row(
        f"{name}, anti-affinity, 2 aggregates each", "group of 20; as our hosts are in rack and switch"
    )
    yield _ratio(f"Nova / Covey, {size:,} hosts, anti-affinity, 2 aggregates each", with_places, ours)


def _batch(size: int, made: fleets.Hosts, answer: dict[str, Any], wanted: int) -> Iterator[Row]:
    each = _timing(answer["batch"])
    count = len(each.wall)
    short = "" if count == wanted else f"; out of time, {count} of {wanted}"
    theirs = Timing([sum(each.wall)], [sum(each.cpu)])
    ours, placed = decisions.batch(made, fleets.fleet(made), (decisions.APART,), count, 50, fresh=False)
    assert placed == count
    name = f"{size:,} hosts, batch of {count}, anti-affinity"
    yield ours.row(f"Covey, {name}", "group of 20")
    yield theirs.row(f"Nova {answer['version']}, {name}", f"group of 20; filter, weigh and consume for each{short}")
    yield _ratio(f"Nova / Covey, {name}", theirs, ours)


def _ratio(what: str, theirs: Timing, ours: Timing, *targets: Target) -> Row:
    return Row(what, ratio=theirs.cpu_us / ours.cpu_us, targets=targets, note="of CPU")


def _ask(python: Path, made: fleets.Hosts, aggregate_sizes: list[int], repeats: int, batch: int) -> dict[str, Any]:
    question = {
        "used": made.used,
        "members": made.groups[0],
        "vcpus": fleets.VCPUS,
        "vcpu_ratio": fleets.VCPU_RATIO,
        "memory_mb": fleets.MEMORY_MB,
        "disk_gb": fleets.DISK_GB,
        "amounts": fleets.AMOUNTS,
        "aggregate_sizes": aggregate_sizes,
        "repeats": repeats,
        "batch": batch,
        "longest_s": _BATCH_S,
    }
    done = subprocess.run(
        [python, "-P", "-W", "ignore", _STEP],
        input=json.dumps(question),
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
