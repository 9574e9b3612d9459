"""The traits that aggregates require, put on their hosts, so that requests which ask for them find the hosts."""

from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.aggregates import Aggregate
from covey.model.ids import HostId
from covey.model.vocabulary import CUSTOM_NAME, STANDARD_TRAITS
from covey.ports import Clock
from covey.services.placement.finding import retried
from covey.services.upkeep import Length
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class HostTrait:
    """A trait that a host of an aggregate gets."""

    aggregate: str
    host: str
    trait: str


@dataclass(frozen=True, slots=True)
class HostTraits:
    """What hosts get, the names that are new, and (aggregate, trait) for traits that no host can have."""

    added: tuple[HostTrait, ...]
    created: tuple[str, ...]
    unknown: tuple[tuple[str, str], ...]


def sync(store: Store, clock: Clock, begin: Length, *, dry_run: bool = False) -> HostTraits:
    """Each aggregate's in one transaction; no trait is ever taken away."""
    with store.read() as tx:
        closed = [aggregate for aggregate in tx.aggregates.all() if aggregate.required_traits]
        hosts = {host.name: host for host in tx.hosts.find()}
        names = {trait for aggregate in closed for trait in _traits(aggregate)}
        strange = names - tx.traits.known(names)
    has = {name: host.traits for name, host in hosts.items()}
    ids = {name: host.id for name, host in hosts.items()}
    added: list[HostTrait] = []
    progress = begin(len(closed))
    for aggregate in closed:
        missing = _missing(aggregate, has)
        added += _add(store, clock, aggregate, ids) if missing and not dry_run else missing
        has |= {each.host: has[each.host] | {each.trait} for each in missing}  # a host may be in two of them
        progress(1)
    unknown = [(each.name, trait) for each in closed for trait in sorted(each.required_traits - _traits(each))]
    return HostTraits(tuple(added), tuple(sorted(strange & {each.trait for each in added})), tuple(unknown))


def _add(store: Store, clock: Clock, seen: Aggregate, ids: Mapping[str, HostId]) -> list[HostTrait]:
    def attempt() -> list[HostTrait]:
        with store.write() as tx:
            # Held, so that neither its hosts nor its metadata change meanwhile; nor the traits of the hosts.
            aggregate = tx.aggregates.by_id(seen.id, lock=True)
            if aggregate is None:
                return []
            tx.providers.hold([], [ids[name] for name in aggregate.hosts if name in ids])
            missing = _missing(aggregate, {name: tx.traits.of(ids[name]) for name in aggregate.hosts if name in ids})
            tx.traits.name({each.trait for each in missing}, clock())
            tx.hosts.add_traits((ids[each.host], each.trait) for each in missing)
            return missing

    return retried(attempt)


def _missing(aggregate: Aggregate, has: Mapping[str, frozenset[str]]) -> list[HostTrait]:
    return [
        HostTrait(aggregate.name, host, trait)
        for host in aggregate.hosts
        if host in has
        for trait in sorted(_traits(aggregate) - has[host])
    ]


def _traits(aggregate: Aggregate) -> frozenset[str]:
    """Those of the required ones that a host can have: standard ones, and names of an operator's own."""
    return frozenset(
        trait for trait in aggregate.required_traits if trait in STANDARD_TRAITS or CUSTOM_NAME.fullmatch(trait)
    )
