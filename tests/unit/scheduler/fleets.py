"""Builders of small fleets and requests: a test states only the fields that matter."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import HostId, ScopeId
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import server_resources
from covey.scheduler.fleet import Fleet, Mask, Weights
from covey.scheduler.provider_trees import SHARES
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
    members_by_host: Mapping[int, int] | None = None,
    migrating: tuple[tuple[int, int], ...] = (),
    source_host: int | None = None,
    vcpus: int = 1,
    memory_mb: int = 1024,
    disk_gb: int = 10,
    **fields: Any,
) -> RequestSpec:
    """Return a request for one server, small by default, in a group with policies, members and migrations."""
    group = GroupView(policies, members_by_host or {}, migrating, source_host)
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


def provider(
    number: int, parent: int | None = None, *, traits: Iterable[str] = (), pool: str | None = None, **has: int
) -> ProviderRecord:
    inventories = {name: InventoryRecord(total) for name, total in has.items()}
    aggregates = frozenset[str]() if pool is None else frozenset({pool})
    return ProviderRecord(
        number, f"uuid-{number}", f"p{number}", parent, parent, 0, inventories, frozenset(traits), aggregates
    )


def provider_fleet(*providers: ProviderRecord, racks: Mapping[int, int] | None = None) -> Fleet:
    """Return a fleet in which every root that does not share is a host, in these racks, by id."""
    racks = racks or {}
    hosts = [
        HostRecord(HostId(each.id), each.name, aggregates=frozenset({racks[each.id]} if each.id in racks else ()))
        for each in providers
        if each.parent_id is None and SHARES not in each.traits
    ]
    return Fleet(providers, hosts, [AggregateRecord(rack, f"rack-{rack}", RACK.id) for rack in set(racks.values())])


def hosts_with_cards(number: int, *cards: Mapping[str, object]) -> list[ProviderRecord]:
    """Return hosts, from number 1, with these cards each."""
    ids = count(number + 1)
    roots = [provider(n, VCPU=8) for n in range(1, number + 1)]
    return [*roots, *(provider(next(ids), root.id, **card) for root in roots for card in cards)]  # type: ignore[arg-type]
