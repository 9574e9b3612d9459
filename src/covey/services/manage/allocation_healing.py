"""Heals allocations: creates or corrects the allocations of servers where capacity allows."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from covey.model.actions import UNDER_WAY, Migration
from covey.model.allocations import INSTANCE, MIGRATION, AllocationRequest, ConsumerAllocations
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.flavors import Flavor
from covey.model.ids import HostId, ServerId
from covey.model.inventory import ResourceClass
from covey.model.resources import resource_request
from covey.model.servers import Server, ServerFilter, VmState
from covey.ports import Clock
from covey.services.manage import StartProgress
from covey.services.placement import allocation_writes
from covey.services.placement.generations import retry_on_conflict
from covey.storage.store import Store, Transaction

_PAGE = 500
_CLASSES = (ResourceClass.VCPU, ResourceClass.MEMORY_MB, ResourceClass.DISK_GB)

Hosts = Mapping[HostId, str]  # the provider uuid of each host


@dataclass(frozen=True, slots=True)
class AllocationMismatch:
    """A server whose allocations are missing or wrong, and the expected ones by host name.

    Of a server with an obstacle, no allocations can be expected: its flavor has an extra spec that Covey cannot follow.
    """

    server: ServerId
    name: str
    expected: Mapping[str, Mapping[str, int]]
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class HealResult:
    """The healed servers, and those that could not be healed with the reason."""

    healed: tuple[AllocationMismatch, ...]
    failed: tuple[tuple[AllocationMismatch, str], ...] = ()


def find_mismatches(store: Store, only: str | None = None) -> list[AllocationMismatch]:
    """Return the servers whose allocations are missing or wrong; `only` limits the check to one server.

    Raises NotFound if that server does not exist.
    """
    with store.read() as tx:
        hosts = tx.hosts.find()
        uuids, names = {host.id: host.uuid for host in hosts}, {host.uuid: host.name for host in hosts}
        migrations = {m.server_id: m for m in tx.migrations.find(server=only, statuses=UNDER_WAY)}
        if only is not None and tx.servers.by_id(only) is None:
            raise NotFound(f"Instance {only} could not be found.")
        return [mismatch for page in _pages(tx, only) for mismatch in _mismatches(tx, page, migrations, uuids, names)]


def plan(mismatches: Sequence[AllocationMismatch]) -> HealResult:
    """Return which of the servers `heal` tries to heal, and those that have an obstacle."""
    return HealResult(
        tuple(each for each in mismatches if each.obstacle is None),
        tuple((each, each.obstacle) for each in mismatches if each.obstacle is not None),
    )


def heal(store: Store, clock: Clock, mismatches: list[AllocationMismatch], start: StartProgress) -> HealResult:
    """Heal each server in its own transaction, which reads the current rows again, but none with an obstacle."""
    with store.read() as tx:
        hosts = {host.id: host.uuid for host in tx.hosts.find()}
    planned = plan(mismatches)
    healed, failed = [], [*planned.failed]
    progress = start(len(planned.healed))
    for mismatch in planned.healed:
        try:
            if retry_on_conflict(partial(_heal_server, store, clock, mismatch.server, hosts)):
                healed.append(mismatch)
        except (Conflict, Invalid) as error:
            failed.append((mismatch, error.message))
        progress(1)
    return HealResult(tuple(healed), tuple(failed))


def _pages(tx: Transaction, only: str | None) -> Iterator[list[Server]]:
    after: ServerId | None = None
    ids = None if only is None else (only,)
    while page := tx.servers.find(ServerFilter(ids=ids, after=after, limit=_PAGE, sort_key="uuid", descending=False)):
        yield page
        after = page[-1].id


def _mismatches(
    tx: Transaction,
    page: list[Server],
    migrations: Mapping[ServerId, Migration],
    uuids: Hosts,
    names: Mapping[str, str],
) -> Iterator[AllocationMismatch]:
    consumers = [*(s.id for s in page), *(migrations[s.id].uuid for s in page if s.id in migrations)]
    current_by_consumer = {current.consumer.uuid: current for current in tx.allocations.by_consumer(consumers)}
    for server in page:
        try:
            expected = list(_expected(server, migrations.get(server.id), uuids))
        except Invalid as error:
            yield AllocationMismatch(server.id, server.name, {}, error.message)
            continue
        if any(_differs(request, current_by_consumer.get(request.consumer), names.keys()) for request in expected):
            by_host = {names[uuid]: amounts for request in expected for uuid, amounts in request.resources.items()}
            yield AllocationMismatch(server.id, server.name, by_host)


def _heal_server(store: Store, clock: Clock, key: ServerId, hosts: Hosts) -> bool:
    """Return whether anything was wrong. Raises Conflict where capacity is missing, and Invalid for its flavor."""
    with store.write() as tx:
        server = tx.servers.by_id(key, lock=True)
        if server is None:
            return False
        migration = next(iter(tx.migrations.find(server=key, statuses=UNDER_WAY)), None)
        expected = list(_expected(server, migration, hosts))
        tx.allocations.lock_consumers([request for request in expected if request.resources])
        consumers = tx.allocations.find_consumers([request.consumer for request in expected], lock=True)
        current_by_consumer = {current.consumer.uuid: current for current in tx.allocations.by_consumer([*consumers])}
        own = set(hosts.values())
        wrong = [
            _with_other_resources(request, current_by_consumer.get(request.consumer), own)
            for request in expected
            if _differs(request, current_by_consumer.get(request.consumer), own)
        ]
        now = clock()
        _, old = tx.allocations.clear_consumers(wrong, now)
        named = {uuid for request in wrong for uuid in request.resources}
        providers = allocation_writes.provider_ids(tx.providers.lock(named, {each.provider_id for each in old}))
        allocation_writes.replace_allocations(tx, wrong, old, providers)
        tx.providers.bump(allocation_writes.generation_increments(wrong, old, providers), now)
        return bool(wrong)


def _expected(server: Server, migration: Migration | None, hosts: Hosts) -> Iterator[AllocationRequest]:
    """Yield the expected allocations: the server's on its host, and the migration's on the other host.

    Raises Invalid for a flavor with an extra spec that Covey cannot follow.
    """
    here, there = server.host_id, server.migration_host_id
    if there is None or migration is None:
        yield _request(server.id, INSTANCE, server, here, server.flavor, hosts)
        return
    if server.vm_state is not VmState.RESIZED:
        here, there = there, here
    yield _request(server.id, INSTANCE, server, here, migration.new_flavor, hosts)
    yield _request(migration.uuid, MIGRATION, server, there, migration.old_flavor, hosts)


def _request(
    consumer: str, kind: str, server: Server, host: HostId | None, flavor: Flavor, hosts: Hosts
) -> AllocationRequest:
    resources = {} if host is None else {hosts[host]: dict(resource_request(flavor).total)}
    return AllocationRequest(consumer, resources, server.project_id, server.user_id, kind)


def _differs(request: AllocationRequest, current: ConsumerAllocations | None, hosts: Collection[str]) -> bool:
    if current is None:
        return bool(request.resources)
    owner = current.consumer.project_id, current.consumer.kind
    own, others = _split_resources(current, hosts)
    return own != _without_held(request, others) or owner != (request.project_id, request.kind)


def _with_other_resources(
    request: AllocationRequest, current: ConsumerAllocations | None, hosts: Collection[str]
) -> AllocationRequest:
    """Return the request with the resources that the consumer holds besides those of its flavor."""
    if current is None:
        return request
    others = _split_resources(current, hosts)[1]
    expected = _without_held(request, others)
    both = others.keys() | expected.keys()
    return replace(request, resources={p: {**others.get(p, {}), **expected.get(p, {})} for p in both})


def _without_held(request: AllocationRequest, others: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the requested resources less those that other providers serve, such as the children of a host."""
    held = sum((Counter(dict(amounts)) for amounts in others.values()), Counter[str]())
    left = {
        provider: {kind: amount - held[kind] for kind, amount in amounts.items() if amount > held[kind]}
        for provider, amounts in request.resources.items()
    }
    return {provider: amounts for provider, amounts in left.items() if amounts}


def _split_resources(
    current: ConsumerAllocations, hosts: Collection[str]
) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[str, int]]]:
    """Return the resources that a flavor allocates, VCPU, memory and disk of hosts, and all others."""
    own: dict[str, dict[str, int]] = defaultdict(dict)
    rest: dict[str, dict[str, int]] = defaultdict(dict)
    for provider, amounts in current.resources.items():
        for kind, amount in amounts.items():
            (own if provider in hosts and kind in _CLASSES else rest)[provider][kind] = amount
    return own, rest
