"""Group commit: requests that arrive together share a transaction.

The first thread becomes the leader and runs the batch of all threads that wait. When the batch is done, the leader
wakes its members and passes the lead to the first thread that arrived since. There is one leader: with two, each batch
would be half as large.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from covey.request_slots import RequestSlots, Waiter

Q = TypeVar("Q")
A = TypeVar("A")

_GATHER_DELAY_S = 0.002  # a busy leader waits for further requests: a large batch costs little more than a small one
_ENOUGH = 32  # requests; skip the gather delay once this many wait


class _Entry(Generic[Q, A]):
    """A waiting request. A thread that is woken before its entry is settled leads the next batch."""

    __slots__ = ("answer", "is_settled", "request", "waiter")

    def __init__(self, request: Q) -> None:
        self.request = request
        self.answer: A | BaseException | None = None
        self.is_settled = False
        self.waiter = Waiter()


class GroupCommit(Generic[Q, A]):
    """Collects requests and runs them together: `answer` returns an answer or error for each."""

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[A | BaseException]],
        *,
        request_slots: RequestSlots,
        largest: int = 64,
        gather_s: Callable[[], float] | None = None,
    ) -> None:
        """Every leader waits for further requests for `gather_s`; by default briefly, and only in a busy time."""
        self._answer = answer
        self._has_leader = False
        self._is_busy = False  # the last batch had several requests
        self._slots = request_slots
        self._largest = largest
        self._gather_s = gather_s or self._brief_gather_s
        self._lock = threading.Lock()
        self._waiting: list[_Entry[Q, A]] = []  # the leader, or the next one, comes first

    def submit(self, request: Q) -> A:
        """Return the answer. Raises the error of the request, or the error that failed its batch."""
        entry: _Entry[Q, A] = _Entry(request)
        with self._lock:
            self._waiting.append(entry)
            waits, self._has_leader = self._has_leader, True
        if waits:
            self._slots.sleep(entry.waiter)
        if not entry.is_settled:
            with self._slots.released():  # the leader mostly waits for the database
                self._lead()
        if isinstance(entry.answer, BaseException):
            raise entry.answer
        return entry.answer  # type: ignore[return-value]

    def _lead(self) -> None:
        if delay_s := self._gather_s():
            time.sleep(delay_s)
        with self._lock:
            self._is_busy = len(self._waiting) > 1
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        self._settle(batch)
        with self._lock:
            next_leader = self._waiting[:1]
            self._has_leader = bool(next_leader)
        for entry in (*next_leader, *batch[1:]):
            self._slots.wake(entry.waiter)

    def _brief_gather_s(self) -> float:
        return _GATHER_DELAY_S if self._is_busy and len(self._waiting) < _ENOUGH else 0.0

    def _settle(self, batch: Sequence[_Entry[Q, A]]) -> None:
        answers: Sequence[A | BaseException]
        try:
            answers = self._answer([entry.request for entry in batch])
        except BaseException as error:  # noqa: BLE001 -- every thread of the batch raises it
            answers = [error] * len(batch)
        for entry, answer in zip(batch, answers, strict=True):
            entry.answer = answer
            entry.is_settled = True
