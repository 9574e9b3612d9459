"""Nova's filter and weigh step beside ours, in the same run and on the same hosts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bench import decisions, fleets
from tests.bench.decisions import Timing
from tests.bench.table import Row, Target

NOVA = "nova==34.0.0"
RATIO_TARGET, TARGET_HOSTS = 5_000, 10_000
_INSTALL_S, _RUN_S = 600, 420
_STEP = Path(__file__).with_name("nova_step.py")


def prepared(directory: Path, tell: Callable[[str], None]) -> Path:
    """The Python of a virtual environment with Nova, made if it is missing."""
    python = directory / "bin" / "python"
    if not python.exists():
        tell(f"a virtual environment for Nova: {directory}")
        directory.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", directory], check=True, timeout=_INSTALL_S)
    if subprocess.run([python, "-c", "import nova"], capture_output=True, check=False).returncode != 0:
        tell(f"pip install {NOVA}")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", NOVA]
        subprocess.run(install, check=True, stdout=sys.stderr, timeout=_INSTALL_S)
    return python


def measure(python: Path, sizes: tuple[int, ...], repeats: int, batch: int, tell: Callable[[str], None]) -> Iterator[Row]:
    """At each size: Nova and Covey, one server and a batch, and the ratios; Nova once more with aggregates."""
    for size in sizes:
        made = fleets.hosts(size)
        tell(f"Nova: {size:,} hosts, one server and a batch of {batch}")
        answer = _ask(python, made, [], repeats, batch)
        theirs, theirs_batch = _timing(answer["singles"]), _timing(answer["batch"])
        ours = decisions.one_server(made, fleets.fleet(made), (decisions.APART,), 500)
        ours_batch, placed = decisions.batch(made, fleets.fleet(made), (decisions.APART,), batch, 50, fresh=False)
        assert placed == batch
        about = f"{len(answer['filters'])} filters, {len(answer['weighers'])} weighers, all by default"
        targets = (Target("ratio", at_least=RATIO_TARGET),) if size >= TARGET_HOSTS else ()
        yield theirs.row(f"Nova {answer['version']}, {size:,} hosts, anti-affinity", f"group of 20; {about}")
        yield ours.row(f"Covey, {size:,} hosts, anti-affinity", "group of 20")
        yield _ratio(f"Nova / Covey, {size:,} hosts, one server", theirs.cpu_us, ours.cpu_us, *targets)
        whole = Timing([sum(theirs_batch.wall)], [sum(theirs_batch.cpu)])
        yield whole.row(f"Nova {answer['version']}, {size:,} hosts, batch of {batch}", "all filters and weighers for each")
        yield ours_batch.row(f"Covey, {size:,} hosts, batch of {batch}", "anti-affinity, group of 20")
        yield _ratio(f"Nova / Covey, {size:,} hosts, batch of {batch}", whole.cpu_us, ours_batch.cpu_us)
        tell(f"Nova: {size:,} hosts, each in two aggregates")
        answer = _ask(python, made, [fleets.HOSTS_PER_RACK, fleets.HOSTS_PER_SWITCH], repeats, 0)
        theirs = _timing(answer["singles"])
        yield theirs.row(f"Nova {answer['version']}, {size:,} hosts, each in 2 aggregates", "the places that ours has")
        yield _ratio(f"Nova / Covey, {size:,} hosts, each in 2 aggregates", theirs.cpu_us, ours.cpu_us)


def _ratio(what: str, theirs: float, ours: float, *targets: Target) -> Row:
    return Row(what, ratio=theirs / ours, targets=targets, note="of CPU")


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
    }
    done = subprocess.run(
        [python, "-W", "ignore", _STEP],
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
