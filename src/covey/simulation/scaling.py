"""Decision time by fleet size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from covey.simulation.cloud import Clock
from covey.simulation.replay import Replay
from covey.simulation.synthetic import Synthetic
from covey.simulation.workload import Workload, generate

_DECISIONS = 1000  # for each size; the first half is warm-up


@dataclass(frozen=True, slots=True)
class Timing:
    """Percentiles of the time of one decision for one server."""

    hosts: int
    p50_s: float
    p99_s: float


def measure(
    sizes: Sequence[int], seed: int, clock: Clock, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Timing]:
    """Replay the same stream on a fleet of each size, and yield its timing."""
    for size in sizes:
        start = Synthetic(hosts=size, zones=min(3, size)).start()
        stream = generate(start, Workload(boots=_DECISIONS, churn=0.0, growth=0.0), seed)
        times = Replay(start, stream, clock, seed).run().decision_s[_DECISIONS // 2 :]
        p50, p99 = np.percentile(times, [50, 99])
        progress(1)
        yield Timing(size, float(p50), float(p99))
