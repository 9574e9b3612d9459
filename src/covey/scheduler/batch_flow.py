"""The most servers of a batch within two chains of limits, by a maximum flow.

A unit of flow is a server. It goes from the source to the widest domain of one chain, down to a host class, up the
other chain, and to the sink.
"""

from collections.abc import Sequence

import numpy as np

from covey.scheduler.batch_classes import Amounts, HostClasses, Limit
from covey.scheduler.max_flow import SINK, SOURCE, Budget, Network

_STEPS_PER_CLASS = 4  # to build the network


def most_by_flow(classes: HostClasses, placed: Amounts, wanted: int, budget: Budget) -> Amounts:
    """Return the most servers that each class of one home takes, up to `wanted` in all, or fewer if the budget ends.

    The flow grows from `placed` along shortest paths: servers change their class only to let one more fit.
    """
    budget.left -= _STEPS_PER_CLASS * placed.size
    if budget.spent:
        return placed
    network = Network()
    down, up = (
        _connect_domains(network, chain, placed, end) for chain, end in zip(classes.chains, (SOURCE, SINK), strict=True)
    )
    rooms, flows = classes.room.tolist(), placed.tolist()
    arcs = [network.connect(*arc) for arc in zip(down, up, rooms, flows, strict=True)]
    network.augment(wanted - sum(flows), budget)
    return np.array([network.flow(arc) for arc in arcs], dtype=np.int64)


def _connect_domains(network: Network, chain: Sequence[Limit], placed: Amounts, end: int) -> list[int]:
    """Connect the domains of a chain with the source or the sink, and return the node of each class's narrowest one."""
    above = np.full(placed.size, end)
    for limit in reversed(chain):  # from the widest scope to the narrowest
        taken = np.zeros_like(limit.left)
        np.add.at(taken, limit.part, placed)
        nodes = [network.add_node() for _ in limit.left]
        arcs = zip(above[limit.first].tolist(), nodes, limit.left.tolist(), taken.tolist(), strict=True)
        for outer, inner, left, flow in arcs:
            tail, head = (outer, inner) if end == SOURCE else (inner, outer)
            network.connect(tail, head, left, flow)
        above = np.array(nodes)[limit.part]
    nodes_of_classes: list[int] = above.tolist()
    return nodes_of_classes
