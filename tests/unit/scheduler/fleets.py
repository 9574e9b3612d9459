"""Builders of small fleets and requests: a test states only the fields that matter."""

from collections.abc import Mapping
from typing import Any

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import HostId, ScopeId
from covey.model.resources import server_resources
from covey.scheduler.fleet import Fleet, Mask, Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.plain_fleets import Amounts, PlainAggregate, PlainHost, plain_fleet

RACK, SWITCH = ScopeRef(ScopeId("id-of-rack"), "rack"), ScopeRef(ScopeId("id-of-switch"), "switch")
ROOM = (8, 8192, 100)
NOTHING = (0, 0, 0)


def host(number: int, capacity: Amounts = ROOM, used: Amounts = NOTHING, **fields: Any) -> PlainHost:
    return PlainHost(HostId(number), f"n{number}", capacity, used, **fields)


def domain(number: int, *hosts: int, scope: ScopeRef | None = RACK, **fields: Any) -> PlainAggregate:
    members = frozenset(map(HostId, hosts))
    return PlainAggregate(number, f"uuid-{number}", members, scope.id if scope else None, **fields)


def fleet(*parts: PlainHost | PlainAggregate, weights: Weights = Weights()) -> Fleet:  # noqa: B008 -- frozen
    hosts = [part for part in parts if isinstance(part, PlainHost)]
    return plain_fleet(hosts, [part for part in parts if isinstance(part, PlainAggregate)], weights)


def hosts(number: int, capacity: Amounts = ROOM) -> list[PlainHost]:
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
    return RequestSpec(server_resources(vcpus, memory_mb, disk_gb), group=group, **fields)


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
