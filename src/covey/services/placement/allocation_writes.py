"""Writes allocations: replaces those of consumers, within the capacity and units of inventories."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from covey.model.allocations import Allocation, AllocationRequest
from covey.model.errors import ConcurrentUpdate, Conflict, Invalid
from covey.model.providers import InventoryRecord, Provider
from covey.storage.store import Transaction

ProviderIds = Mapping[str, int]  # by uuid
InventoriesById = Mapping[int, Mapping[str, InventoryRecord]]  # by the provider's id
Amount = tuple[int, str, int]  # (provider id, resource class, amount)


def provider_ids(providers: Mapping[str, Provider]) -> dict[str, int]:
    """Return the ids of providers by uuid."""
    return {uuid: provider.id for uuid, provider in providers.items()}


def check_consumer_generations(generations: Mapping[str, int], wanted: Sequence[AllocationRequest]) -> None:
    """Raise ConcurrentUpdate for a consumer whose generation is not the one in the request.

    Generation 0 marks a consumer that this request creates.
    """
    for each in wanted:
        now = generations[each.consumer] or None
        if each.checked and each.generation != now:
            raise ConcurrentUpdate(
                f"consumer generation conflict - expected {'null' if now is None else now} but got {each.generation}"
            )


def check_providers_exist(providers: Collection[str], wanted: Sequence[AllocationRequest]) -> None:
    """Raise Invalid for a provider that does not exist."""
    for uuid in (uuid for each in wanted for uuid in each.resources):
        if uuid not in providers:
            raise Invalid(f"Allocation for resource provider '{uuid}' that does not exist.")


def replace_allocations(
    tx: Transaction,
    wanted: Sequence[AllocationRequest],
    held: Sequence[Allocation],
    providers: ProviderIds,
    inventories: InventoriesById | None = None,
) -> None:
    """Write the requested allocations, and delete consumers without any.

    The caller has deleted the old allocations and locked the providers. Raises Conflict for a missing inventory, a
    size that the inventory does not allow, or an exceeded capacity.
    """
    new = allocation_rows(wanted, providers)
    if inventories is None:
        inventories = tx.inventories.of({each.provider_id for each in new})
    check_units(new, providers, inventories)
    reject_exceeding(tx.allocations.add(new, usage_changes(new, held)), providers)
    emptied = [each.consumer for each in wanted if not each.resources]
    if emptied:
        tx.allocations.forget(emptied)


def generation_increments(
    wanted: Sequence[AllocationRequest], held: Sequence[Allocation], providers: ProviderIds
) -> Counter[int]:
    """Count one increment for each provider in a request, or whose allocations a consumer gives up entirely."""
    emptied = {each.consumer for each in wanted if not each.resources}
    named = {providers[uuid] for each in wanted for uuid in each.resources}
    return Counter(named | {each.provider_id for each in held if each.consumer in emptied})


def allocation_rows(wanted: Sequence[AllocationRequest], providers: ProviderIds) -> list[Allocation]:
    """Return the rows of the requested allocations."""
    return [
        Allocation(each.consumer, providers[uuid], kind, amount)
        for each in wanted
        for uuid, resources in each.resources.items()
        for kind, amount in resources.items()
    ]


def usage_changes(new: Sequence[Allocation], held: Sequence[Allocation]) -> list[Amount]:
    """Return the change of usage of each inventory, in lock order."""
    sums: Counter[tuple[int, str]] = Counter()
    for each in new:
        sums[each.provider_id, each.resource_class] += each.used
    for each in held:
        sums[each.provider_id, each.resource_class] -= each.used
    return [(*key, amount) for key, amount in sorted(sums.items()) if amount]


def check_units(new: Sequence[Allocation], providers: ProviderIds, inventories: InventoriesById) -> None:
    """Raise Conflict for a missing inventory, or a size that the inventory does not allow."""
    names = {provider: uuid for uuid, provider in providers.items()}
    for each in new:
        provider, inventory = names[each.provider_id], inventories[each.provider_id].get(each.resource_class)
        if inventory is None:
            raise Conflict(
                "Unable to allocate inventory: "
                f"Inventory for '{each.resource_class}' on resource provider '{provider}' invalid."
            )
        if not inventory.allows(each.used):
            raise Conflict(
                f"{_unable(each.resource_class, provider)} The requested amount would violate inventory constraints."
            )


def reject_exceeding(exceeding: Sequence[Amount], providers: ProviderIds) -> None:
    """Raise Conflict for the first amount that exceeds the capacity."""
    for provider, kind, _ in exceeding:
        name = next(uuid for uuid, number in providers.items() if number == provider)
        raise Conflict(f"{_unable(kind, name)} The requested amount would exceed the capacity.")


def _unable(kind: str, provider: str) -> str:
    return f"Unable to allocate inventory: Unable to create allocation for '{kind}' on resource provider '{provider}'."
