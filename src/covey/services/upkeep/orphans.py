"""Allocations that nobody needs any more: their consumer is neither a server nor a move that is under way."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from covey.model.allocations import Consumer
from covey.model.providers import ProviderFilter
from covey.services.placement.finding import retried
from covey.services.upkeep import Length
from covey.storage.store import Store

_SOME = 500  # consumers that are looked up at once


@dataclass(frozen=True, slots=True)
class Held:
    """What is held of one provider."""

    provider: str
    uuid: str
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Orphan:
    """A consumer whose server or move is gone, and all that it still holds."""

    consumer: Consumer
    holds: tuple[Held, ...]


def find(store: Store) -> list[Orphan]:
    """All of them. Consumers that are not compute's own are nobody's orphans."""
    with store.read() as tx:
        uuids = tx.allocations.orphans()
        if not uuids:
            return []
        names = {provider.uuid: provider.name for provider in tx.providers.find(ProviderFilter())}
        found = [
            holding
            for start in range(0, len(uuids), _SOME)
            for holding in tx.allocations.holdings(uuids[start : start + _SOME])
        ]
    return [
        Orphan(each.consumer, tuple(Held(names[uuid], uuid, held) for uuid, held in each.resources.items()))
        for each in found
    ]


def delete(store: Store, orphans: list[Orphan], begin: Length) -> list[Orphan]:
    """Gives back what they hold, each in one transaction; tells which were orphans still."""
    progress = begin(len(orphans))
    gone = []
    for orphan in orphans:
        if retried(partial(_delete, store, orphan.consumer.uuid)):
            gone.append(orphan)
        progress(1)
    return gone


def _delete(store: Store, uuid: str) -> bool:
    with store.write() as tx:
        tx.allocations.find([uuid], lock=True)
        still = bool(tx.allocations.orphans([uuid]))
        if still:
            tx.changes.add_uses(tx.claims.release(uuid))
        return still
