"""Builders of small fleets and requests: a test states only the fields that matter."""

from collections.abc import Mapping
from typing import Any

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import HostId, ScopeId
from covey.scheduler.fleet import AggregateRecord, Fleet, HostRecord, Mask, Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec

RACK, SWITCH = ScopeRef(ScopeId("id-of-rack"), "rack"), ScopeRef(ScopeId("id-of-switch"), "switch")
ROOM = (8, 8192, 100)
NOTHING = (0, 0, 0)


Amounts = tuple[int, int, int]


def host(number: int, capacity: Amounts = ROOM, used: Amounts = NOTHING, **fields: Any) -> HostRecord:
    return HostRecord(HostId(number), f"n{number}", capacity, used, **fields)


def domain(number: int, *hosts: int, scope: ScopeRef | None = RACK, **fields: Any) -> AggregateRecord:
    members = frozenset(map(HostId, hosts))
    return AggregateRecord(number, f"uuid-{number}", members, scope.id if scope else None, **fields)


def fleet(*parts: HostRecord | AggregateRecord, weights: Weights = Weights()) -> Fleet:  # noqa: B008 -- frozen
    hosts = [part for part in parts if isinstance(part, HostRecord)]
    return Fleet(hosts, [part for part in parts if isinstance(part, AggregateRecord)], weights)


def hosts(number: int, capacity: tuple[int, int, int] = ROOM) -> list[HostRecord]:
    return [host(n, capacity) for n in range(1, number + 1)]


def spec(
    *policies: GroupPolicy,
    places: Mapping[int, int] | None = None,
    movers: tuple[tuple[int, int], ...] = (),
    vcpus: int = 1,
    memory_mb: int = 1024,
    disk_gb: int = 10,
    **fields: Any,
) -> RequestSpec:
    """Return a request for one small server, unless the fields differ, in a group with policies, places and movers."""
    group = GroupView(policies, places or {}, movers)
    return RequestSpec((vcpus, memory_mb, disk_gb), group=group, **fields)


def requirements(**fields: Any) -> RequestSpec:
    return spec(requirements=HostRequirements(**fields))


def anti_affinity(scope: ScopeRef = HOST, target: str | None = None, limit: int = 1) -> GroupPolicy:
    return GroupPolicy(PolicyKind.ANTI_AFFINITY, scope, target, limit)


def affinity(scope: ScopeRef = HOST, target: str | None = None) -> GroupPolicy:
    return GroupPolicy(PolicyKind.AFFINITY, scope, target)


def soft_anti_affinity(scope: ScopeRef = HOST, target: str | None = None) -> GroupPolicy:
    return GroupPolicy(PolicyKind.SOFT_ANTI_AFFINITY, scope, target)


def soft_affinity(scope: ScopeRef = HOST, target: str | None = None) -> GroupPolicy:
    return GroupPolicy(PolicyKind.SOFT_AFFINITY, scope, target)


def hosts_in(fleet: Fleet, mask: Mask) -> set[int]:
    return set(fleet.ids[mask].tolist())
