"""Group commit: requests that arrive together share a transaction.

A thread that asks becomes the leader if there is none, and works for everybody who is waiting. When it is
done it wakes just those, and hands the lead to the first of the next ones.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class _Entry(Generic[Q, A]):
    """Somebody who waits. It may be told to lead, its question may be settled, and even both."""

    __slots__ = ("answer", "asked", "leads", "settled", "woken")

    def __init__(self, asked: Q) -> None:
        self.asked = asked
        self.answer: A | BaseException | None = None
        self.leads = False
        self.settled = False
        self.woken = threading.Event()


class Batches(Generic[Q, A]):
    """Collects questions and answers them together; `answer` gets several and gives as many answers or errors."""

    def __init__(
        self, answer: Callable[[Sequence[Q]], Sequence[A | BaseException]], *, leaders: int, largest: int = 64
    ) -> None:
        self._answer = answer
        self._free_leaders = leaders
        self._largest = largest
        self._lock = threading.Lock()
        self._waiting: list[_Entry[Q, A]] = []

    def ask(self, question: Q) -> A:
        """Wait for the answer, or lead the batch that brings it. Raises what answering raised."""
        mine: _Entry[Q, A] = _Entry(question)
        with self._lock:
            self._waiting.append(mine)
            mine.leads = self._free_leaders > 0
            if mine.leads:
                self._free_leaders -= 1
        while True:
            if mine.leads:
                mine.leads = False
                self._lead()
            elif mine.settled:
                break
            else:
                mine.woken.wait()
                mine.woken.clear()
        if isinstance(mine.answer, BaseException):
            raise mine.answer
        return mine.answer  # type: ignore[return-value]

    def _lead(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        if batch:
            self._settle(batch)
        with self._lock:
            # Not one who was told to lead already and has not woken up yet: one of the two leads would be lost.
            heir = next((entry for entry in self._waiting if not entry.leads), None)
            if heir is None:
                self._free_leaders += 1
            else:
                heir.leads = True
                heir.woken.set()

    def _settle(self, batch: Sequence[_Entry[Q, A]]) -> None:
        answers: Sequence[A | BaseException]
        try:
            answers = self._answer([entry.asked for entry in batch])
        except BaseException as error:  # noqa: BLE001 -- it is everybody's, and each waiting thread raises it
            answers = [error] * len(batch)
        for entry, answer in zip(batch, answers, strict=True):
            entry.answer = answer
            entry.settled = True
            entry.woken.set()
