"""Records of the fleet's structure, as the scheduler loads them: hosts and aggregates beside resource providers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from covey.model.ids import HostId, ProjectId, ScopeId
from covey.model.providers import ProviderRecord


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The compute part of a host. Its resource provider has the same id."""

    id: HostId
    name: str
    enabled: bool = True
    up: bool = True
    zone: str | None = None
    aggregates: frozenset[int] = frozenset()  # ids of the host aggregates that it is in


@dataclass(frozen=True, slots=True)
class AggregateRecord:
    """The part of a host aggregate that the scheduler uses."""

    id: int
    uuid: str
    scope: ScopeId | None = None
    projects: frozenset[ProjectId] = frozenset()  # if any, its hosts admit only these
    traits: frozenset[str] = frozenset()  # if any, its hosts admit only requests that require them all


@dataclass(frozen=True, slots=True)
class FleetChange:
    """What changed, by id: the new record, or None for what is gone."""

    providers: Mapping[int, ProviderRecord | None] = field(default_factory=dict)
    hosts: Mapping[int, HostRecord | None] = field(default_factory=dict)
    aggregates: Mapping[int, AggregateRecord | None] = field(default_factory=dict)


NO_HOST = HostRecord(HostId(0), "", enabled=False, up=False)
"""Stands for a resource provider that is not a host."""
