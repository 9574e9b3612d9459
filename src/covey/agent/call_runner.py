"""Runs calls in threads: several at once, one at a time for each server."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from covey.agent.service_api import Call


class CallRunner:
    """A bounded pool. Threads are daemons: a process that ends leaves its calls to their leases."""

    def __init__(self, size: int, run: Callable[[Call, float], None]) -> None:
        """`run` gets a call and the time at which it was submitted, by the monotonic clock."""
        self._run = run
        self._size = size
        self._waiting: list[tuple[Call, float]] = []  # with the time of submission
        self._running: dict[str, Call] = {}  # by key: calls with one key exclude each other
        self._held: set[str] = set()  # servers whose calls wait
        self._changed = threading.Condition()
        for number in range(size):
            threading.Thread(target=self._work, name=f"covey-call-{number}", daemon=True).start()

    def submit(self, call: Call) -> None:
        """Queue a call. Does nothing if it is queued or runs already, with the same epoch."""
        with self._changed:
            known = [*(each for each, _ in self._waiting), *self._running.values()]
            if not any((each.id, each.epoch) == (call.id, call.epoch) for each in known):
                self._waiting.append((call, time.monotonic()))
                self._changed.notify_all()

    def wait_for_room(self, timeout_s: float) -> int:
        """Return how many calls may be submitted, after a wait for room for one."""
        with self._changed:
            self._changed.wait_for(self._room, timeout_s)
            return self._room()

    def running(self) -> list[Call]:
        with self._changed:
            return list(self._running.values())

    @contextmanager
    def holding(self, server: str) -> Iterator[bool]:
        """Keep calls away from a server while the block runs; False if one is there already."""
        with self._changed:
            free = not self._is_busy(server) and server not in self._held
            if free:
                self._held.add(server)
        try:
            yield free
        finally:
            if free:
                with self._changed:
                    self._held.discard(server)
                    self._changed.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Drop what waits, and wait for what runs. Return whether all of it ended in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._waiting.clear()
            return self._changed.wait_for(lambda: not self._running, deadline - time.monotonic())

    def _room(self) -> int:
        return max(0, self._size - len(self._waiting) - len(self._running))

    def _is_busy(self, server: str) -> bool:
        return server in self._running or any(call.server == server for call, _ in self._waiting)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next() is not None)
                found = self._next()
                assert found is not None
                call, submitted_at = found
                self._waiting.remove(found)
                self._running[_exclusion_key(call)] = call
            try:
                self._run(call, submitted_at)
            finally:
                with self._changed:
                    del self._running[_exclusion_key(call)]
                    self._changed.notify_all()

    def _next(self) -> tuple[Call, float] | None:
        """Return the first call whose server is free."""
        blocked = self._running.keys() | self._held
        return next((each for each in self._waiting if _exclusion_key(each[0]) not in blocked), None)


def _exclusion_key(call: Call) -> str:
    """Return the key under which calls exclude each other: the server's id, or a key of its own for a read."""
    return f"call {call.id}" if call.only_reads else call.server
