"""Self-fencing: a host that has lost the service stops its guests before they may start elsewhere."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong

import structlog

from covey.agent.hypervisor import Hypervisor, HypervisorFault, ObservedGuest
from covey.agent.state_directory import StateDirectory, boot_time_s

log = structlog.get_logger()

_CHECK_INTERVAL_S = 0.2
_HYPERVISOR_TIMEOUT_S = 2.0  # for the hypervisor; the service allows 10 s in all
_AT_ONCE = 16
_MAY_RUN = {"running", "paused", "starting"}


class SelfFencing:
    """Knows the last contact with the service, and stops all guests `limit_s` after it.

    A contact counts from before its request was sent, so the agent's time ends before that of the service. It is kept
    in the state directory, so it also counts for the next agent. Without a limit, guests run on.
    """

    def __init__(
        self,
        hypervisor: Hypervisor,
        state: StateDirectory,
        limit_s: float | None,
        clock: Callable[[], float] = boot_time_s,
        is_over: Callable[[], bool] = lambda: True,
    ) -> None:
        """Stop guests only while `is_over` too: another process may have contact again."""
        self.limit_s = limit_s
        self._is_over = is_over
        self._hypervisor = hypervisor
        self._state = state
        self._clock = clock
        self._engaged = threading.Event()
        self._pass = threading.Lock()  # one pass over the guests at a time
        self._remembering = threading.Lock()
        self._asked: Future[None] | None = None  # the hypervisor's answer, which may never come
        last = state.last_contact() if limit_s else None
        self._contact = clock() if last is None else last

    @property
    def is_engaged(self) -> bool:
        """Whether the time is over; until the agent has reconciled with the service."""
        return self._engaged.is_set()

    @property
    def silence_s(self) -> float:
        """The time since the last contact."""
        return self._clock() - self._contact

    def now(self) -> float:
        """Return the time, to be taken before a request is sent."""
        return self._clock()

    def contact(self, sent_at: float) -> None:
        """Record that the service answered a request that was sent at this time."""
        self._contact = max(self._contact, sent_at)
        if self.limit_s:
            self._state.save_contact(self._contact)

    def disarm(self) -> None:
        """Stop no guest any more: the service has taken back the host's self-fencing lease."""
        self.limit_s = None
        self._state.forget_contact()

    def check(self) -> None:
        """Stop all guests if the time is over, and again while it is: a call may have started one in between.

        Raises HypervisorFault unless the hypervisor itself says that no guest runs.
        """
        if self.limit_s and self.silence_s >= self.limit_s and not self.is_engaged:
            self._engaged.set()
            log.error("self_fencing.engaged", silence_s=round(self.silence_s, 1), limit_s=self.limit_s)
        if self.is_engaged:
            with self._pass:
                if self.is_engaged:
                    self._stop_guests()

    def release(self) -> None:
        """Let guests run again. The caller has contact with the service, and starts only those that belong here.

        Raises HypervisorFault while an earlier request to stop guests is unanswered.
        """
        with self._pass:
            if self.is_engaged:
                if self._asked is not None and not self._asked.done():
                    raise HypervisorFault("The hypervisor still stops guests.")
                self._engaged.clear()
                log.info("self_fencing.released")

    def cancel(self) -> None:
        """Stop no more guests, even when a hypervisor answers an earlier request only now."""
        self._engaged.clear()

    def resumed(self) -> frozenset[str]:
        """Return the guests that were stopped, and run again if the service still has them here."""
        return self._state.fenced()

    def forget(self) -> None:
        """Forget the guests that were stopped: they run again, or do not belong here."""
        if self._state.fenced():
            self._state.save_fenced(())

    def run(self, stopping: threading.Event, end: Callable[[], None]) -> None:
        """Check until the agent stops. Call `end` when guests had to be stopped, once for each loss of contact."""
        logged, was_engaged = None, self.is_engaged
        while not stopping.wait(_CHECK_INTERVAL_S):
            try:
                self.check()
                logged = None
            except HypervisorFault as fault:
                if fault.message != logged:
                    logged = fault.message
                    log.warning("self_fencing.failed", reason=fault.message)
            if self.is_engaged and not was_engaged:
                end()
            was_engaged = self.is_engaged

    def _stop_guests(self) -> None:
        """Let the hypervisor stop all guests, and kill those that it does not stop in time: it may hang, or be dead."""
        timeout_s = 0.0  # an earlier question is still open
        if self._asked is None or self._asked.done():
            self._asked, timeout_s = _started(self._ask), _HYPERVISOR_TIMEOUT_S
        try:
            self._asked.result(timeout_s)
        except TookTooLong as error:
            self._kill_guests()
            raise HypervisorFault(
                "The hypervisor does not answer; the guests are killed by their processes."
            ) from error
        except HypervisorFault:
            self._kill_guests()
            raise

    def _ask(self) -> None:
        running = [guest for guest in self._hypervisor.observed() if guest.power in _MAY_RUN]
        if running and self._is_over():
            self._remember(guest.id for guest in running)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                _raise_first(pool.map(self._stop, running))

    def _kill_guests(self) -> None:
        running = self._hypervisor.processes()
        if running and self._is_over():
            self._remember(running)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                _raise_first(pool.map(self._kill, running))

    def _remember(self, servers: Iterable[str]) -> None:
        """Keep the guests that are stopped. If the disk is full they are stopped nevertheless, and become SHUTOFF."""
        with self._remembering:
            try:
                self._state.save_fenced(self._state.fenced() | set(servers))
            except OSError as error:
                log.error("fencing.not_recorded", reason=str(error))  # noqa: TRY400 -- expected

    def _stop(self, guest: ObservedGuest) -> HypervisorFault | None:
        if not self.is_engaged or not self._is_over():  # since the hypervisor was asked
            return None
        try:
            self._hypervisor.power(guest.id, "stop_hard", guest.epoch)
        except HypervisorFault as fault:
            return fault
        log.warning("self_fencing.stopped", server=guest.id)
        return None

    def _kill(self, server: str) -> HypervisorFault | None:
        if not self._is_over():
            return None
        try:
            self._hypervisor.kill(server)
        except HypervisorFault as fault:
            return fault
        log.warning("self_fencing.killed", server=server)
        return None


def _started(task: Callable[[], None]) -> Future[None]:
    """Run a task in a daemon thread, so that it does not delay the end of the process."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 -- the caller raises it
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="covey-stops-guests", daemon=True).start()
    return future


def _raise_first(outcomes: Iterable[HypervisorFault | None]) -> None:
    for fault in list(outcomes):
        if fault is not None:
            raise fault
