"""Small writes that share a transaction, because the commit is most of their cost."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from covey.model.errors import Busy, CoveyError, TransactionConflict
from covey.request_slots import RequestSlots
from covey.services.group_commit import GroupCommit
from covey.storage.store import Store, Transaction

Q = TypeVar("Q")
A = TypeVar("A")

_ATTEMPTS = 3


def in_transaction(store: Store, change: Callable[[Transaction], A]) -> A:
    """Return what the change returns, after the commit. A conflict repeats it. Raises Busy."""
    for _ in range(_ATTEMPTS):
        try:
            with store.write() as tx:
                return change(tx)
        except TransactionConflict:
            continue
    raise Busy("Other changes of the same rows interfered. Try again in a moment.")


class SharedWrites(Generic[Q, A]):
    """Stores requests of one kind that arrive together in one transaction: `change` returns an answer for each."""

    def __init__(
        self,
        store: Store,
        request_slots: RequestSlots,
        change: Callable[[Transaction, Sequence[Q]], Sequence[A | CoveyError]],
        gather_s: Callable[[], float] | None = None,
    ) -> None:
        def stored(requests: Sequence[Q]) -> Sequence[A | CoveyError]:
            return in_transaction(store, lambda tx: change(tx, requests))

        self._commits: GroupCommit[Q, A] = GroupCommit(stored, request_slots=request_slots, gather_s=gather_s)

    def run(self, request: Q) -> A:
        """Return the answer, after the commit. Raises the error that is the answer, and Busy."""
        return self._commits.submit(request)
