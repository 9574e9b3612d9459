"""Group commit: requests that arrive together share a transaction.

A thread that asks becomes the leader if there is none, and works for everybody who is waiting. When it is done it hands
the lead to the first of those who came meanwhile, and wakes the ones that it worked for. There is one leader: with two,
each batch would be half as large.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from covey.request_slots import RequestSlots, Waiter

Q = TypeVar("Q")
A = TypeVar("A")

_GATHER_S = 0.002  # a batch costs little more for many than for few, so a busy leader lets a few more gather,
_ENOUGH = 8  # unless so many wait already


class _Entry(Generic[Q, A]):
    """Somebody who waits. Who is woken and has no answer leads."""

    __slots__ = ("answer", "asked", "is_settled", "waiter")

    def __init__(self, asked: Q) -> None:
        self.asked = asked
        self.answer: A | BaseException | None = None
        self.is_settled = False
        self.waiter = Waiter()


class GroupCommit(Generic[Q, A]):
    """Collects questions and answers them together; `answer` gets several and gives as many answers or errors."""

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[A | BaseException]],
        *,
        request_slots: RequestSlots,
        largest: int = 64,
    ) -> None:
        self._answer = answer
        self._has_leader = False
        self._is_busy = False  # several asked at once, a moment ago
        self._slots = request_slots
        self._largest = largest
        self._lock = threading.Lock()
        self._waiting: list[_Entry[Q, A]] = []  # the one who leads, or is about to, comes first

    def ask(self, question: Q) -> A:
        """Wait for the answer, or lead the batch that brings it. Raises what answering raised."""
        mine: _Entry[Q, A] = _Entry(question)
        with self._lock:
            self._waiting.append(mine)
            waits, self._has_leader = self._has_leader, True
        if waits:
            self._slots.sleep(mine.waiter)
        if not mine.is_settled:
            with self._slots.aside():  # it waits for the database most of the time
                self._lead()
        if isinstance(mine.answer, BaseException):
            raise mine.answer
        return mine.answer  # type: ignore[return-value]

    def _lead(self) -> None:
        if self._is_busy and len(self._waiting) < _ENOUGH:
            time.sleep(_GATHER_S)
        with self._lock:
            self._is_busy = len(self._waiting) > 1
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        self._settle(batch)
        with self._lock:
            heirs = self._waiting[:1]
            self._has_leader = bool(heirs)
        for entry in (*heirs, *batch[1:]):
            self._slots.wake(entry.waiter)

    def _settle(self, batch: Sequence[_Entry[Q, A]]) -> None:
        answers: Sequence[A | BaseException]
        try:
            answers = self._answer([entry.asked for entry in batch])
        except BaseException as error:  # noqa: BLE001 -- it is everybody's, and each waiting thread raises it
            answers = [error] * len(batch)
        for entry, answer in zip(batch, answers, strict=True):
            entry.answer = answer
            entry.is_settled = True
