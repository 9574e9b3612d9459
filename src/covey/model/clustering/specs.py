"""Profiles, policies and bindings. A profile or policy is a spec that the schema of its type describes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.clustering.owners import Owner

Document = Mapping[str, object]
"""A JSON object as the caller sent it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The description that nodes are created from."""

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
        """The properties of the spec."""
        return _properties(self.spec)


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule for the actions of the clusters that it is attached to."""

    id: str
    name: str
    type: str  # with its version: senlin.policy.affinity-1.0
    spec: Document
    owner: Owner
    created_at: datetime
    updated_at: datetime | None = None

    @property
    def properties(self) -> Document:
        """The properties of the spec."""
        return _properties(self.spec)

    @property
    def type_name(self) -> str:
        """The type without its version."""
        return self.type.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class Binding:
    """The attachment of a policy to a cluster."""

    id: str
    cluster_id: str
    policy: Policy
    priority: int
    enabled: bool
    data: Document
    group_id: str | None = None  # the server group in the data
    last_op: datetime | None = None
    cluster_name: str = ""


def _properties(spec: Document) -> Document:
    properties = spec.get("properties")
    return properties if isinstance(properties, Mapping) else {}
