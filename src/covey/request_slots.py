"""Request slots: how many requests of a process run Python at once, and how long a request may wait.

A process has many threads, because most requests wait: for a commit, for a lock, for Keystone. Only one thread at a
time runs Python, and dozens of runnable threads spend more time on switching than on requests. So a request takes a
slot, and gives it up while it waits. A waiter that is ready gets a slot first and is woken then, in order.

A request has a deadline. Whatever it waits for, it waits up to its deadline only. Requests in progress are counted: one
that comes when they occupy most of the threads is refused at once, since no deadline applies to a wait for a thread.
"""

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BUSY = "covey.busy"  # set in the environment of a request that got no slot in time


class Waiter:
    """What one thread sleeps on until another thread wakes it, once."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        self._woken = threading.Lock()
        self._woken.acquire()

    def sleep(self, timeout_s: float = math.inf) -> bool:
        """Return whether the waiter was woken in time."""
        return self._woken.acquire(timeout=-1 if math.isinf(timeout_s) else max(timeout_s, 0))

    def wake(self) -> None:
        self._woken.release()


class _Thread(threading.local):
    """What a thread holds for its request. Other threads hold nothing and have no deadline."""

    slots: "RequestSlots | None" = None
    admission: "_Admission | None" = None
    deadline: float = math.inf  # by the monotonic clock


_thread = _Thread()


def time_left() -> float:
    """Return how many seconds this thread's request may still wait; infinity outside of requests."""
    return _thread.deadline - time.monotonic()


@contextmanager
def wait_limit(seconds: float) -> Iterator[None]:
    """Limit how long this thread may wait in the block."""
    before, _thread.deadline = _thread.deadline, min(_thread.deadline, time.monotonic() + seconds)
    try:
        yield
    finally:
        _thread.deadline = before


class _DeadlinePause:
    """A block without a deadline."""

    __slots__ = ("_before", "_began")

    def __enter__(self) -> None:
        self._began, self._before = time.monotonic(), _thread.deadline
        _thread.deadline = math.inf

    def __exit__(self, *_: object) -> None:
        _thread.deadline = self._before + time.monotonic() - self._began


def deadline_paused() -> AbstractContextManager[None]:
    """Move the deadline of this thread's request by the time that the block takes. In the block there is none."""
    return _DeadlinePause()


def leave_request_count() -> None:
    """Stop counting this thread's request: threads for long polls are extra."""
    if _thread.admission is not None:
        _thread.admission.end()


def slot_released() -> AbstractContextManager[None]:
    """Give up the slot while the block runs, if this thread holds one."""
    return nullcontext() if _thread.slots is None else _thread.slots.released()


class _FrequentSwitches:
    """Lets threads take turns more often while one or more of them compute."""

    def __init__(self) -> None:
        self._computing = 0
        self._lock = threading.Lock()
        self._normal_s = sys.getswitchinterval()

    def __enter__(self) -> None:
        self._add(1)

    def __exit__(self, *_: object) -> None:
        self._add(-1)

    def _add(self, number: int) -> None:
        with self._lock:
            self._computing += number
            sys.setswitchinterval(self._normal_s / 10 if self._computing else self._normal_s)


_frequent_switches = _FrequentSwitches()


class ProjectLimit:
    """How many requests of a kind run at once in this process: in all, and of one project."""

    def __init__(self, most: int, most_of_project: int | None = None) -> None:
        self._most = most
        self._most_of_project = most if most_of_project is None else most_of_project
        self._running: dict[str | None, int] = {}
        self._total = 0
        self._lock = threading.Lock()

    def take(self, project: str | None) -> bool:
        """Count one more. Return False at a limit."""
        with self._lock:
            running = self._running.get(project, 0)
            if self._total >= self._most or running >= self._share(self._total - running):
                return False
            self._running[project] = running + 1
            self._total += 1
            return True

    def _share(self, _others: int) -> int:
        """Return the maximum for a project while `_others` requests of other projects run."""
        return self._most_of_project

    def release(self, project: str | None) -> None:
        """Count one less."""
        with self._lock:
            self._total -= 1
            self._running[project] -= 1
            if not self._running[project]:
                del self._running[project]


class FairLimit(ProjectLimit):
    """A limit for requests that clients can prolong: a project gets at most half of what others leave.

    A quarter is left to projects with none running. So a few projects together cannot keep all others out.
    """

    def _share(self, others: int) -> int:
        left = self._most * 3 // 4 - others
        return min(super()._share(others), max((left + 1) // 2, 1))


class _Admission:
    """A request that is counted until it ends."""

    __slots__ = ("_slots",)

    def __init__(self, slots: "RequestSlots") -> None:
        self._slots: RequestSlots | None = slots

    def end(self) -> None:
        """Count the request no more. Does nothing the second time."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.count_down()


class _CountedStream:
    """A response whose pieces the server fetches, in the request's thread. The request ends with it."""

    def __init__(self, pieces: Iterable[bytes], admission: _Admission) -> None:
        self._pieces = pieces
        self._iterator = iter(pieces)
        self._admission = admission

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._iterator)

    def close(self) -> None:
        try:
            if hasattr(self._pieces, "close"):
                self._pieces.close()
        finally:
            self._admission.end()


class _Released:
    """A block in which a thread has given up its slot."""

    __slots__ = ("_held", "_slots")

    def __init__(self, slots: "RequestSlots") -> None:
        self._slots = slots
        self._held = False

    def __enter__(self) -> None:
        self._held = self._slots.leave()

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._slots.enter()


class RequestSlots:
    """A number of slots, the seconds that a request may wait, and the most requests; by default without limits."""

    def __init__(self, number: int = 1 << 30, timeout_s: float = math.inf, max_requests: float = math.inf) -> None:
        self._free = number
        self._timeout_s = timeout_s
        self._max_requests = max_requests
        self._requests = 0
        self._ready: deque[Waiter] = deque()
        self._lock = threading.Lock()

    def released(self) -> AbstractContextManager[None]:
        """Give up the slot while the block runs.

        A request that gets none in time afterwards continues without one: what it waited for may be done.
        """
        return _Released(self)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Give up the slot for a long computation, which the request's deadline does not include.

        It yields the interpreter to other threads ten times as often: most of them need it for a moment only.
        """
        began = time.monotonic()
        with self.released(), _frequent_switches:
            yield
            _thread.deadline += time.monotonic() - began

    def sleep(self, waiter: Waiter) -> None:
        """Give up the slot and sleep until the waiter is woken, with a slot again if the thread had one."""
        held = self.leave()
        waiter.sleep()
        _thread.slots = self
        if not held:
            self.leave()

    def wake(self, waiter: Waiter) -> None:
        """Wake a waiter as soon as a slot is free for it."""
        with self._lock:
            if not self._free:
                self._ready.append(waiter)
                return
            self._free -= 1
        waiter.wake()

    def guard(self, app: "WSGIApplication") -> "WSGIApplication":
        """Return the application with a slot around every call.

        A call that gets none in time, or comes when there are too many, has BUSY set.
        """

        @wraps(app, assigned=())
        def guarded(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            admission = _thread.admission = self._admit()
            _thread.deadline = time.monotonic() + self._timeout_s
            if admission is None or not self.enter():
                environ[BUSY] = True
            try:
                answer = app(environ, start_response)
                if admission is None or isinstance(answer, list):
                    return answer
                stream, admission = _CountedStream(answer, admission), None
                return stream
            finally:
                self.leave()
                _thread.deadline, _thread.admission = math.inf, None
                if admission is not None:
                    admission.end()

        return guarded

    def count_down(self) -> None:
        """Count one request less."""
        with self._lock:
            self._requests -= 1

    def _admit(self) -> _Admission | None:
        """Count one more request. Return None at the limit."""
        with self._lock:
            if self._requests >= self._max_requests:
                return None
            self._requests += 1
            return _Admission(self)

    def enter(self) -> bool:
        """Take a slot. Return False if none was free before the deadline."""
        with self._lock:
            if self._free:
                self._free -= 1
                _thread.slots = self
                return True
            waiter = Waiter()
            self._ready.append(waiter)
        if not waiter.sleep(time_left()):
            with self._lock:
                if waiter in self._ready:
                    self._ready.remove(waiter)
                    return False
        _thread.slots = self  # a waiter that is no longer in the queue has got its slot
        return True

    def leave(self) -> bool:
        """Pass the slot on to the next waiter. Return False if this thread holds none."""
        if _thread.slots is not self:
            return False
        _thread.slots = None
        with self._lock:
            if not self._ready:
                self._free += 1
                return True
            waiter = self._ready.popleft()
        waiter.wake()
        return True
