"""The ledger of a Placement service, as `covey adopt` copies it, and how the copy differs from the original."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from covey.model.allocations import Consumer
from covey.model.providers import InventoryRecord
from covey.model.vocabulary import CUSTOM, STANDARD_CLASSES, STANDARD_TRAITS, sort_classes


class HeldAllocations(NamedTuple):
    """What one consumer holds of one provider, and the consumer's generation."""

    generation: int
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LedgerProvider:
    """A resource provider with everything that the Placement API shows of it, at one generation."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str
    inventories: Mapping[str, InventoryRecord] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    allocations: Mapping[str, HeldAllocations] = field(default_factory=dict)  # by consumer


class ConsumerAllocations(NamedTuple):
    """A consumer with all its allocations, by provider."""

    consumer: Consumer
    resources: Mapping[str, Mapping[str, int]]

    def holds(self, provider: str, held: HeldAllocations) -> bool:
        """Return whether this is what the consumer holds of a provider, at the same generation."""
        return held == (self.consumer.generation, self.resources.get(provider))


@dataclass(frozen=True, slots=True)
class Ledger:
    """All providers and consumers by uuid, and the custom names."""

    providers: Mapping[str, LedgerProvider] = field(default_factory=dict)
    consumers: Mapping[str, Consumer] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    resource_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a provider or a consumer, or a custom name, that is not the same in both ledgers."""

    kind: str  # provider, consumer, trait, resource class
    subject: str  # the uuid, or the custom name
    field: str
    original: object
    copy: object


def consumer_allocations(ledger: Ledger) -> dict[str, ConsumerAllocations]:
    """Return the consumers of a ledger with their allocations, by uuid."""
    resources: dict[str, dict[str, Mapping[str, int]]] = {uuid: {} for uuid in ledger.consumers}
    for provider in ledger.providers.values():
        for uuid, held in provider.allocations.items():
            resources[uuid][provider.uuid] = held.resources
    return {uuid: ConsumerAllocations(consumer, resources[uuid]) for uuid, consumer in ledger.consumers.items()}


def with_allocations(
    providers: Mapping[str, LedgerProvider], holders: Iterable[ConsumerAllocations]
) -> dict[str, LedgerProvider]:
    """Return the providers with the allocations of these consumers, and with their sums as usage."""
    held: dict[str, dict[str, HeldAllocations]] = {uuid: {} for uuid in providers}
    used: dict[str, dict[str, int]] = {uuid: {} for uuid in providers}
    for consumer, by_provider in holders:
        for uuid in by_provider.keys() & held.keys():
            held[uuid][consumer.uuid] = HeldAllocations(consumer.generation, by_provider[uuid])
            _add(used[uuid], by_provider[uuid])
    return {
        uuid: replace(
            provider,
            inventories={
                kind: replace(has, used=used[uuid].get(kind, 0)) for kind, has in provider.inventories.items()
            },
            allocations=held[uuid],
        )
        for uuid, provider in providers.items()
    }


def usage_by_project(holders: Iterable[ConsumerAllocations]) -> dict[str, dict[str, int]]:
    """Return the sums of the allocations of each project, by resource class."""
    sums: dict[str, dict[str, int]] = {}
    for consumer, by_provider in holders:
        for resources in by_provider.values():
            _add(sums.setdefault(consumer.project_id, {}), resources)
    return sums


def _add(sums: dict[str, int], resources: Mapping[str, int]) -> None:
    for kind, amount in resources.items():
        sums[kind] = sums.get(kind, 0) + amount


def find_differences(original: Ledger, copy: Ledger) -> list[Difference]:
    """Return every difference: providers in the order of the original, consumers by uuid, then custom names."""
    return [
        *_differences("provider", original.providers, copy.providers, _PROVIDER_FIELDS),
        *_differences("consumer", original.consumers, copy.consumers, _CONSUMER_FIELDS),
        *_names("trait", original.traits, copy.traits),
        *_names("resource class", original.resource_classes, copy.resource_classes),
    ]


def find_problems(ledger: Ledger) -> list[str]:
    """Return what Covey cannot store as the original has it: a sentence for each."""
    providers = ledger.providers.values()
    return [
        *_unknown("traits", {trait for provider in providers for trait in provider.traits} - STANDARD_TRAITS),
        *_unknown("resource classes", {k for provider in providers for k in provider.inventories} - _CLASSES),
        *(problem for provider in providers for problem in _problems(provider)),
    ]


def _problems(provider: LedgerProvider) -> Iterator[str]:
    subject = f"Provider {provider.name} ({provider.uuid})"
    for kind, has in provider.inventories.items():
        if has.allocation_ratio <= 0:
            yield f"{subject} has the allocation ratio {has.allocation_ratio:g} for {kind}; it must be greater than 0."
    for uuid, held in provider.allocations.items():
        for kind in held.resources.keys() - provider.inventories.keys():
            yield f"{subject} has an allocation of {kind} to {uuid}, and no inventory of {kind}."


def _unknown(kind: str, names: Collection[str]) -> Iterator[str]:
    unknown = sorted(name for name in names if not name.startswith(CUSTOM))
    if unknown:
        yield f"The installed {_PACKAGES[kind]} lacks the {kind} {', '.join(unknown)}: upgrade it."


_CLASSES = frozenset(STANDARD_CLASSES)
_PACKAGES = {"traits": "os-traits", "resource classes": "os-resource-classes"}
_PROVIDER_FIELDS = (
    "name", "generation", "parent_uuid", "root_uuid", "inventories", "traits", "aggregates", "allocations",
)  # fmt: skip
_CONSUMER_FIELDS = ("project_id", "user_id", "kind", "generation")


def _differences(
    kind: str, original: Mapping[str, object], copy: Mapping[str, object], fields: Collection[str]
) -> Iterator[Difference]:
    for uuid, left in original.items():
        right = copy.get(uuid)
        if right is None:
            yield Difference(kind, uuid, kind, "exists", None)
        elif left != right:
            for name in fields:
                yield from _field(kind, uuid, name, getattr(left, name), getattr(right, name))
    yield from (Difference(kind, uuid, kind, None, "exists") for uuid in sorted(copy.keys() - original.keys()))


def _field(kind: str, uuid: str, name: str, left: object, right: object) -> Iterator[Difference]:
    """Yield the difference of a field; of a mapping or a set, of each of its entries."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sort_classes(left.keys() | right.keys()):
            if left.get(key) != right.get(key):
                yield Difference(kind, uuid, f"{name}: {key}", left.get(key), right.get(key))
    elif isinstance(left, frozenset) and isinstance(right, frozenset):
        for key in sorted(left ^ right):
            yield Difference(kind, uuid, f"{name}: {key}", key in left, key in right)
    elif left != right:
        yield Difference(kind, uuid, name, left, right)


def _names(kind: str, original: frozenset[str], copy: frozenset[str]) -> Iterator[Difference]:
    for name in sorted(original ^ copy):
        yield Difference(kind, name, kind, "exists" if name in original else None, "exists" if name in copy else None)
