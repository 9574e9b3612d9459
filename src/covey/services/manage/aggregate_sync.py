"""Adds hosts' resource providers to the Placement aggregates of their host aggregates, where links are missing."""

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from covey.model.errors import Conflict
from covey.model.ids import AggregateId, HostId
from covey.services.manage import StartProgress
from covey.services.placement.generations import retry_on_conflict
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class AggregateLink:
    """The membership of a host's resource provider in an aggregate."""

    aggregate: str
    uuid: str
    host: str


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The added links, the number of links in all, and the aggregates whose links could not be added."""

    added: tuple[AggregateLink, ...]
    total: int
    failed: tuple[tuple[str, str], ...] = ()  # (name of the aggregate, reason)


def sync(store: Store, start: StartProgress) -> SyncResult:
    """Add the missing links, one transaction for each aggregate. Removes nothing."""
    with store.read() as tx:
        aggregates = {aggregate.id: aggregate for aggregate in tx.aggregates.all()}
        missing = tx.aggregates.unsynced_hosts()
        names = {host.id: host.name for host in tx.hosts.find()} if missing else {}
    added: list[AggregateLink] = []
    failed: list[tuple[str, str]] = []
    progress = start(len(missing))
    for key, pairs in groupby(missing, itemgetter(0)):
        aggregate = aggregates[key]
        try:
            linked = _add_links(store, key)
            added += [AggregateLink(aggregate.name, aggregate.uuid, names[host]) for host in linked if host in names]
        except Conflict as error:
            failed.append((aggregate.name, error.message))
        progress(len(list(pairs)))
    return SyncResult(tuple(added), sum(len(aggregate.hosts) for aggregate in aggregates.values()), tuple(failed))


def _add_links(store: Store, aggregate: AggregateId) -> list[HostId]:
    def attempt() -> list[HostId]:
        with store.write() as tx:
            tx.aggregates.by_id(aggregate, lock=True)  # so that no concurrent request removes a host from it
            pairs = tx.aggregates.unsynced_hosts(aggregate)
            tx.aggregates.sync_hosts(pairs)
            return [host for _, host in pairs]

    return retry_on_conflict(attempt)
