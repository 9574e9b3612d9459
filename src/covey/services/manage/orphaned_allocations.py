"""Finds and deletes orphaned allocations: their consumer is neither a server nor a migration in progress."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from covey.model.allocations import Consumer
from covey.model.providers import ProviderFilter
from covey.services.manage import StartProgress
from covey.services.placement.generations import retry_on_conflict
from covey.storage.store import Store

_BATCH = 500  # consumers to read in one query


@dataclass(frozen=True, slots=True)
class ProviderAllocation:
    """The allocations of one provider."""

    provider: str
    uuid: str
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OrphanedConsumer:
    """A consumer whose server or migration no longer exists, with its remaining allocations."""

    consumer: Consumer
    allocations: tuple[ProviderAllocation, ...]


def find(store: Store) -> list[OrphanedConsumer]:
    """Return all orphaned consumers of types INSTANCE and MIGRATION; other types are never orphans."""
    with store.read() as tx:
        uuids = tx.allocations.orphaned_consumers()
        if not uuids:
            return []
        names = {provider.uuid: provider.name for provider in tx.providers.find(ProviderFilter())}
        found = [
            consumer
            for start in range(0, len(uuids), _BATCH)
            for consumer in tx.allocations.by_consumer(uuids[start : start + _BATCH])
        ]
    return [
        OrphanedConsumer(
            each.consumer,
            tuple(ProviderAllocation(names[uuid], uuid, amounts) for uuid, amounts in each.resources.items()),
        )
        for each in found
    ]


def delete(store: Store, orphans: list[OrphanedConsumer], start: StartProgress) -> list[OrphanedConsumer]:
    """Delete the allocations, one transaction for each consumer. Return those that were still orphaned."""
    progress = start(len(orphans))
    deleted = []
    for orphan in orphans:
        if retry_on_conflict(partial(_delete, store, orphan.consumer.uuid)):
            deleted.append(orphan)
        progress(1)
    return deleted


def _delete(store: Store, uuid: str) -> bool:
    with store.write() as tx:
        tx.allocations.find_consumers([uuid], lock=True)
        orphaned = bool(tx.allocations.orphaned_consumers([uuid]))
        if orphaned:
            tx.changes.add_uses(tx.server_allocations.release(uuid))
        return orphaned
