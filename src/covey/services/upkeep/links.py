"""Hosts in aggregates, and their providers in those of placement: links that outside hands removed come back."""

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from covey.model.errors import Conflict
from covey.model.ids import AggregateId, HostId
from covey.services.placement.finding import retried
from covey.services.upkeep import Length
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Link:
    """A host's provider in an aggregate."""

    aggregate: str
    uuid: str
    host: str


@dataclass(frozen=True, slots=True)
class Links:
    """Links that were added, how many there should be in all, and aggregates of which some could not be added."""

    added: tuple[Link, ...]
    total: int
    failed: tuple[tuple[str, str], ...] = ()  # the aggregate's name, and why


def sync(store: Store, begin: Length) -> Links:
    """Adds what is missing, each aggregate's in one transaction, and never removes anything."""
    with store.read() as tx:
        aggregates = {aggregate.id: aggregate for aggregate in tx.aggregates.all()}
        missing = tx.aggregates.unmirrored()
        names = {host.id: host.name for host in tx.hosts.find()} if missing else {}
    added: list[Link] = []
    failed: list[tuple[str, str]] = []
    progress = begin(len(missing))
    for key, pairs in groupby(missing, itemgetter(0)):
        aggregate = aggregates[key]
        try:
            done = _mirror(store, key)
            added += [Link(aggregate.name, aggregate.uuid, names[host]) for host in done if host in names]
        except Conflict as error:
            failed.append((aggregate.name, error.message))
        progress(len(list(pairs)))
    return Links(tuple(added), sum(len(each.hosts) for each in aggregates.values()), tuple(failed))


def _mirror(store: Store, aggregate: AggregateId) -> list[HostId]:
    def attempt() -> list[HostId]:
        with store.write() as tx:
            tx.aggregates.by_id(aggregate, lock=True)  # so that no host leaves it meanwhile
            pairs = tx.aggregates.unmirrored(aggregate)
            tx.aggregates.mirror(pairs)
            return [host for _, host in pairs]

    return retried(attempt)
