"""What policies look at when they are asked: an action, its cluster, and the nodes of the cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.policy_types import POLICY_TYPES
from covey.model.clustering.sizes import MOST, check_scaling, read_count, read_resize, resized
from covey.model.clustering.specs import Document, Policy
from covey.model.errors import Invalid

_BAD = frozenset({NodeStatus.ERROR, NodeStatus.WARNING})


class Refused(Invalid):
    """A policy says no. Where it stands alone, the data of the action says nothing else."""

    def __init__(self, message: str, *, alone: bool = False) -> None:
        super().__init__(message)
        self.alone = alone


@dataclass(frozen=True, slots=True)
class Member:
    """A node as policies see it."""

    node: Node
    profile_at: datetime | None = None  # when its profile was made
    zone: str | None = None  # where its server is

    @property
    def is_bad(self) -> bool:
        """Whether it is the first that can be spared."""
        return self.node.status in _BAD or self.node.tainted


def _nobody() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Situation:
    """An action and what it is done to."""

    action: Action
    cluster: Cluster
    members: tuple[Member, ...]
    now: datetime
    zones: frozenset[str] = frozenset()  # that take servers
    hypervisors: Callable[[], Sequence[str]] = field(default=_nobody)  # their names; raises Forbidden for most callers
    most: int = MOST  # nodes that a cluster may have

    @property
    def verb(self) -> Verb:
        """What is done."""
        return self.action.verb


def growth(situation: Situation, data: Document) -> int:
    """By how many nodes the cluster grows; below zero, it shrinks. Raises Invalid.

    What policies decided before counts; else what the action asks for.
    """
    nodes = len(situation.members)
    if "creation" in data:
        return read_count(section(data, "creation"), 1) or 0
    if "count" in section(data, "deletion"):
        return -min(nodes, read_count(section(data, "deletion"), 0) or 0)
    if situation.verb is Verb.NODE_CREATE:
        return 1
    if situation.verb is Verb.CLUSTER_RESIZE:
        wanted = read_resize(situation.action.inputs, situation.most)
        return resized(wanted, situation.cluster, nodes, situation.most).growth
    count = read_count(situation.action.inputs, 1) or 0
    check_scaling(situation.verb, count, nodes, situation.most)
    return count if situation.verb is Verb.CLUSTER_SCALE_OUT else -min(nodes, count)


def section(data: Document, name: str) -> Document:
    """A part of what policies decided; empty where they decided nothing."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def terms(policy: Policy) -> dict[str, object]:
    """What a policy wants, with defaults."""
    return POLICY_TYPES.named(policy.type).read(policy.spec)
