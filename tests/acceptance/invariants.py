"""Invariants of the rows: policies, capacity, allocations, quotas, and no unfinished work."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from covey.model.flavors import Flavor
from covey.model.inventory import ResourceClass
from covey.model.resources import quota_size, resource_request
from covey.storage import tables
from covey.storage.rows import load

UNDER_WAY = ("preparing", "finished")
CLASSES = tuple(str(kind) for kind in (ResourceClass.VCPU, ResourceClass.MEMORY_MB, ResourceClass.DISK_GB))
_READ = (
    tables.aggregate_hosts,
    tables.aggregates,
    tables.allocations,
    tables.consumers,
    tables.hosts,
    tables.instance_group_members,
    tables.instance_group_policies,
    tables.instance_groups,
    tables.inventories,
    tables.migrations,
    tables.provider_aggregates,
    tables.quota_usages,
    tables.servers,
    tables.work,
)


@dataclass(frozen=True)
class Rows:
    """The tables of placement, in one snapshot."""

    of: dict[str, Sequence[Any]]

    def __getattr__(self, name: str) -> Sequence[Any]:
        return self.of[name]


def read(connected: sa.Engine) -> Rows:
    """Read all rows in one snapshot."""
    level = {"isolation_level": "REPEATABLE READ"} if connected.dialect.name == "postgresql" else {}
    with connected.connect().execution_options(**level) as connection, connection.begin():
        return Rows({table.name: connection.execute(sa.select(table)).all() for table in _READ})


def violations(connected: sa.Engine, *, idle: bool = False, changed: bool = False) -> list[str]:
    """Yield a sentence for each violation; an idle service also has no unfinished work.

    Policies need not hold for groups that changed after their members were placed.
    """
    rows = read(connected)
    found = [*_room(rows), *_allocations(rows), *_mirror(rows), *_members(rows), *_quotas(rows)]
    return found + [*_policies(rows)] * (not changed) + [*_unfinished(rows)] * idle


def _policies(rows: Rows) -> Iterator[str]:
    """Hard policies: a server that moves counts at both ends, but once in a domain that has both."""
    servers = {row.id: row for row in rows.servers}
    places: dict[str, list[list[int]]] = defaultdict(list)  # of each member
    placed: Counter[str] = Counter()
    for member in rows.instance_group_members:
        server = servers.get(member.server_id)
        if server is not None:
            places[member.group_id].append([h for h in (server.host_id, server.second_host_id) if h is not None])
            placed[member.group_id] += server.host_id is not None
    domains = {(row.scope_id, row.host_id): row.aggregate_id for row in rows.aggregate_hosts if row.scope_id}
    names = {row.id: row.name for row in rows.hosts}
    for policy in rows.instance_group_policies:
        if policy.policy.startswith("soft-"):
            continue
        held: Counter[object] = Counter(
            domain
            for hosts in places[policy.group_id]
            for domain in {
                (names[host] if policy.identifier else host)
                if policy.scope_id is None
                else domains.get((policy.scope_id, host))
                for host in hosts
            }
        )
        yield from (f"{policy.group_id}: {wrong}" for wrong in _broken(policy, held, placed[policy.group_id]))


def _broken(policy: Any, held: "Counter[object]", placed: int) -> Iterator[str]:
    together = policy.policy == "affinity"
    if policy.identifier is not None:
        inside = sum(count for domain, count in held.items() if str(domain) == policy.identifier)
        if inside != (held.total() if together else 0):
            yield f"{inside} of {held.total()} places are in {policy.identifier}, against {policy.policy}"
        return
    if held[None]:
        yield f"{held[None]} places are in no domain of the scope, against {policy.policy}"
    if together and len(held) > 1 and placed > 1:
        yield f"affinity, but places in {dict(held)}"
    if not together:
        limit = next(iter(load(policy.rules, dict[str, int]).values()), 1)
        yield from (f"anti-affinity, but {n} places in {d}, not {limit}" for d, n in held.items() if n > limit)


def _room(rows: Rows) -> Iterator[str]:
    held: Counter[tuple[int, str]] = Counter()
    for row in rows.allocations:
        held[row.provider_id, row.resource_class] += row.used
    for row in rows.inventories:
        where = f"provider {row.provider_id}, {row.resource_class}"
        if row.used != held[row.provider_id, row.resource_class]:
            yield f"{where}: {row.used} used, but {held[row.provider_id, row.resource_class]} allocated"
        if row.used > int((row.total - row.reserved) * row.allocation_ratio):
            yield f"{where}: {row.used} used, more than there is"


def _allocations(rows: Rows) -> Iterator[str]:
    """Servers and migrations have exactly their allocations; other consumers are ignored."""
    held: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    others = {row.uuid for row in rows.consumers if row.consumer_type not in {"INSTANCE", "MIGRATION"}}
    for row in rows.allocations:
        if row.consumer_uuid not in others:
            held[row.consumer_uuid, row.provider_id][row.resource_class] = row.used
    wanted = dict(_wanted(rows))
    for key in sorted(held.keys() | wanted.keys()):
        if held.get(key, {}) != wanted.get(key, {}):
            consumer, provider = key
            yield f"{consumer} holds {held.get(key)} on {provider}, and should hold {wanted.get(key)}"
    idle = {row.uuid for row in rows.consumers} - {row.consumer_uuid for row in rows.allocations}
    yield from (f"consumer {consumer} holds nothing" for consumer in sorted(idle))


def _wanted(rows: Rows) -> Iterator[tuple[tuple[str, int], dict[str, int]]]:
    moves = {row.server_id: row for row in rows.migrations if row.status in UNDER_WAY}
    for row in rows.servers:
        own = load(row.flavor, Flavor)
        if row.host_id is None:
            continue
        if row.second_host_id is None:
            yield (row.id, row.host_id), _size(own)
        elif row.id in moves:
            move, arrived = moves[row.id], row.vm_state == "resized"
            target, source = (row.host_id, row.second_host_id) if arrived else (row.second_host_id, row.host_id)
            yield (row.id, target), _size(load(move.new_flavor, Flavor))
            yield (move.uuid, source), _size(load(move.old_flavor, Flavor))


def _size(flavor: Flavor) -> dict[str, int]:
    return dict(resource_request(flavor).total)


def _mirror(rows: Rows) -> Iterator[str]:
    """Every host's provider is in the aggregates that the host is in."""
    uuids = {row.id: row.uuid for row in rows.aggregates}
    mirrored = {(row.provider_id, row.aggregate_uuid) for row in rows.provider_aggregates}
    for row in rows.aggregate_hosts:
        if (row.host_id, uuids[row.aggregate_id]) not in mirrored:
            yield f"host {row.host_id} is in aggregate {row.aggregate_id}, and its provider is not"


def _members(rows: Rows) -> Iterator[str]:
    servers = {row.id: row for row in rows.servers}
    moves = {row.server_id for row in rows.migrations if row.status in UNDER_WAY}
    groups = {row.id for row in rows.instance_groups}
    for row in rows.instance_group_members:
        server = servers.get(row.server_id)
        if server is None:
            yield f"{row.server_id} is a member of {row.group_id}, and does not exist"
        elif server.vm_state == "error" and server.host_id is None:
            yield f"{row.server_id} is a member of {row.group_id}, and in error without a place"
        if row.group_id not in groups:
            yield f"{row.server_id} is a member of {row.group_id}, which does not exist"
    for server in rows.servers:
        placeless = server.vm_state == "shelved_offloaded" and server.task_state != "unshelving"
        if placeless and server.host_id is not None:
            yield f"{server.id} is shelved, and on host {server.host_id}"
        if (server.id in moves) != (server.second_host_id is not None):
            yield f"{server.id} has a second host {server.second_host_id}, which its moves do not explain"
    yield from (f"a move of {server}, which does not exist, is under way" for server in moves - servers.keys())


def _quotas(rows: Rows) -> Iterator[str]:
    """A server that is being resized counts with the larger flavor."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    moves = {row.server_id: row for row in rows.migrations if row.status in UNDER_WAY}
    for row in rows.servers:
        texts = (moves[row.id].old_flavor, moves[row.id].new_flavor) if row.id in moves else (row.flavor,)
        sizes = [load(text, Flavor) for text in texts]
        cores, ram = zip(*map(quota_size, sizes), strict=True)
        for i, amount in enumerate((1, max(cores), max(ram))):
            sums[row.project_id][i] += amount
    counted = {row.project_id: [row.instances, row.cores, row.ram] for row in rows.quota_usages}
    for project in sorted(sums.keys() | counted.keys()):
        if counted.get(project, [0, 0, 0]) != sums[project]:
            yield f"project {project} uses {sums[project]}, and {counted.get(project)} is counted"


def _unfinished(rows: Rows) -> Iterator[str]:
    yield from (f"{row.verb} of {row.server_id} is still to be done, due at {row.due_at}" for row in rows.work)
    for row in rows.servers:
        if row.task_state is not None or row.vm_state == "building":
            yield f"{row.id} is left {row.vm_state}, {row.task_state}"
        if row.host_id is None and row.vm_state not in {"error", "shelved_offloaded"}:
            yield f"{row.id} is {row.vm_state}, and nowhere"
    yield from (f"a move of {r.server_id} is left preparing" for r in rows.migrations if r.status == "preparing")
