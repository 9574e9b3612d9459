"""Aggregates: named sets of hosts. One may give its hosts an availability zone, or be a domain of a scope."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from covey.model.ids import AggregateId, ScopeId

ZONE_KEY = "availability_zone"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A set of hosts, with metadata; names are unique."""

    id: AggregateId
    uuid: str
    name: str
    zone: str | None
    scope: ScopeId | None
    created_at: datetime
    updated_at: datetime | None
    metadata: Mapping[str, str]
    hosts: tuple[str, ...]
