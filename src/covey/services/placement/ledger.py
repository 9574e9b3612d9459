"""The one way in which what consumers hold is rewritten: all of it or nothing, and never more than there is."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from covey.model.allocations import Allocation, AllocationRequest
from covey.model.errors import ConcurrentUpdate, Conflict, Invalid
from covey.model.providers import InventoryRecord, Provider
from covey.storage.store import Transaction

Ids = Mapping[str, int]  # of providers, by uuid
Stocks = Mapping[int, Mapping[str, InventoryRecord]]  # by the provider's id
Amount = tuple[int, str, int]  # of a provider's resource class, how much


def ids(providers: Mapping[str, Provider]) -> dict[str, int]:
    """Which ids providers have, by uuid."""
    return {uuid: provider.id for uuid, provider in providers.items()}


def refuse_stale(generations: Mapping[str, int], wanted: Sequence[AllocationRequest]) -> None:
    """Raises ConcurrentUpdate for a consumer that is not any more as the caller believes.

    Generation 0 is that of one that was made just now, for this request.
    """
    for each in wanted:
        now = generations[each.consumer] or None
        if each.checked and each.generation != now:
            raise ConcurrentUpdate(
                f"consumer generation conflict - expected {'null' if now is None else now} but got {each.generation}"
            )


def refuse_unknown(providers: Collection[str], wanted: Sequence[AllocationRequest]) -> None:
    """Raises Invalid for a provider that there is not."""
    for uuid in (uuid for each in wanted for uuid in each.resources):
        if uuid not in providers:
            raise Invalid(f"Allocation for resource provider '{uuid}' that does not exist.")


def rewrite(
    tx: Transaction,
    wanted: Sequence[AllocationRequest],
    held: Sequence[Allocation],
    providers: Ids,
    stocks: Stocks | None = None,
) -> None:
    """Writes what consumers hold from now on; those that hold nothing are forgotten.

    Consumers were renewed and providers are held already. Raises Conflict for what a provider does not have, or not
    so much of.
    """
    new = allocations(wanted, providers)
    if stocks is None:
        stocks = tx.inventories.of({each.provider_id for each in new})
    refuse_portions(new, providers, stocks)
    refuse_full(tx.allocations.add(new, amounts(new, held)), providers)
    emptied = [each.consumer for each in wanted if not each.resources]
    if emptied:
        tx.allocations.forget(emptied)


def written(wanted: Sequence[AllocationRequest], held: Sequence[Allocation], providers: Ids) -> Counter[int]:
    """Which providers' generations a request counts for: those that something is wanted of, or given up for nothing."""
    emptied = {each.consumer for each in wanted if not each.resources}
    named = {providers[uuid] for each in wanted for uuid in each.resources}
    return Counter(named | {each.provider_id for each in held if each.consumer in emptied})


def allocations(wanted: Sequence[AllocationRequest], providers: Ids) -> list[Allocation]:
    """All that consumers are to hold."""
    return [
        Allocation(each.consumer, providers[uuid], kind, amount)
        for each in wanted
        for uuid, resources in each.resources.items()
        for kind, amount in resources.items()
    ]


def amounts(new: Sequence[Allocation], held: Sequence[Allocation]) -> list[Amount]:
    """What has to be taken of each inventory, or given back, in the order in which everybody holds them."""
    sums: Counter[tuple[int, str]] = Counter()
    for each in new:
        sums[each.provider_id, each.resource_class] += each.used
    for each in held:
        sums[each.provider_id, each.resource_class] -= each.used
    return [(*key, amount) for key, amount in sorted(sums.items()) if amount]


def refuse_portions(new: Sequence[Allocation], providers: Ids, stocks: Stocks) -> None:
    """Raises Conflict for what a provider does not have, or not in such portions."""
    names = {provider: uuid for uuid, provider in providers.items()}
    for each in new:
        provider, has = names[each.provider_id], stocks[each.provider_id].get(each.resource_class)
        if has is None:
            raise Conflict(
                "Unable to allocate inventory: "
                f"Inventory for '{each.resource_class}' on resource provider '{provider}' invalid."
            )
        if not has.allows(each.used):
            raise Conflict(
                f"{_unable(each.resource_class, provider)} The requested amount would violate inventory constraints."
            )


def refuse_full(refused: Sequence[Amount], providers: Ids) -> None:
    """Raises Conflict for the first of the amounts that there was no room for."""
    for provider, kind, _ in refused:
        name = next(uuid for uuid, number in providers.items() if number == provider)
        raise Conflict(f"{_unable(kind, name)} The requested amount would exceed the capacity.")


def _unable(kind: str, provider: str) -> str:
    return f"Unable to allocate inventory: Unable to create allocation for '{kind}' on resource provider '{provider}'."
