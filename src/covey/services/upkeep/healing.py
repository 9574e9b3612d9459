"""Servers whose allocations are not what they should be get the right ones, if there is room."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from covey.model.actions import UNDER_WAY, Migration
from covey.model.allocations import INSTANCE, MIGRATION, AllocationRequest, ConsumerAllocations
from covey.model.claims import amounts_of
from covey.model.errors import Conflict, NotFound
from covey.model.flavors import Flavor
from covey.model.ids import HostId, ServerId
from covey.model.inventory import ResourceClass
from covey.model.servers import Server, ServerFilter, VmState
from covey.ports import Clock
from covey.services.placement import ledger
from covey.services.placement.finding import retried
from covey.services.upkeep import Length
from covey.storage.store import Store, Transaction

_PAGE = 500
_CLASSES = (ResourceClass.VCPU, ResourceClass.MEMORY_MB, ResourceClass.DISK_GB)

Hosts = Mapping[HostId, str]  # the uuid of each host's provider


@dataclass(frozen=True, slots=True)
class Wound:
    """A server, and what it should hold instead, by the names of the hosts."""

    server: ServerId
    name: str
    should: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Healing:
    """Servers that were put right, and those that could not be: each with the reason."""

    healed: tuple[Wound, ...]
    failed: tuple[tuple[Wound, str], ...] = ()


def find(store: Store, only: str | None = None) -> list[Wound]:
    """Every server whose allocations are missing or wrong; only that one is looked at, if one is named.

    Raises NotFound for one that there is not.
    """
    with store.read() as tx:
        hosts = tx.hosts.find()
        uuids, names = {host.id: host.uuid for host in hosts}, {host.uuid: host.name for host in hosts}
        moves = {move.server_id: move for move in tx.migrations.find(server=only, statuses=UNDER_WAY)}
        if only is not None and tx.servers.by_id(only) is None:
            raise NotFound(f"Instance {only} could not be found.")
        return [wound for page in _pages(tx, only) for wound in _wounds(tx, page, moves, uuids, names)]


def heal(store: Store, clock: Clock, wounds: list[Wound], begin: Length) -> Healing:
    """Each server in one transaction, by the rows as they are then."""
    with store.read() as tx:
        hosts = {host.id: host.uuid for host in tx.hosts.find()}
    healed, failed = [], []
    progress = begin(len(wounds))
    for wound in wounds:
        try:
            if retried(partial(_heal, store, clock, wound.server, hosts)):
                healed.append(wound)
        except Conflict as error:
            failed.append((wound, error.message))
        progress(1)
    return Healing(tuple(healed), tuple(failed))


def _pages(tx: Transaction, only: str | None) -> Iterator[list[Server]]:
    after: ServerId | None = None
    ids = None if only is None else (only,)
    while page := tx.servers.find(ServerFilter(ids=ids, after=after, limit=_PAGE, sort_key="uuid", descending=False)):
        yield page
        after = page[-1].id


def _wounds(
    tx: Transaction, page: list[Server], moves: Mapping[ServerId, Migration], uuids: Hosts, names: Mapping[str, str]
) -> Iterator[Wound]:
    consumers = [server.id for server in page] + [moves[server.id].uuid for server in page if server.id in moves]
    held = {holding.consumer.uuid: holding for holding in tx.allocations.holdings(consumers)}
    for server in page:
        due = list(_due(server, moves.get(server.id), uuids))
        if any(_differs(wanted, held.get(wanted.consumer), names.keys()) for wanted in due):
            should = {names[uuid]: amounts for wanted in due for uuid, amounts in wanted.resources.items()}
            yield Wound(server.id, server.name, should)


def _heal(store: Store, clock: Clock, key: ServerId, hosts: Hosts) -> bool:
    """Raises Conflict where there is no room."""
    with store.write() as tx:
        server = tx.servers.by_id(key, lock=True)
        if server is None:
            return False
        move = next(iter(tx.migrations.find(server=key, statuses=UNDER_WAY)), None)
        due = list(_due(server, move, hosts))
        tx.allocations.hold([wanted for wanted in due if wanted.resources])
        consumers = tx.allocations.find([wanted.consumer for wanted in due], lock=True)
        held = {holding.consumer.uuid: holding for holding in tx.allocations.holdings([*consumers])}
        own = set(hosts.values())
        wrong = [_besides(w, held.get(w.consumer), own) for w in due if _differs(w, held.get(w.consumer), own)]
        now = clock()
        _, had = tx.allocations.renew(wrong, now)
        named = {uuid for wanted in wrong for uuid in wanted.resources}
        providers = ledger.ids(tx.providers.hold(named, {each.provider_id for each in had}))
        ledger.rewrite(tx, wrong, had, providers)
        tx.providers.bump(ledger.written(wrong, had, providers), now)
        return bool(wrong)


def _due(server: Server, move: Migration | None, hosts: Hosts) -> Iterator[AllocationRequest]:
    """Who should hold what: the server its place, and a move the place that its server comes from, or may return to."""
    here, there = server.host_id, server.migration_host_id
    if there is None or move is None:
        yield _wanted(server.id, INSTANCE, server, here, server.flavor, hosts)
        return
    if server.vm_state is not VmState.RESIZED:
        here, there = there, here
    yield _wanted(server.id, INSTANCE, server, here, move.new_flavor, hosts)
    yield _wanted(move.uuid, MIGRATION, server, there, move.old_flavor, hosts)


def _wanted(
    consumer: str, kind: str, server: Server, host: HostId | None, flavor: Flavor, hosts: Hosts
) -> AllocationRequest:
    amounts = {str(name): amount for name, amount in zip(_CLASSES, amounts_of(flavor), strict=True) if amount}
    resources = {} if host is None else {hosts[host]: amounts}
    return AllocationRequest(consumer, resources, server.project_id, server.user_id, kind)


def _differs(wanted: AllocationRequest, holding: ConsumerAllocations | None, hosts: Collection[str]) -> bool:
    if holding is None:
        return bool(wanted.resources)
    owner = holding.consumer.project_id, holding.consumer.kind
    return _split(holding, hosts)[0] != wanted.resources or owner != (wanted.project_id, wanted.kind)


def _besides(
    wanted: AllocationRequest, holding: ConsumerAllocations | None, hosts: Collection[str]
) -> AllocationRequest:
    """The same, with what others gave the consumer beside its place."""
    if holding is None:
        return wanted
    others = _split(holding, hosts)[1]
    both = others.keys() | wanted.resources.keys()
    return replace(wanted, resources={p: {**others.get(p, {}), **wanted.resources.get(p, {})} for p in both})


def _split(
    holding: ConsumerAllocations, hosts: Collection[str]
) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[str, int]]]:
    """What compute gives: of its own classes, on hosts; and the rest."""
    own: dict[str, dict[str, int]] = defaultdict(dict)
    rest: dict[str, dict[str, int]] = defaultdict(dict)
    for provider, amounts in holding.resources.items():
        for kind, amount in amounts.items():
            (own if provider in hosts and kind in _CLASSES else rest)[provider][kind] = amount
    return own, rest
