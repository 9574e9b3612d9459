"""How much there may be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What an operator allows."""

    clusters: int = 100  # of a project
    nodes: int = 1000  # of a cluster
    timeout_s: int = 3600  # for an action, unless its cluster says otherwise
