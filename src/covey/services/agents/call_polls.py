"""Long polls: agents that wait for calls hold no request slot and no transaction."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from covey.model.agents import TakenCall
from covey.model.errors import Busy, CoveyError
from covey.model.ids import HostId
from covey.request_slots import Waiter, deadline_paused, leave_request_count, slot_released
from covey.services.agents.guests import complete
from covey.services.agents.shared_writes import in_transaction
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_INTERVAL_S = 0.1
_LINGER_S = 5.0  # the thread that reads calls ends this long after the last poll
_PAUSE_S = 1.0  # after an error
_RETRY_AFTER_S = 5
_MANY = 200  # agents
_POLLS_OF_HOST = 2  # its agent has one; the connection of another may be lost


@dataclass(slots=True, eq=False)
class _Poll:
    """An agent that waits for up to `limit` calls. It is woken once."""

    host: HostId
    limit: int
    calls: list[TakenCall] = field(default_factory=list)
    is_reserved: bool = False  # a transaction stores calls for it, and wakes it at its end
    waiter: Waiter = field(default_factory=Waiter)


@dataclass(slots=True)
class CallPolls:
    """The polls of a process.

    A call that this process stores goes to a waiting poll at once. One thread reads the calls of other processes for
    all polls.
    """

    store: Store
    call_lease_s: float
    max_waiting: int = 1000
    stopping: threading.Event = field(default_factory=threading.Event)  # set at shutdown
    _waiting: dict[HostId, list[_Poll]] = field(default_factory=dict)  # the newest of a host is the last
    _number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looking: bool = False

    def __len__(self) -> int:
        return self._number

    def gather_s(self, most_s: float) -> float:
        """Return how long to wait for changes of other agents that share a transaction: the longer, the more wait."""
        return min(self._number / _MANY, 1.0) * most_s

    def wait(self, host: HostId, timeout_s: float, limit: int) -> list[TakenCall]:
        """Return calls for the agent of a host, leased to it; none after the wait. Raises Busy at the limit.

        Another poll of the host beyond two ends the oldest one: one agent does not occupy the threads of the others.
        """
        poll = _Poll(host, limit)
        with self._lock:
            of_host = self._waiting.get(host, [])
            if len(of_host) >= _POLLS_OF_HOST:
                self._reserve(of_host[0]).waiter.wake()
            if self._number >= self.max_waiting:
                raise Busy("Too many agents wait for calls. Retry in a few seconds.", _RETRY_AFTER_S)
            self._waiting.setdefault(host, []).append(poll)
            self._number += 1
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._look, name="covey-agent-calls", daemon=True).start()
        leave_request_count()
        with slot_released(), deadline_paused():
            if not poll.waiter.sleep(timeout_s) and not self._leave(poll):
                poll.waiter.sleep()  # until the transaction ends that stores calls for it
        return poll.calls

    def end(self, host: HostId) -> None:
        """End the polls of a host without calls: its agent has started again, and those before it are lost."""
        with self._lock:
            for poll in list(self._waiting.get(host, ())):
                self._reserve(poll).waiter.wake()

    def take(self, limits: dict[HostId, int]) -> list[TakenCall]:
        """Return calls that wait in the database, leased to the agents of these hosts, up to a limit for each."""

        def taken(tx: Transaction) -> list[TakenCall]:
            calls = tx.agent_calls.take(limits, self.call_lease_s)
            guests = complete(tx, [call.guest for call in calls])
            return [call._replace(guest=guest) for call, guest in zip(calls, guests, strict=True)]

        return in_transaction(self.store, taken)

    @contextmanager
    def handing_out(self) -> Iterator["Handout"]:
        """Let polls wait for the end of the block, and give them the calls that it adds. An error gives them none."""
        handout = Handout(self)
        try:
            yield handout
        except BaseException:
            handout.begin()
            raise
        finally:
            for poll in handout.reserved.values():
                poll.waiter.wake()

    def reserve(self, host: HostId) -> _Poll | None:
        """Return a poll for the host which no other thread gives calls to; None if no agent waits."""
        with self._lock:
            polls = self._waiting.get(host)
            return self._reserve(polls[-1]) if polls else None

    def _reserve(self, poll: _Poll) -> _Poll:
        polls = self._waiting[poll.host]
        polls.remove(poll)
        if not polls:
            del self._waiting[poll.host]
        self._number -= 1
        poll.is_reserved = True
        return poll

    def _leave(self, poll: _Poll) -> bool:
        """End the wait. Return False if a transaction stores calls for the poll."""
        with self._lock:
            return not poll.is_reserved and self._reserve(poll) is poll

    def _look(self) -> None:
        """Give polls the calls in the database, until no agent has waited for a while, or at the shutdown."""
        idle_since = time.monotonic()
        while not self.stopping.wait(_INTERVAL_S):
            with self._lock:
                if self._waiting:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > _LINGER_S:
                    self._looking = False
                    return
            try:
                self._find()
            except CoveyError as error:
                log.warning("agents.calls_not_read", reason=error.message)
                self.stopping.wait(_PAUSE_S)
            except Exception:  # without this thread, no poll gets the calls of other processes
                log.exception("agents.calls_not_read")
                self.stopping.wait(_PAUSE_S)
        with self._lock:
            self._looking = False
            for poll in [poll for polls in self._waiting.values() for poll in polls]:
                self._reserve(poll).waiter.wake()

    def _find(self) -> None:
        with self.store.read_once() as tx:
            hosts = tx.agent_calls.hosts_with_calls()
        with self.handing_out() as handout:
            limits = {host: room for host in hosts if (room := handout.room(host))}
            for call in self.take(limits) if limits else ():
                handout.add(call)


class Handout:
    """Calls for polls that wait. A poll that it has reserved waits until the end of the block."""

    def __init__(self, polls: CallPolls) -> None:
        self._polls = polls
        self.reserved: dict[HostId, _Poll] = {}
        self._room: dict[HostId, int] = {}

    def begin(self) -> None:
        """Forget the calls: the transaction that stores them is repeated, or has failed."""
        for host, poll in self.reserved.items():
            poll.calls.clear()
            self._room[host] = poll.limit

    def room(self, host: HostId) -> int:
        """Return how many more calls the host's agent takes now."""
        if host not in self.reserved:
            poll = self._polls.reserve(host)
            if poll is None:
                return 0
            self.reserved[host], self._room[host] = poll, poll.limit
        return self._room[host]

    def accepts(self, host: HostId) -> bool:
        """Return whether the host's agent takes one more call, which the caller then adds."""
        room = self.room(host)
        if room:
            self._room[host] = room - 1
        return room > 0

    def add(self, call: TakenCall) -> None:
        """Give a call to the poll of its host."""
        self.reserved[call.host_id].calls.append(call)
