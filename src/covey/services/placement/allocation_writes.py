"""Writes allocations: replaces those of consumers, within the capacity and units of inventories."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from covey.model.allocations import Allocation, AllocationRequest
from covey.model.errors import ConcurrentUpdate, Conflict, Invalid
from covey.model.providers import InventoryRecord, Provider
from covey.storage.claims import Amount
from covey.storage.store import Transaction

ProviderIds = Mapping[str, int]  # by uuid
InventoriesById = Mapping[int, Mapping[str, InventoryRecord]]  # by the provider's id


def provider_ids(providers: Mapping[str, Provider]) -> dict[str, int]:
    """Return the ids of providers by uuid."""
    return {uuid: provider.id for uuid, provider in providers.items()}


def check_consumer_generations(generations: Mapping[str, int], requests: Sequence[AllocationRequest]) -> None:
    """Raise ConcurrentUpdate for a consumer whose generation is not the one in the request.

    Generation 0 marks a consumer that this request creates.
    """
    for request in requests:
        now = generations[request.consumer] or None
        if request.checked and request.generation != now:
            raise ConcurrentUpdate(
                f"consumer generation conflict - expected {'null' if now is None else now} but got {request.generation}"
            )


def check_providers_exist(providers: Collection[str], requests: Sequence[AllocationRequest]) -> None:
    """Raise Invalid for a provider that does not exist."""
    for uuid in (uuid for request in requests for uuid in request.resources):
        if uuid not in providers:
            raise Invalid(f"Allocation for resource provider '{uuid}' that does not exist.")


def replace_allocations(
    tx: Transaction,
    requests: Sequence[AllocationRequest],
    old: Sequence[Allocation],
    providers: ProviderIds,
    inventories: InventoriesById | None = None,
) -> None:
    """Write the requested allocations, and delete consumers without any.

    The caller has deleted the old allocations and locked the providers. Raises Conflict for a missing inventory, a
    size that the inventory does not allow, or an exceeded capacity.
    """
    new = allocation_rows(requests, providers)
    if inventories is None:
        inventories = tx.inventories.of({allocation.provider_id for allocation in new})
    check_units(new, providers, inventories)
    reject_exceeding(tx.allocations.add(new, usage_changes(new, old)), providers)
    emptied = [request.consumer for request in requests if not request.resources]
    if emptied:
        tx.allocations.delete_consumers(emptied)


def generation_increments(
    requests: Sequence[AllocationRequest], old: Sequence[Allocation], providers: ProviderIds
) -> Counter[int]:
    """Count one increment for each provider in a request, or whose allocations a consumer gives up entirely."""
    emptied = {request.consumer for request in requests if not request.resources}
    named = {providers[uuid] for request in requests for uuid in request.resources}
    return Counter(named | {allocation.provider_id for allocation in old if allocation.consumer in emptied})


def allocation_rows(requests: Sequence[AllocationRequest], providers: ProviderIds) -> list[Allocation]:
    """Return the rows of the requested allocations."""
    return [
        Allocation(request.consumer, providers[uuid], kind, amount)
        for request in requests
        for uuid, resources in request.resources.items()
        for kind, amount in resources.items()
    ]


def usage_changes(new: Sequence[Allocation], old: Sequence[Allocation]) -> list[Amount]:
    """Return the change of usage of each inventory, in lock order."""
    sums: Counter[tuple[int, str]] = Counter()
    for allocation in new:
        sums[allocation.provider_id, allocation.resource_class] += allocation.used
    for allocation in old:
        sums[allocation.provider_id, allocation.resource_class] -= allocation.used
    return [(*key, amount) for key, amount in sorted(sums.items()) if amount]


def check_units(new: Sequence[Allocation], providers: ProviderIds, inventories: InventoriesById) -> None:
    """Raise Conflict for a missing inventory, or a size that the inventory does not allow."""
    names = {provider: uuid for uuid, provider in providers.items()}
    for allocation in new:
        provider, inventory = (
            names[allocation.provider_id],
            inventories[allocation.provider_id].get(allocation.resource_class),
        )
        if inventory is None:
            raise Conflict(
                "Unable to allocate inventory: "
                f"Inventory for '{allocation.resource_class}' on resource provider '{provider}' invalid."
            )
        if not inventory.allows(allocation.used):
            unable = _unable(allocation.resource_class, provider)
            raise Conflict(f"{unable} The requested amount would violate inventory constraints.")


def reject_exceeding(exceeding: Sequence[Amount], providers: ProviderIds) -> None:
    """Raise Conflict for the first amount that exceeds the capacity."""
    for provider, kind, _ in exceeding:
        name = next(uuid for uuid, number in providers.items() if number == provider)
        raise Conflict(f"{_unable(kind, name)} The requested amount would exceed the capacity.")


def _unable(kind: str, provider: str) -> str:
    return f"Unable to allocate inventory: Unable to create allocation for '{kind}' on resource provider '{provider}'."
