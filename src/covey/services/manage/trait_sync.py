"""Adds the traits that aggregates require to their hosts, so that requests for these traits match the hosts."""

from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.aggregates import Aggregate
from covey.model.ids import HostId
from covey.model.vocabulary import CUSTOM_NAME, STANDARD_TRAITS
from covey.ports import Clock
from covey.services.manage import StartProgress
from covey.services.placement.generations import retry_on_conflict
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class HostTrait:
    """A trait to add to a host of an aggregate."""

    aggregate: str
    host: str
    trait: str


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The added traits, the newly created ones, and (aggregate, trait) for names that are no valid traits."""

    added: tuple[HostTrait, ...]
    created: tuple[str, ...]
    unknown: tuple[tuple[str, str], ...]


def sync(store: Store, clock: Clock, start: StartProgress, *, dry_run: bool = False) -> SyncResult:
    """Add the missing traits, one transaction for each aggregate. Removes nothing."""
    with store.read() as tx:
        isolated = [aggregate for aggregate in tx.aggregates.all() if aggregate.required_traits]
        hosts = {host.name: host for host in tx.hosts.find()}
        names = {trait for aggregate in isolated for trait in _valid_traits(aggregate)}
        new_names = names - tx.traits.known(names)
    has = {name: host.traits for name, host in hosts.items()}
    ids = {name: host.id for name, host in hosts.items()}
    added: list[HostTrait] = []
    progress = start(len(isolated))
    for aggregate in isolated:
        missing = _missing(aggregate, has)
        added += _add_traits(store, clock, aggregate, ids) if missing and not dry_run else missing
        has |= {
            each.host: has[each.host] | {each.trait} for each in missing
        }  # a host may be in several of the aggregates
        progress(1)
    unknown = [(each.name, trait) for each in isolated for trait in sorted(each.required_traits - _valid_traits(each))]
    return SyncResult(tuple(added), tuple(sorted(new_names & {each.trait for each in added})), tuple(unknown))


def _add_traits(store: Store, clock: Clock, seen: Aggregate, ids: Mapping[str, HostId]) -> list[HostTrait]:
    def attempt() -> list[HostTrait]:
        with store.write() as tx:
            # Lock the aggregate and its hosts, so that members, metadata and traits do not change.
            aggregate = tx.aggregates.by_id(seen.id, lock=True)
            if aggregate is None:
                return []
            tx.topology.begin_change()
            tx.providers.lock([], [ids[name] for name in aggregate.hosts if name in ids])
            missing = _missing(aggregate, {name: tx.traits.of(ids[name]) for name in aggregate.hosts if name in ids})
            tx.traits.add_custom({each.trait for each in missing}, clock())
            tx.hosts.add_traits((ids[each.host], each.trait) for each in missing)
            return missing

    return retry_on_conflict(attempt)


def _missing(aggregate: Aggregate, has: Mapping[str, frozenset[str]]) -> list[HostTrait]:
    return [
        HostTrait(aggregate.name, host, trait)
        for host in aggregate.hosts
        if host in has
        for trait in sorted(_valid_traits(aggregate) - has[host])
    ]


def _valid_traits(aggregate: Aggregate) -> frozenset[str]:
    """Return the required traits that a host can have: standard ones, and CUSTOM_ names."""
    return frozenset(
        trait for trait in aggregate.required_traits if trait in STANDARD_TRAITS or CUSTOM_NAME.fullmatch(trait)
    )
