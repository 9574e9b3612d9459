"""Allocations of consumers."""

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
from covey.services.placement import allocation_writes
from covey.services.placement.generations import get_provider, retry_on_conflict
from covey.services.placement.inventories import unknown_class
from covey.services.placement.live_providers import LiveProviders
from covey.storage.store import Store, Transaction

_RULE = "placement:allocations:"


@dataclass(slots=True)
class Allocations:
    """Operations on allocations."""

    store: Store
    access: Access
    clock: Clock
    request_slots: RequestSlots = field(default_factory=RequestSlots)
    live: LiveProviders = field(default_factory=LiveProviders)
    _batches: GroupCommit[Sequence[AllocationRequest], None] = field(init=False)

    def __post_init__(self) -> None:
        self._batches = GroupCommit(self.write, request_slots=self.request_slots)

    def of_consumer(self, actor: Actor, consumer: str) -> ConsumerAllocations | None:
        """Return the allocations of a consumer, or None if it has none."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            found = tx.allocations.holdings([consumer])
        return found[0] if found else None

    def of_provider(self, actor: Actor, uuid: str) -> tuple[Provider, list[ConsumerAllocations]]:
        """Return the allocations of a provider by consumer. Raises NotFound."""
        self.access.require(actor, "placement:resource_providers:allocations:list")
        with self.store.read() as tx:
            provider = get_provider(tx, uuid)
            return provider, tx.allocations.on(provider.id)

    def replace(self, actor: Actor, wanted: AllocationRequest) -> None:
        """Replace the allocations of a consumer. Raises Invalid, Conflict, ConcurrentUpdate."""
        self.access.require(actor, f"{_RULE}update")
        self._batches.ask([wanted])

    def replace_many(self, actor: Actor, wanted: Sequence[AllocationRequest]) -> None:
        """Replace the allocations of several consumers in one transaction. Raises like `replace`."""
        self.access.require(actor, f"{_RULE}manage")
        self._batches.ask(wanted)

    def delete(self, actor: Actor, consumer: str) -> None:
        """Delete the allocations of a consumer. Raises NotFound."""
        self.access.require(actor, f"{_RULE}delete")

        def attempt() -> None:
            with self.store.write() as tx:
                found = tx.allocations.find([consumer], lock=True)
                held = tx.allocations.of([consumer])
                if not found or not held:
                    raise NotFound(f"No allocations for consumer '{consumer}'")
                tx.allocations.take(sorted((each.provider_id, each.resource_class, -each.used) for each in held))
                tx.allocations.forget([consumer])

        retry_on_conflict(attempt)

    def write(self, requests: Sequence[Sequence[AllocationRequest]]) -> Sequence[BaseException | None]:
        """Write requests that arrived together. Return the error of each, or None.

        All share one transaction. If that fails, or two requests write one consumer, each gets its own transaction.
        """
        written = Counter(each.consumer for request in requests for each in request)
        if len(requests) > 1 and max(written.values()) == 1:
            with suppress(CoveyError):
                self._write(requests)
                return [None] * len(requests)
        return [self._alone(request) for request in requests]

    def _alone(self, request: Sequence[AllocationRequest]) -> BaseException | None:
        try:
            retry_on_conflict(lambda: self._write([request]))
        except Exception as error:  # noqa: BLE001 -- returned to its caller; other requests are unaffected
            return error
        return None

    def _write(self, requests: Sequence[Sequence[AllocationRequest]]) -> None:
        """Write new consumers in one round trip if their providers are in memory, and all others in two."""
        wanted = [each for request in requests for each in request]
        if all(each.is_new and each.resources for each in wanted):
            known = self.live.known_ids({uuid for each in wanted for uuid in each.resources})
            with suppress(TransactionConflict):  # the providers in memory are outdated: read them
                if known is not None:
                    self._write_once(requests, known)
                    return
        self._write_once(requests, None)

    def _write_once(
        self, requests: Sequence[Sequence[AllocationRequest]], known: allocation_writes.ProviderIds | None
    ) -> None:
        wanted, now = [each for request in requests for each in request], self.clock()
        new = [] if known is None else allocation_writes.allocation_rows(wanted, known)
        with self.store.write() as tx:
            locked = tx.allocations.open(wanted, now, new, allocation_writes.usage_changes(new, ()))
            allocation_writes.check_consumer_generations(locked.generations, wanted)
            allocation_writes.check_providers_exist(locked.providers, wanted)
            _check_resource_classes(tx, wanted)
            counts = sum(
                (
                    allocation_writes.generation_increments(request, locked.held, locked.providers)
                    for request in requests
                ),
                Counter[int](),
            )
            tx.providers.bump(
                {provider: count - 1 for provider, count in counts.items()}, now
            )  # `open` incremented once
            if known is None:
                allocation_writes.replace_allocations(tx, wanted, locked.held, locked.providers, locked.inventories)
            else:
                _reject_changed_providers(known, locked.providers)
                allocation_writes.check_units(new, locked.providers, locked.inventories)
                allocation_writes.reject_exceeding(locked.exceeding, locked.providers)


def _reject_changed_providers(known: allocation_writes.ProviderIds, providers: allocation_writes.ProviderIds) -> None:
    """Raise TransactionConflict when a uuid now belongs to another provider."""
    if known != providers:
        raise TransactionConflict("A resource provider was replaced by another request. Read it again, then retry.")


def _check_resource_classes(tx: Transaction, wanted: Sequence[AllocationRequest]) -> None:
    unknown = unknown_class(tx, {kind for each in wanted for amounts in each.resources.values() for kind in amounts})
    if unknown:
        subject = f" for consumer {wanted[0].consumer}:" if len(wanted) == 1 else ""
        raise Invalid(f"Unable to allocate inventory{subject} {unknown}")
