"""Allocations of consumers."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from covey.model.access import Actor
from covey.model.allocations import AllocationRequest, ConsumerAllocations
from covey.model.errors import CoveyError, Invalid, NotFound, PolicyViolation, TransactionConflict
from covey.model.ids import GroupId
from covey.model.providers import Provider
from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock
from covey.request_slots import RequestSlots
from covey.services.group_commit import GroupCommit
from covey.services.live_fleet import LiveFleet
from covey.services.placement import allocation_writes
from covey.services.placement.generations import get_provider, retry_on_conflict
from covey.services.placement.inventories import unknown_class
from covey.services.placement.member_policies import MemberPolicies, require_locked, with_groups_locked
from covey.services.placement.refusal_records import record_refusal
from covey.storage.store import Store, Transaction

_RULE = "placement:allocations:"


@dataclass(slots=True)
class Allocations:
    """Operations on allocations."""

    store: Store
    access: Access
    clock: Clock
    live: LiveFleet
    request_slots: RequestSlots = field(default_factory=RequestSlots)
    max_group_members: int = UNLIMITED
    _policies: MemberPolicies = field(init=False)
    _group_commit: GroupCommit[Sequence[AllocationRequest], None] = field(init=False)

    def __post_init__(self) -> None:
        self._policies = MemberPolicies(self.live, self.max_group_members)
        self._group_commit = GroupCommit(self.write, request_slots=self.request_slots)

    def of_consumer(self, actor: Actor, consumer: str) -> ConsumerAllocations | None:
        """Return the allocations of a consumer, or None if it has none."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            found = tx.allocations.by_consumer([consumer])
        return found[0] if found else None

    def of_provider(self, actor: Actor, uuid: str) -> tuple[Provider, list[ConsumerAllocations]]:
        """Return the allocations of a provider by consumer. Raises NotFound."""
        self.access.require(actor, "placement:resource_providers:allocations:list")
        with self.store.read() as tx:
            provider = get_provider(tx, uuid)
            return provider, tx.allocations.of_providers([provider.id])

    def require_replace(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}update")

    def replace(self, actor: Actor, request: AllocationRequest) -> None:
        """Replace the allocations of a consumer. Raises Invalid, Conflict, ConcurrentUpdate, PolicyViolation."""
        self.require_replace(actor)
        self._group_commit.submit([request])

    def require_replace_many(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}manage")

    def replace_many(self, actor: Actor, requests: Sequence[AllocationRequest]) -> None:
        """Replace the allocations of several consumers in one transaction. Raises like `replace`."""
        self.require_replace_many(actor)
        self._group_commit.submit(requests)

    def delete(self, actor: Actor, consumer: str) -> None:
        """Delete the allocations of a consumer. Raises NotFound."""
        self.access.require(actor, f"{_RULE}delete")

        def attempt(groups: frozenset[GroupId]) -> None:
            with self.store.write() as tx:
                self._policies.lock(tx, groups)
                found = tx.allocations.find_consumers([consumer], lock=True)
                old = tx.allocations.of_consumers([consumer])
                if not found or not old:
                    raise NotFound(f"No allocations for consumer '{consumer}'")
                tx.allocations.take(sorted((a.provider_id, a.resource_class, -a.used) for a in old))
                require_locked(tx.allocations.delete_consumers([consumer]), groups)
                self._policies.settle(tx, groups, [consumer])

        retry_on_conflict(lambda: with_groups_locked(attempt))

    def write(self, requests: Sequence[Sequence[AllocationRequest]]) -> Sequence[BaseException | None]:
        """Write requests that arrived together. Return the error of each, or None.

        All share one transaction. If that fails, or two requests write one consumer, each gets its own transaction.
        """
        written = Counter(write.consumer for request in requests for write in request)
        if len(requests) > 1 and max(written.values()) == 1:
            with suppress(CoveyError):
                self._write(requests)
                return [None] * len(requests)
        return [self._alone(request) for request in requests]

    def _alone(self, request: Sequence[AllocationRequest]) -> BaseException | None:
        try:
            retry_on_conflict(lambda: self._write([request]))
        except PolicyViolation as error:
            record_refusal(self.store, error.refusal)
            return error
        except Exception as error:  # noqa: BLE001 -- returned to its caller; other requests are unaffected
            return error
        return None

    def _write(self, requests: Sequence[Sequence[AllocationRequest]]) -> None:
        with_groups_locked(lambda groups: self._write_in(groups, requests))

    def _write_in(self, groups: frozenset[GroupId], requests: Sequence[Sequence[AllocationRequest]]) -> None:
        """Write new consumers in one round trip if their providers are in memory, and all others in two."""
        writes = [write for request in requests for write in request]
        if all(write.is_new and write.resources for write in writes):
            known = self.live.known_ids({uuid for write in writes for uuid in write.resources})
            with suppress(TransactionConflict):  # the providers in memory are outdated: read them
                if known is not None:
                    self._write_once(groups, requests, known)
                    return
        self._write_once(groups, requests, None)

    def _write_once(
        self,
        groups: frozenset[GroupId],
        requests: Sequence[Sequence[AllocationRequest]],
        known: allocation_writes.ProviderIds | None,
    ) -> None:
        writes, now = [write for request in requests for write in request], self.clock()
        new = [] if known is None else allocation_writes.allocation_rows(writes, known)
        with self.store.write() as tx:
            if groups:
                self._policies.check(tx, groups, requests, now)
            locked = tx.allocations.begin_replace(writes, now, new, allocation_writes.usage_changes(new, ()))
            require_locked(locked.groups, groups)
            allocation_writes.check_consumer_generations(locked.generations, writes)
            allocation_writes.check_providers_exist(locked.providers, writes)
            _check_resource_classes(tx, writes)
            counts = sum(
                (
                    allocation_writes.generation_increments(request, locked.old_allocations, locked.providers)
                    for request in requests
                ),
                Counter[int](),
            )
            tx.providers.bump(
                {provider: count - 1 for provider, count in counts.items()}, now
            )  # `open` incremented once
            if known is None:
                allocation_writes.replace_allocations(
                    tx, writes, locked.old_allocations, locked.providers, locked.inventories
                )
            else:
                _reject_changed_providers(known, locked.providers)
                allocation_writes.check_units(new, locked.providers, locked.inventories)
                allocation_writes.reject_exceeding(locked.exceeding, locked.providers)


def _reject_changed_providers(known: allocation_writes.ProviderIds, providers: allocation_writes.ProviderIds) -> None:
    """Raise TransactionConflict when a uuid now belongs to another provider."""
    if known != providers:
        raise TransactionConflict("A resource provider was replaced by another request. Read it again, then retry.")


def _check_resource_classes(tx: Transaction, requests: Sequence[AllocationRequest]) -> None:
    unknown = unknown_class(
        tx, {kind for request in requests for amounts in request.resources.values() for kind in amounts}
    )
    if unknown:
        subject = f" for consumer {requests[0].consumer}:" if len(requests) == 1 else ""
        raise Invalid(f"Unable to allocate inventory{subject} {unknown}")
