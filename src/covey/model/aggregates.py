"""Host aggregates: named sets of hosts, which may define an availability zone or be a domain of a scope."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from covey.model.ids import AggregateId, ProjectId, ScopeId

ZONE_KEY = "availability_zone"
SCOPE_KEY = "policy_scope"
TRAIT_PREFIX = "trait:"
TENANT_PREFIX = "filter_tenant_id"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A set of hosts with metadata. Its name is unique."""

    id: AggregateId
    uuid: str
    name: str
    zone: str | None
    scope: ScopeId | None
    created_at: datetime
    updated_at: datetime | None
    metadata: Mapping[str, str]
    hosts: tuple[str, ...]
    scope_name: str | None = None

    @property
    def required_traits(self) -> frozenset[str]:
        """The traits that the metadata lists as `trait:NAME=required`."""
        return required_traits(self.metadata)


def required_traits(metadata: Mapping[str, str]) -> frozenset[str]:
    """Return the traits that an aggregate's metadata lists as `trait:NAME=required`."""
    return frozenset(
        key.removeprefix(TRAIT_PREFIX)
        for key, value in metadata.items()
        if key.startswith(TRAIT_PREFIX) and value == "required"
    )


def reserved_projects(metadata: Mapping[str, str]) -> frozenset[ProjectId]:
    """Return the projects for which an aggregate's metadata reserves its hosts; none if any project may use them."""
    listed = (value for key, value in metadata.items() if key.startswith(TENANT_PREFIX))
    return frozenset(ProjectId(project.strip()) for value in listed for project in value.split(","))
