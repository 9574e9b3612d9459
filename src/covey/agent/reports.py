"""Reports of calls to the service: their leases, their progress, and their outcomes."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from covey.agent.hypervisor import Hypervisor, HypervisorFault, Progress
from covey.agent.retries import Backoff
from covey.agent.service_api import Call, Conflict, ServiceApi, UnknownHost
from covey.agent.transport import Refused, ServiceUnavailable

log = structlog.get_logger()

_TICK_S = 1.0


@dataclass(slots=True)
class Reports:
    """Renews the leases of running calls at a third of their time, and those of migrations every second."""

    service: ServiceApi
    hypervisor: Hypervisor
    stopping: threading.Event
    lease_s: Callable[[], float]
    _renewed: dict[tuple[int | str, int], float] = field(default_factory=dict)  # calls under way, by id and epoch
    _calls: dict[tuple[int | str, int], Call] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, call: Call, taken_at: float) -> bool:
        """Renew the lease of a call while it runs. Return False if the call has another epoch."""
        if time.monotonic() - taken_at > self.lease_s() / 3 and not self._deliver(call, "running"):
            return False
        with self._lock:
            self._calls[call.id, call.epoch] = call
            self._renewed[call.id, call.epoch] = time.monotonic()
        return True

    def end(self, call: Call, *, result: str | None = None, error: str | None = None) -> None:
        """Report the outcome until the service answers. The service drops that of an old epoch."""
        self.abandon(call)
        self._deliver(call, "done" if error is None else "failed", result=result, error=error)

    def abandon(self, call: Call) -> None:
        """Stop renewing a call."""
        with self._lock:
            self._calls.pop((call.id, call.epoch), None)
            self._renewed.pop((call.id, call.epoch), None)

    def run(self) -> None:
        """Renew leases until the agent stops."""
        while not self.stopping.wait(_TICK_S):
            now = time.monotonic()
            with self._lock:
                calls = [
                    call
                    for key, call in self._calls.items()
                    if call.verb == "migrate" or now - self._renewed[key] >= self.lease_s() / 3
                ]
            for call in calls:
                self._renew(call)

    def _renew(self, call: Call) -> None:
        try:
            abort = self.service.report(call, "running", progress=self._progress(call))
        except Conflict:  # its outcome is dropped; a migration would still change where the guest is
            self.abandon(call)
            if call.verb == "migrate":
                self._abort(call)
        except (ServiceUnavailable, UnknownHost, Refused) as error:
            log.warning("call.not_renewed", call=call.id, server=call.server, reason=str(error))
        else:
            with self._lock:
                if (call.id, call.epoch) in self._renewed:
                    self._renewed[call.id, call.epoch] = time.monotonic()
            if abort:
                self._abort(call)

    def _progress(self, call: Call) -> Progress | None:
        try:
            return self.hypervisor.progress(call.server) if call.verb == "migrate" else None
        except HypervisorFault:
            return None

    def _abort(self, call: Call) -> None:
        try:
            self.hypervisor.abort(call.server)
        except HypervisorFault as fault:
            log.warning("call.not_aborted", call=call.id, server=call.server, reason=fault.message)

    def _deliver(self, call: Call, state: str, *, result: str | None = None, error: str | None = None) -> bool:
        """Report until the service answers. Return False if it drops the call."""
        backoff = Backoff(self.stopping)
        while True:
            try:
                self.service.report(call, state, result=result, error=error)
            except (Conflict, UnknownHost, Refused) as refusal:
                log.info("call.dropped", call=call.id, server=call.server, verb=call.verb, reason=str(refusal))
                return False
            except ServiceUnavailable as failure:
                log.warning("call.not_reported", call=call.id, server=call.server, reason=str(failure))
                if not backoff.wait():
                    return False
            else:
                return True
