"""Creating servers, as values: the request, the plan for it, and the rows that the plan writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.errors import CoveyError
from covey.model.flavors import Flavor
from covey.model.groups import GroupState
from covey.model.ids import GroupId, ProjectId, ServerId, UserId
from covey.model.resources import ResourceRequest, Resources
from covey.model.servers import BootData, Details, HostRequirements, PlacementRequest, Server

IdempotencyKey = tuple[ProjectId, str]
"""A project, and its own name for a request."""

Allocations = Mapping[int, Resources]
"""What a server takes of each resource provider, by the id of the provider; a host is one."""

Answer = tuple[str, Sequence[str]]
"""The fingerprint of a request that had an idempotency key, and the ids of its servers."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A client's request for one server or a batch of equal ones. It stays the same value up to the plan.

    Time, seed and ids are part of it, so the plan for a request depends on nothing else.
    """

    project_id: ProjectId
    user_id: UserId
    name: str
    flavor_ref: str
    image_ref: str | None  # the image that the server boots, also from a volume
    details: Details
    request_id: str
    now: datetime
    seed: int
    first_id: ServerId  # of the first server; the ids of further ones follow it
    group_id: GroupId | None = None
    same_host: tuple[str, ...] = ()
    different_host: tuple[str, ...] = ()
    hints: Mapping[str, object] = field(default_factory=dict)
    zone: str | None = None
    forced_host: str | None = None  # the placement checks nothing but room there
    requested_host: str | None = None
    count: int = 1
    minimum: int = 1
    tags: frozenset[str] = frozenset()
    boot: BootData | None = None
    key: IdempotencyKey | None = None  # if the client sent one
    fingerprint: str = ""  # of the body: a key belongs to one request
    volume_backed: bool = False  # the server boots from a volume, so it shows no image
    names_and_metadata: tuple[tuple[str, Mapping[str, str]], ...] = ()  # of each server, where they differ


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request, and what the references in it stand for."""

    request: ServerRequest
    flavor: Flavor
    resources: ResourceRequest
    placement: PlacementRequest
    requirements: HostRequirements
    refusal: str | None = None  # why no host can take the servers, where that is known before planning
    versions: tuple[int, int] | None = None  # of flavor and image, if they are cached and may be outdated


@dataclass(frozen=True, slots=True)
class NewServer:
    """A server to write: with a host and a claim on its room, or without a host and with a fault."""

    server: Server
    request_id: str
    allocations: Allocations = field(default_factory=dict)
    boot: BootData | None = None


@dataclass(slots=True)
class Plan:
    """What one transaction writes for several requests, and the outcome of each request."""

    outcomes: list[list[Server] | CoveyError] = field(default_factory=list)  # in the order of the requests
    placed: list[NewServer] = field(default_factory=list)
    failed: list[NewServer] = field(default_factory=list)  # without a host
    taken: list[tuple[Sequence[int], Resources]] = field(default_factory=list)  # room taken from the fleet in memory
    groups: dict[GroupId, GroupState] = field(default_factory=dict)  # as the plan leaves them
    limits: dict[ProjectId, dict[str, int]] = field(default_factory=dict)  # of the quotas that the plan uses more of
    answers: dict[IdempotencyKey, Answer] = field(default_factory=dict)  # to store
    unused_keys: list[IdempotencyKey] = field(default_factory=list)  # reserved for requests that failed

    @property
    def servers(self) -> list[Server]:
        """All new servers."""
        return [new.server for new in (*self.placed, *self.failed)]
