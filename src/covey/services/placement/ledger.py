"""The one way in which what consumers hold is rewritten: all of it or nothing, and never more than there is."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from covey.model.allocations import Allocation, Wanted
from covey.model.errors import ConcurrentUpdate, Conflict, Invalid
from covey.model.providers import InventoryRecord, Provider
from covey.ports import Transaction

Ids = Mapping[str, int]  # of providers, by uuid
Stocks = Mapping[int, Mapping[str, InventoryRecord]]  # by the provider's id


def ids(providers: Mapping[str, Provider]) -> dict[str, int]:
    """Which ids providers have, by uuid."""
    return {uuid: provider.id for uuid, provider in providers.items()}


def refuse_stale(generations: Mapping[str, int], wanted: Sequence[Wanted]) -> None:
    """Raises ConcurrentUpdate for a consumer that is not any more as the caller believes.

    Generation 0 is that of one that was made just now, for this request.
    """
    for each in wanted:
        now = generations[each.consumer] or None
        if each.checked and each.generation != now:
            message = f"consumer generation conflict - expected {'null' if now is None else now} "
            message += f"but got {each.generation}"
            raise ConcurrentUpdate(message)


def refuse_unknown(providers: Collection[str], wanted: Sequence[Wanted]) -> None:
    """Raises Invalid for a provider that there is not."""
    for uuid in (uuid for each in wanted for uuid in each.resources):
        if uuid not in providers:
            message = f"Allocation for resource provider '{uuid}' that does not exist."
            raise Invalid(message)


def rewrite(
    tx: Transaction,
    wanted: Sequence[Wanted],
    held: Sequence[Allocation],
    providers: Ids,
    now: datetime,
    stocks: Stocks | None = None,
) -> Counter[int]:
    """Writes what consumers hold from now on; tells which providers' generations that counts for.

    Consumers and providers are held already, and so are inventories that are given. Raises Conflict for what a
    provider does not have, or not so much of.
    """
    new = list(_allocations(wanted, providers))
    names = {provider: uuid for uuid, provider in providers.items()}
    if stocks is None:
        stocks = tx.inventories.of({each.provider_id for each in (*held, *new)}, lock=True)
    for each in new:
        _refuse_portion(each, stocks, names)
    sums: Counter[tuple[int, str]] = Counter()
    for each in new:
        sums[each.provider_id, each.resource_class] += each.used
    for each in held:
        sums[each.provider_id, each.resource_class] -= each.used
    amounts = [(*key, amount) for key, amount in sorted(sums.items()) if amount]
    refused = tx.allocations.replace(wanted, new, now, amounts)
    if refused:
        provider, kind, _ = refused[0]
        raise Conflict(f"{_unable(kind, names[provider])} The requested amount would exceed the capacity.")
    emptied = {each.consumer for each in wanted if not each.resources}
    return Counter({each.provider_id for each in new} | {each.provider_id for each in held if each.consumer in emptied})


def _allocations(wanted: Sequence[Wanted], providers: Ids) -> Iterator[Allocation]:
    for each in wanted:
        for uuid, resources in each.resources.items():
            for kind, amount in resources.items():
                yield Allocation(each.consumer, providers[uuid], kind, amount)


def _refuse_portion(new: Allocation, stocks: Stocks, names: Mapping[int, str]) -> None:
    provider = names[new.provider_id]
    has = stocks[new.provider_id].get(new.resource_class)
    if has is None:
        message = "Unable to allocate inventory: "
        message += f"Inventory for '{new.resource_class}' on resource provider '{provider}' invalid."
        raise Conflict(message)
    if not has.gives(new.used):
        message = f"{_unable(new.resource_class, provider)} "
        message += "The requested amount would violate inventory constraints."
        raise Conflict(message)


def _unable(kind: str, provider: str) -> str:
    return f"Unable to allocate inventory: Unable to create allocation for '{kind}' on resource provider '{provider}'."
