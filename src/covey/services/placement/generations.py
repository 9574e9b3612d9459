"""Reads resource providers, checks their generations, and retries transactions after conflicts."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from covey.model.errors import ConcurrentUpdate, NotFound, TransactionConflict
from covey.model.providers import Provider
from covey.storage.store import Transaction

T = TypeVar("T")

_ATTEMPTS = 10
CHANGED = "Resource provider's generation already changed. Please update the generation and try again."
CONFLICT = "resource provider generation conflict"


def get_provider(tx: Transaction, uuid: str, *, lock: bool = False, reason: str = "") -> Provider:
    """Return the provider with this uuid; `lock` locks its row. Raises NotFound."""
    found = tx.providers.by_uuid(uuid, lock=lock)
    if found is None:
        raise NotFound(f"No resource provider with uuid {uuid} found{reason}")
    return found


def check_generation(provider: Provider, generation: int | None, message: str) -> None:
    """Raise ConcurrentUpdate unless the provider still has this generation; None matches any."""
    if generation is not None and generation != provider.generation:
        raise ConcurrentUpdate(message)


def retry_on_conflict(attempt: Callable[[], T]) -> T:
    """Return the result of a transaction, with up to ten attempts in case of conflicts."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(TransactionConflict):
            return attempt()
    return attempt()
