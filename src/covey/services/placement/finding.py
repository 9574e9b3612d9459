"""What every use case of the ledger begins with: the provider that is meant, and another try after a lost race."""

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


def existing(tx: Transaction, uuid: str, *, lock: bool = False, reason: str = "") -> Provider:
    """The provider with that uuid; held, when it is to be changed. Raises NotFound."""
    found = tx.providers.by_uuid(uuid, lock=lock)
    if found is None:
        raise NotFound(f"No resource provider with uuid {uuid} found{reason}")
    return found


def expect(provider: Provider, generation: int | None, otherwise: str) -> None:
    """Raises ConcurrentUpdate unless the provider is of that generation still; None is any."""
    if generation is not None and generation != provider.generation:
        raise ConcurrentUpdate(otherwise)


def retried(attempt: Callable[[], T]) -> T:
    """What a transaction gives, tried again a few times when the database says that others were in its way."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(TransactionConflict):
            return attempt()
    return attempt()
