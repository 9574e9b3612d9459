"""The life of an agent: it registers, reconciles, reports up and takes calls; after a loss of contact, again."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from covey.agent.call_runner import CallRunner
from covey.agent.hypervisor import Hypervisor, HypervisorFault, HypervisorLost, OutcomeUnknown, StaleEpoch
from covey.agent.image_cache import ImageCache
from covey.agent.power_reports import PowerReports
from covey.agent.reconciliation import ForeignService
from covey.agent.repairs import Repairs
from covey.agent.reports import Reports
from covey.agent.retries import Backoff
from covey.agent.self_fencing import SelfFencing
from covey.agent.service_api import Call, Conflict, Registration, ServiceApi, UnknownHost
from covey.agent.transport import Refused, ServiceUnavailable
from covey.agent.verbs import Verbs

log = structlog.get_logger()

_LONGEST_RETRY_S = 4.0  # while the service or the hypervisor is away
_LOST_AFTER_HEARTBEATS = 3  # without contact: the service may have evacuated servers
_MAX_CALLS_PER_POLL = 16
_MAX_EPOCHS = 10_000
_PAUSE_S = 0.5
_WITHOUT_CONTACT = 75  # exit status EX_TEMPFAIL: the service manager starts the agent again
_FROM_SERVICE = (ServiceUnavailable, Refused, Conflict, UnknownHost)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an operator sets for one host."""

    version: str
    reserved: Mapping[str, int] = field(default_factory=dict)  # by resource class
    allocation_ratios: Mapping[str, float] = field(default_factory=dict)
    concurrency: int = 8
    resume_guests: bool = False  # start guests that ran before the host's boot
    poll_wait_s: int = 25
    power_sync_s: float = 30.0
    stop_timeout_s: float = 10.0
    machine_id: str | None = None  # distinguishes machines that have the same host name by mistake


class AgentCrashed(Exception):
    """A thread of the agent ended with an unexpected error, which the log has. A new process starts from scratch."""


def _end_process() -> None:
    """End the process, with the calls that it has begun: they could start guests elsewhere or here again.

    The guardian does so too, also to an agent that hangs. It stops guests that start since, as a new agent does.
    """
    log.error("agent.ends_without_contact")
    os._exit(_WITHOUT_CONTACT)


def connect(build: Callable[[], Hypervisor], stopping: threading.Event) -> Hypervisor | None:
    """Return the hypervisor once it answers; None if the agent is to stop before."""
    backoff = Backoff(stopping, longest_s=_LONGEST_RETRY_S)
    while not stopping.is_set():
        try:
            return build()
        except HypervisorFault as fault:
            log.warning("agent.waits_for_hypervisor", reason=fault.message)
            backoff.wait()
    return None


class Agent:
    """Carries out the service's calls on one host's hypervisor."""

    def __init__(
        self,
        service: ServiceApi,
        hypervisor: Hypervisor,
        images: ImageCache,
        fencing: SelfFencing,
        settings: AgentSettings,
        stopping: threading.Event,
    ) -> None:
        self._service = service
        self._hypervisor = hypervisor
        self._fencing = fencing
        self._settings = settings
        self._stopping = stopping
        self._registration: Registration | None = None
        self._up = threading.Event()  # calls are taken
        self._lost = threading.Event()  # the host must be reconciled
        self._awake = threading.Event()
        self._beating = threading.Lock()  # state changes wait for a heartbeat in progress
        self._epochs: dict[str, int] = {}  # the largest of each server; the oldest go
        self._synced_at = 0.0
        self._has_crashed = False
        self._verbs = Verbs(hypervisor, images)
        self._runner = CallRunner(settings.concurrency, self._carry_out)
        self._reports = Reports(service, hypervisor, stopping, lambda: self._terms.call_lease_s)
        self._power = PowerReports(service, hypervisor, self._runner.holding, self._awake.set, fencing.resumed)
        self._repairs = Repairs(
            *(service, hypervisor, self._verbs, self._runner, self._power, fencing, settings.resume_guests),
            lambda server: self._epochs.get(server, 0),
        )

    @property
    def _terms(self) -> Registration:
        return self._registration or Registration()

    def run(self) -> None:
        """Work until `stopping` is set.

        Raises Refused if the service refuses the first registration, and AgentCrashed after an unexpected error.
        """
        try:
            self._fencing.check()  # the agent before this one may have lost contact long ago
        except HypervisorFault as fault:
            log.warning("self_fencing.failed", reason=fault.message)
        self._start(lambda: self._fencing.run(self._stopping, _end_process), "covey-fencing")
        self._lost.set()
        backoff = Backoff(self._stopping, longest_s=_LONGEST_RETRY_S)
        while not self._stopping.is_set():
            try:
                if self._lost.is_set():
                    self._reconcile_and_report_up()
                self._observe()
                backoff.reset()
            except ServiceUnavailable as error:
                log.warning("agent.waits_for_service", reason=str(error))
                backoff.wait()
            except (HypervisorFault, Refused, Conflict, UnknownHost, ForeignService) as error:
                if self._registration is None and not isinstance(error, HypervisorFault):
                    raise Refused(str(error)) from error
                log.error("agent.not_up", reason=str(error))  # noqa: TRY400 -- expected, and repeated
                self._lose()
                backoff.wait()
            self._awake.wait(_PAUSE_S)
            self._awake.clear()
        self._leave()
        if self._has_crashed:
            raise AgentCrashed("The agent has crashed; its log has the error.")

    def _reconcile_and_report_up(self) -> None:
        """Make the host agree with the service, then take calls."""
        self._up.clear()
        self._lost.clear()  # what happens from now on sets it again
        try:
            self._register(self._fencing.limit_s)
            self._hypervisor.settle()
            self._fencing.release()
            self._repairs.reconcile()
        except BaseException:
            self._lost.set()
            raise
        with self._beating:
            if not self._lost.is_set():
                self._service.heartbeat("up", self._settings.machine_id)
                self._up.set()
                log.info("agent.up", host=self._service.host)

    def _register(self, self_fencing_s: float | None) -> None:
        inventories = {
            name: {
                "total": total,
                "reserved": min(total, self._settings.reserved.get(name, 0)),
                "allocation_ratio": self._settings.allocation_ratios.get(name),  # without one the host keeps its own
            }
            for name, total in self._hypervisor.inventories().items()
        }
        document = {
            "hypervisor": self._hypervisor.kind,
            "version": self._settings.version,
            "address": self._hypervisor.address(),
            "machine_id": self._settings.machine_id,
            "inventories": inventories,
            "traits": sorted(self._hypervisor.traits()),
            "self_fencing_s": self_fencing_s,
        }
        is_first, sent_at = self._registration is None, self._fencing.now()
        self._registration = self._service.register(document)
        self._fencing.contact(sent_at)
        log.info("agent.registered", host=self._service.host)
        if is_first:
            self._hypervisor.watch(self._power.changed)
            self._start(self._heartbeats, "covey-heartbeat")
            self._start(self._reports.run, "covey-leases")
            self._start(self._polls, "covey-poll")

    def _lose(self) -> None:
        """Take no more calls until the host is reconciled."""
        self._up.clear()
        self._lost.set()
        self._awake.set()

    def _heartbeats(self) -> None:
        backoff = Backoff(self._stopping, longest_s=_LONGEST_RETRY_S)
        while not self._stopping.is_set():
            if self._fencing.is_engaged or self._fencing.silence_s > _LOST_AFTER_HEARTBEATS * self._interval_s:
                self._lose()
            try:
                with self._beating:
                    sent_at = self._fencing.now()
                    self._service.heartbeat("up" if self._up.is_set() else "starting", self._settings.machine_id)
            except _FROM_SERVICE as error:
                log.warning("agent.no_contact", silence_s=round(self._fencing.silence_s, 1), reason=str(error))
                if isinstance(error, UnknownHost):
                    self._lose()
                backoff.wait()
            else:
                self._fencing.contact(sent_at)
                backoff.reset()
                self._stopping.wait(self._interval_s)

    @property
    def _interval_s(self) -> float:
        """The time between two heartbeats: several fit into the time after which the host fences itself."""
        asked = self._terms.heartbeat_s
        return min(asked, self._fencing.limit_s / 4) if self._fencing.limit_s else asked

    def _observe(self) -> None:
        """Report guests whose power changed, also those whose event was lost, and remove orphans.

        Raises HypervisorFault, and what the service's API raises.
        """
        if time.monotonic() >= self._synced_at + self._settings.power_sync_s:
            observed = self._power.observe()
            self._repairs.sweep(observed)
            self._power.confirm(observed)
            self._synced_at = time.monotonic()
        try:
            self._power.send()
        except Refused as error:
            log.warning("agent.events_refused", reason=error.message)

    def _polls(self) -> None:
        """Take calls while the host is up and there is room for one."""
        backoff = Backoff(self._stopping)
        while not self._stopping.is_set():
            room = self._runner.wait_for_room(_PAUSE_S) if self._up.wait(_PAUSE_S) else 0
            if not room or not self._up.is_set():
                continue
            try:
                calls = self._service.calls(self._settings.poll_wait_s, min(room, _MAX_CALLS_PER_POLL))
            except _FROM_SERVICE as error:
                log.warning("agent.calls_not_polled", reason=str(error))
                backoff.wait()
            else:
                backoff.reset()
                for call in calls if not self._stopping.is_set() else ():
                    self._runner.submit(call)

    def _carry_out(self, call: Call, taken_at: float) -> None:
        """Carry out a call and report its outcome. No error may end the thread."""
        if self._fencing.is_engaged or self._is_outdated(call) or not self._reports.begin(call, taken_at):
            return
        event = log.bind(call=call.id, verb=call.verb, server=call.server, epoch=call.epoch)
        event.info("call.started")
        try:
            result = self._verbs.carry_out(call)
        except StaleEpoch as stale:
            event.info("call.dropped", reason=stale.message)
            self._reports.abandon(call)
        except OutcomeUnknown as unknown:  # the lease ends, and the agent takes the call again
            event.warning("call.outcome_unknown", reason=unknown.message)
            self._reports.abandon(call)
            if isinstance(unknown, HypervisorLost):
                self._lose()
        except (HypervisorFault, *_FROM_SERVICE) as fault:
            event.warning("call.failed", reason=str(fault))
            self._reports.end(call, error=str(fault))
        except Exception as error:  # noqa: BLE001 -- reported to the service
            event.exception("call.crashed")
            self._reports.end(call, error=f"The agent failed: {error}")
        else:
            event.info("call.done")
            self._reports.end(call, result=result)

    def _is_outdated(self, call: Call) -> bool:
        """Whether the agent has seen a newer lease of the server. The hypervisor loses the epoch with the guest."""
        if call.only_reads:
            return False
        newest = max(call.epoch, self._epochs.pop(call.server, call.epoch))
        self._epochs[call.server] = newest
        while len(self._epochs) > _MAX_EPOCHS:
            del self._epochs[next(iter(self._epochs))]
        return call.epoch < newest

    def _leave(self) -> None:
        """End without touching guests. They run on, so a last registration ends the host's self-fencing lease."""
        self._up.clear()
        ended = self._runner.drain(self._settings.stop_timeout_s)
        log.info("agent.stopping", calls_left=0 if ended else len(self._runner.running()))
        if self._registration is not None:
            try:
                with self._beating:
                    self._register(None)
                self._fencing.disarm()
            except (HypervisorFault, *_FROM_SERVICE) as error:
                log.warning("agent.stop_not_reported", reason=str(error))

    def _start(self, target: Callable[[], None], name: str) -> None:
        """Start a thread. An unexpected error in it ends the agent, rather than leaving it without a part."""

        def run() -> None:
            try:
                target()
            except Exception:
                log.exception("agent.crashed", thread=name)
                self._has_crashed = True
                self._stopping.set()

        threading.Thread(target=run, name=name, daemon=True).start()
