"""Allocations: who holds how much of which provider."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from covey.model.access import Actor
from covey.model.allocations import AllocationRequest, ConsumerAllocations
from covey.model.errors import CoveyError, Invalid, NotFound, TransactionConflict
from covey.model.providers import Provider
from covey.ports import Access, Clock
from covey.request_slots import RequestSlots
from covey.services.group_commit import GroupCommit
from covey.services.placement import ledger
from covey.services.placement.finding import existing, retried
from covey.services.placement.inventories import unknown_class
from covey.services.placement.live_providers import LiveProviders
from covey.storage.store import Store, Transaction

_RULE = "placement:allocations:"


@dataclass(slots=True)
class Allocations:
    """What can be done with allocations."""

    store: Store
    access: Access
    clock: Clock
    request_slots: RequestSlots = field(default_factory=RequestSlots)
    live: LiveProviders = field(default_factory=LiveProviders)
    _batches: GroupCommit[Sequence[AllocationRequest], None] = field(init=False)

    def __post_init__(self) -> None:
        self._batches = GroupCommit(self.write, request_slots=self.request_slots)

    def of_consumer(self, actor: Actor, consumer: str) -> ConsumerAllocations | None:
        """All that a consumer holds; None when that is nothing."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            found = tx.allocations.holdings([consumer])
        return found[0] if found else None

    def of_provider(self, actor: Actor, uuid: str) -> tuple[Provider, list[ConsumerAllocations]]:
        """Everybody who holds something of a provider. Raises NotFound."""
        self.access.require(actor, "placement:resource_providers:allocations:list")
        with self.store.read() as tx:
            provider = existing(tx, uuid)
            return provider, tx.allocations.on(provider.id)

    def replace(self, actor: Actor, wanted: AllocationRequest) -> None:
        """A consumer holds this from now on. Raises Invalid, Conflict, ConcurrentUpdate."""
        self.access.require(actor, f"{_RULE}update")
        self._batches.ask([wanted])

    def replace_many(self, actor: Actor, wanted: Sequence[AllocationRequest]) -> None:
        """The same for many consumers, all or none."""
        self.access.require(actor, f"{_RULE}manage")
        self._batches.ask(wanted)

    def delete(self, actor: Actor, consumer: str) -> None:
        """A consumer holds nothing from now on. Raises NotFound."""
        self.access.require(actor, f"{_RULE}delete")

        def attempt() -> None:
            with self.store.write() as tx:
                found = tx.allocations.find([consumer], lock=True)
                held = tx.allocations.of([consumer])
                if not found or not held:
                    raise NotFound(f"No allocations for consumer '{consumer}'")
                tx.allocations.take(sorted((each.provider_id, each.resource_class, -each.used) for each in held))
                tx.allocations.forget([consumer])

        retried(attempt)

    def write(self, requests: Sequence[Sequence[AllocationRequest]]) -> Sequence[BaseException | None]:
        """Writes requests that arrived together; tells of each what stands against it.

        In one transaction where all goes well; where one is refused, or two write one consumer, each by itself.
        """
        written = Counter(each.consumer for request in requests for each in request)
        if len(requests) > 1 and max(written.values()) == 1:
            with suppress(CoveyError):
                self._write(requests)
                return [None] * len(requests)
        return [self._alone(request) for request in requests]

    def _alone(self, request: Sequence[AllocationRequest]) -> BaseException | None:
        try:
            retried(lambda: self._write([request]))
        except Exception as error:  # noqa: BLE001 -- it is this caller's; others' requests may be written already
            return error
        return None

    def _write(self, requests: Sequence[Sequence[AllocationRequest]]) -> None:
        """New consumers are written in one round trip, where the providers are known by sight; all others in two."""
        wanted = [each for request in requests for each in request]
        if all(each.is_new and each.resources for each in wanted):
            known = self.live.seen({uuid for each in wanted for uuid in each.resources})
            with suppress(TransactionConflict):  # a provider is not any more what it was, or never had what is wanted
                if known is not None:
                    self._write_once(requests, known)
                    return
        self._write_once(requests, None)

    def _write_once(self, requests: Sequence[Sequence[AllocationRequest]], known: ledger.Ids | None) -> None:
        wanted, now = [each for request in requests for each in request], self.clock()
        new = [] if known is None else ledger.allocations(wanted, known)
        with self.store.write() as tx:
            locked = tx.allocations.open(wanted, now, new, ledger.amounts(new, ()))
            ledger.refuse_stale(locked.generations, wanted)
            ledger.refuse_unknown(locked.providers, wanted)
            _refuse_unknown_classes(tx, wanted)
            counts = sum(
                (ledger.written(request, locked.held, locked.providers) for request in requests), Counter[int]()
            )
            tx.providers.bump({provider: count - 1 for provider, count in counts.items()}, now)  # `open` counted one
            if known is None:
                ledger.rewrite(tx, wanted, locked.held, locked.providers, locked.inventories)
            else:
                _refuse_others(known, locked.providers)
                ledger.refuse_portions(new, locked.providers, locked.inventories)
                ledger.refuse_full(locked.exceeding, locked.providers)


def _refuse_others(known: ledger.Ids, providers: ledger.Ids) -> None:
    """Raises TransactionConflict when a provider went, and another has its uuid now."""
    if known != providers:
        raise TransactionConflict("A provider is another than it was. Look anew, then try again.")


def _refuse_unknown_classes(tx: Transaction, wanted: Sequence[AllocationRequest]) -> None:
    unknown = unknown_class(tx, {kind for each in wanted for amounts in each.resources.values() for kind in amounts})
    if unknown:
        whom = f" for consumer {wanted[0].consumer}:" if len(wanted) == 1 else ""
        raise Invalid(f"Unable to allocate inventory{whom} {unknown}")
