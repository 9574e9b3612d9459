"""How long a decision takes, by the size of the fleet."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from covey.simulation.replay import Replay
from covey.simulation.synthetic import Synthetic
from covey.simulation.workload import Workload, generate
from covey.simulation.world import Clock

_DECISIONS = 1000  # for each size; the first half warms up


@dataclass(frozen=True, slots=True)
class Timing:
    """Decisions for one server each, on a fleet of so many hosts."""

    hosts: int
    p50_s: float
    p99_s: float


def measure(
    sizes: Sequence[int], seed: int, clock: Clock, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Timing]:
    """The same stream on a fleet of each size."""
    for size in sizes:
        start = Synthetic(hosts=size, zones=min(3, size)).start()
        stream = generate(start, Workload(server_creation=_DECISIONS, churn=0.0, growth=0.0), seed)
        times = Replay(start, stream, clock, seed).run().decision_s[_DECISIONS // 2 :]
        p50, p99 = np.percentile(times, [50, 99])
        progress(1)
        yield Timing(size, float(p50), float(p99))
