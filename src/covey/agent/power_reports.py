"""Reports guests that ended, crashed or started by themselves to the service."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from covey.agent.hypervisor import Hypervisor, ObservedGuest
from covey.agent.service_api import ExpectedServer, PowerEvent, ServiceApi

_AFTER_S = (0.0, 2.0, 10.0, 30.0)  # the service ignores an event while the server has a task
_RUNS = {"running", "paused", "starting"}


@dataclass(slots=True)
class _Pending:
    """A guest whose power changed, and the events that are left to send."""

    due: float
    is_missing: bool = False  # the hypervisor does not have it, which counts as shut down
    sent: int = 0


@dataclass(slots=True)
class PowerReports:
    """Sends the present power of every guest that changed, and repeats it until the service's row agrees."""

    service: ServiceApi
    hypervisor: Hypervisor
    holding: Callable[[str], AbstractContextManager[bool]]  # keeps calls, which change the power themselves, away
    wake: Callable[[], None]
    fenced: Callable[[], Collection[str]]  # the guests that self-fencing has stopped; reconciliation starts them again
    _pending: dict[str, _Pending] = field(default_factory=dict)
    _unconfirmed: set[str] = field(default_factory=set)  # all events are sent, and the service may have ignored them
    _known: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)  # changed since the last look began
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def changed(self, server: str, power: str, *, is_missing: bool = False) -> None:
        """Note that a guest's power changed; called by the hypervisor."""
        with self._lock:
            self._known[server] = power
            self._changed.add(server)
            self._pending[server] = _Pending(time.monotonic(), is_missing)
        self.wake()

    def observe(self) -> list[ObservedGuest]:
        """Return all guests, and report every one whose power has changed: its event may be lost.

        Raises HypervisorFault.
        """
        with self._lock:
            self._changed.clear()
        observed = self.hypervisor.observed()
        with self._lock:
            newer = {server: self._known[server] for server in self._changed if server in self._known}
            before, self._known = self._known, {guest.id: guest.power for guest in observed} | newer
            lost = [server for server, power in self._known.items() if before.get(server, "running") != power]
            self._pending.update((server, _Pending(time.monotonic())) for server in lost)
        if lost:
            self.wake()
        return observed

    def confirm(self, observed: Sequence[ObservedGuest]) -> None:
        """Compare guests whose events are sent with the service's rows, and report again what does not agree.

        Raises what the service's API raises.
        """
        with self._lock:
            unsure = frozenset(self._unconfirmed)
        if not unsure:
            return
        rows = {row.guest.id: row for row in self.service.servers()}
        powers = {guest.id: guest.power for guest in observed}
        for server in unsure:
            row, power = rows.get(server), powers.get(server, "shutdown")
            if row is not None and not _is_settled(row):
                continue
            with self._lock:
                self._unconfirmed.discard(server)
            if row is not None and (row.guest.power == "running") != (power in _RUNS):
                self.changed(server, power, is_missing=server not in powers)

    def send(self) -> None:
        """Send the events that are due. Raises HypervisorFault, ServiceUnavailable, Refused, UnknownHost."""
        now = time.monotonic()
        with self._lock:
            due = {server: each.is_missing for server, each in self._pending.items() if each.due <= now}
        if not due:
            return
        with self._held(due) as free:  # so that no event is older than a call that has ended
            if free:
                self._send({server: due[server] for server in free}, now)

    @contextmanager
    def _held(self, servers: Iterable[str]) -> Iterator[list[str]]:
        """Keep calls away from these servers; return those that have none now."""
        with ExitStack() as stack:
            yield [server for server in servers if stack.enter_context(self.holding(server))]

    def _send(self, due: Mapping[str, bool], now: float) -> None:
        observed = {server: ObservedGuest(server, "shutdown", 0) for server, is_missing in due.items() if is_missing}
        observed |= {guest.id: guest for guest in self.hypervisor.observed() if guest.power != "starting"}
        reported = due.keys() - self.fenced()  # looked up last: each is remembered before it is stopped
        events = [PowerEvent(*observed[server]) for server in sorted(reported & observed.keys())]
        if events:
            self.service.events(events)
        with self._lock:
            for server in reported:
                self._count(server, now, is_here=server in observed)

    def _count(self, server: str, now: float, *, is_here: bool) -> None:
        """Schedule the next event of a guest, or drop it."""
        pending = self._pending.get(server)
        if pending is None or pending.due > now:  # it changed again
            return
        pending.sent += 1
        if pending.sent >= len(_AFTER_S) or not is_here:
            del self._pending[server]
            if is_here:
                self._unconfirmed.add(server)
        else:
            pending.due = now + _AFTER_S[pending.sent]


def _is_settled(row: ExpectedServer) -> bool:
    """Whether the service takes power events of a server: no call has it."""
    return row.task is None and row.location == "here"
