"""A second process that ends the agent and stops the guests if the time without contact is over.

It also stops them if the agent dies and no other agent starts in time, and those that start or arrive later.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from covey.agent.hypervisor import Hypervisor, HypervisorFault
from covey.agent.self_fencing import SelfFencing
from covey.agent.state_directory import StateDirectory, boot_time_s

log = structlog.get_logger()

_CHECK_INTERVAL_S = 0.2
_DISMISSED = b"."


@dataclass(frozen=True, slots=True)
class Guardian:
    """The agent's end of the pipe. If it closes without a message, the agent has died."""

    descriptor: int

    def dismiss(self) -> None:
        """End the guardian: guests may run on without an agent."""
        os.write(self.descriptor, _DISMISSED)
        os.close(self.descriptor)


def start_guardian(state: StateDirectory, limit_s: float, hypervisor: Callable[[], Hypervisor]) -> Guardian:
    """Fork a process that outlives this one. Call it before the process has threads, a lock or a connection."""
    reading, writing = os.pipe()
    agent = os.getpid()
    if os.fork():
        os.close(reading)
        return Guardian(writing)
    os.close(writing)
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        _Watchdog(agent, reading, state, limit_s, hypervisor).run()
    finally:
        os._exit(0)


@dataclass(slots=True)
class _Watchdog:
    """What the guardian does: it reads the last contact that any agent of the host has stored."""

    agent: int  # its process
    pipe: int
    state: StateDirectory
    limit_s: float
    connect: Callable[[], Hypervisor]
    _hypervisor: Hypervisor | None = field(default=None, init=False)
    _fencing: SelfFencing | None = field(default=None, init=False)  # of one loss of contact
    _logged: str | None = field(default=None, init=False)

    def run(self) -> None:
        """Stop all guests whenever the time is over, until the agent dismisses the guardian or another one runs.

        First the agent is killed: a call that it has begun could start a guest afterwards, here or on another host.
        Guests may also start or arrive when the others have been stopped, so the guardian goes on.
        """
        agent_lives, had_contact = True, False
        while True:
            if agent_lives and select.select([self.pipe], [], [], _CHECK_INTERVAL_S)[0]:
                if os.read(self.pipe, 1) == _DISMISSED:
                    return
                agent_lives = False
                log.warning("guardian.agent_died", pid=self.agent)
            elif not agent_lives:
                time.sleep(_CHECK_INTERVAL_S)
                if self.state.holder() not in {None, self.agent}:  # the next agent has its own guardian
                    return
                if self.state.last_contact() is None:  # without a lease there is nothing to guard
                    return
            if not self._is_over():
                self._cancel()
                had_contact = True
                continue
            if agent_lives and had_contact:  # an agent that starts without contact has begun no call
                log.error("guardian.ends_agent", pid=self.agent)
                with suppress(ProcessLookupError):
                    os.kill(self.agent, signal.SIGKILL)
            self._fence()

    def _is_over(self) -> bool:
        contact = self.state.last_contact()
        return contact is not None and boot_time_s() >= contact + self.limit_s

    def _cancel(self) -> None:
        """Leave the guests to the agent, which has contact again."""
        if self._fencing is not None:
            self._fencing.cancel()
            self._fencing = None

    def _fence(self) -> None:
        """Stop what runs now. What cannot be stopped is tried again."""
        try:
            self._hypervisor = self._hypervisor or self.connect()
            if self._fencing is None:
                self._fencing = SelfFencing(self._hypervisor, self.state, self.limit_s, is_over=self._is_over)
            self._fencing.check()
            self._logged = None
        except HypervisorFault as fault:
            if fault.message != self._logged:
                self._logged = fault.message
                log.warning("self_fencing.failed", reason=fault.message)
