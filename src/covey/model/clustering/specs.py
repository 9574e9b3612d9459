"""Profiles, from which nodes are made, and policies, by which clusters change. Both are a typed specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.clustering.owners import Owner

Document = Mapping[str, object]
"""JSON as a caller wrote it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a node is."""

    id: str
    name: str
    type: str  # with its version: os.nova.server-1.0
    spec: Document
    owner: Owner
    created_at: datetime
    updated_at: datetime | None = None
    metadata: Document = field(default_factory=dict)

    @property
    def properties(self) -> Document:
        """What is said of the node."""
        return _properties(self.spec)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a cluster heeds when it changes."""

    id: str
    name: str
    type: str  # with its version: senlin.policy.affinity-1.0
    spec: Document
    owner: Owner
    created_at: datetime
    updated_at: datetime | None = None

    @property
    def properties(self) -> Document:
        """What is wanted."""
        return _properties(self.spec)

    @property
    def kind(self) -> str:
        """Its type without the version."""
        return self.type.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class Binding:
    """A policy that is attached to a cluster."""

    id: str
    cluster_id: str
    policy: Policy
    priority: int
    enabled: bool
    data: Document
    group_id: str | None = None  # the server group that the data names, if any
    last_op: datetime | None = None
    cluster_name: str = ""


def _properties(spec: Document) -> Document:
    properties = spec.get("properties")
    return properties if isinstance(properties, Mapping) else {}
