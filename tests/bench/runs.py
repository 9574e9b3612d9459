"""Runs of the load generator, and their rows of the table."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.bench.table import Row, Target, percentile

Cpu = Callable[[], tuple[float, float | None]]
"""CPU seconds of the server and of its database; None if the database runs in the server process."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run of the load generator."""

    answered: int
    seconds: float
    latencies_ms: list[float]
    server_cpu_s: float
    database_cpu_s: float | None
    client_cpu_s: float
    settled_s: float  # from the last answer until no work was left
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        return self.answered / self.seconds

    @property
    def cpu_us(self) -> float:
        """The CPU time of server and database per request."""
        return (self.server_cpu_s + (self.database_cpu_s or 0)) / self.answered * 1e6


def load(
    port: int,
    requests: Sequence[str],
    connections: int,
    total: int,
    longest_s: float,
    cpu: Cpu,
    settle: Callable[[], float] = lambda: 0.0,
) -> Run:
    """Send `total` requests. CPU time counts until `settle` returns the seconds that it waited."""
    order = {
        "port": port,
        "requests": requests,
        "connections": connections,
        "total": total,
        "longest_s": longest_s,
    }
    before = cpu()
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("load.py")],
        input=json.dumps(order),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=longest_s + 30,
    )
    settled_s = settle()
    after = cpu()
    answer = json.loads(done.stdout)
    return Run(
        len(answer["latencies_ms"]),
        answer["seconds"],
        answer["latencies_ms"],
        after[0] - before[0],
        None if after[1] is None or before[1] is None else after[1] - before[1],
        answer["cpu_s"],
        settled_s,
        Counter(answer["statuses"]),
    )


def parts(runs: Sequence[Run]) -> str:
    """Return the CPU time of server, database and client as a note."""
    shares = [f"server {median(run.server_cpu_s / run.answered * 1e6 for run in runs):.0f}"]
    if runs[0].database_cpu_s is not None:
        shares.append(f"database {median((run.database_cpu_s or 0) / run.answered * 1e6 for run in runs):.0f}")
    shares.append(f"client {median(run.client_cpu_s / run.answered * 1e6 for run in runs):.0f} not counted")
    return f"CPU: {', '.join(shares)}"


def row(what: str, runs: Sequence[Run], note: str, targets: tuple[Target, ...] = ()) -> Row:
    """Return a row with the median of each number over the runs."""
    return Row(
        what,
        p50_ms=median(percentile(run.latencies_ms, 0.5) for run in runs),
        p99_ms=median(percentile(run.latencies_ms, 0.99) for run in runs),
        cpu_us=median(run.cpu_us for run in runs),
        per_second=median(run.rate for run in runs),
        targets=targets,
        note=f"{parts(runs)}; n={len(runs)}x{runs[0].answered}{note}",
    )
