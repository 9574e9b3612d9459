"""Group commit: requests that arrive together share a transaction.

A thread that asks becomes the leader if there is none, and works for everybody who is waiting. When it is
done it wakes just those, and hands the lead to the first of the next ones.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from covey.lanes import Lanes, Nap

Q = TypeVar("Q")
A = TypeVar("A")

_GATHER_S = 0.002  # a batch costs the same for one as for many, so a busy leader lets a few more gather


class _Entry(Generic[Q, A]):
    """Somebody who waits. It may be told to lead, its question may be settled, and even both."""

    __slots__ = ("answer", "asked", "leads", "nap", "settled")

    def __init__(self, asked: Q) -> None:
        self.asked = asked
        self.answer: A | BaseException | None = None
        self.leads = False
        self.settled = False
        self.nap: Nap | None = None


class Batches(Generic[Q, A]):
    """Collects questions and answers them together; `answer` gets several and gives as many answers or errors."""

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[A | BaseException]],
        *,
        leaders: int,
        lanes: Lanes,
        largest: int = 64,
    ) -> None:
        self._answer = answer
        self._leaders = leaders
        self._leading = 0
        self._is_busy = False  # several asked at once, a moment ago
        self._lanes = lanes
        self._largest = largest
        self._lock = threading.Lock()
        self._waiting: list[_Entry[Q, A]] = []

    def ask(self, question: Q) -> A:
        """Wait for the answer, or lead the batch that brings it. Raises what answering raised."""
        mine: _Entry[Q, A] = _Entry(question)
        with self._lock:
            self._waiting.append(mine)
            if self._needs_leader():
                mine.leads = True
                self._leading += 1
        while mine.leads or not mine.settled:
            if mine.leads:
                mine.leads = False
                with self._lanes.aside():  # it waits for the database most of the time
                    self._lead()
            else:
                self._wait(mine)
        if isinstance(mine.answer, BaseException):
            raise mine.answer
        return mine.answer  # type: ignore[return-value]

    def _needs_leader(self) -> bool:
        return self._leading < self._leaders

    def _wait(self, mine: _Entry[Q, A]) -> None:
        with self._lock:
            if mine.leads or mine.settled:
                return
            mine.nap = nap = Nap()
        self._lanes.sleep(nap)

    def _wake(self, entry: _Entry[Q, A]) -> None:
        if entry.nap is not None:
            nap, entry.nap = entry.nap, None
            self._lanes.wake(nap)

    def _lead(self) -> None:
        if self._is_busy:
            time.sleep(_GATHER_S)
        with self._lock:
            self._is_busy = len(self._waiting) > 1
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        if batch:
            self._settle(batch)
        with self._lock:
            self._leading -= 1
            # Not one who was told to lead already and has not woken up yet: one of the two leads would be lost.
            heir = next((entry for entry in self._waiting if not entry.leads), None)
            if heir is not None and self._needs_leader():
                self._leading += 1
                heir.leads = True
                self._wake(heir)

    def _settle(self, batch: Sequence[_Entry[Q, A]]) -> None:
        answers: Sequence[A | BaseException]
        try:
            answers = self._answer([entry.asked for entry in batch])
        except BaseException as error:  # noqa: BLE001 -- it is everybody's, and each waiting thread raises it
            answers = [error] * len(batch)
        with self._lock:
            for entry, answer in zip(batch, answers, strict=True):
                entry.answer = answer
                entry.settled = True
                self._wake(entry)
