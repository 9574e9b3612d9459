"""Lifecycle events: reports to the agent within a second which guest started, ended or crashed."""

import queue
import threading
from collections.abc import Callable

import libvirt

from covey.agent.hypervisor import HypervisorFault
from covey.agent.libvirt.connections import Connection
from covey.agent.libvirt.domains import NAME_PREFIX, power_of

Changed = Callable[[str, str], None]

_CHECK_S = 1.0
_GONE = ""
_POWER_OF_EVENT = {  # by event and detail; None: any other detail. The guest of a migration has not changed.
    (libvirt.VIR_DOMAIN_EVENT_STARTED, None): "running",
    (libvirt.VIR_DOMAIN_EVENT_STARTED, libvirt.VIR_DOMAIN_EVENT_STARTED_MIGRATED): None,
    (libvirt.VIR_DOMAIN_EVENT_RESUMED, None): "running",
    (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, None): "paused",
    (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_MIGRATED): None,
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, None): "shutdown",
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED): "crashed",
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED): "crashed",
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_MIGRATED): _GONE,
    (libvirt.VIR_DOMAIN_EVENT_CRASHED, None): "crashed",
    (libvirt.VIR_DOMAIN_EVENT_UNDEFINED, None): _GONE,
}


class Events:
    """Passes on the power states of Covey's guests. After a lost connection it compares, so that none is missed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._known: dict[str, str] = {}
        self._fresh = threading.Event()

    def watch(self, changed: Changed) -> None:
        """Start to pass on changes, from a thread of its own."""
        self._connection.on_open(self._register)
        threading.Thread(target=self._pass_on, args=(changed,), name="libvirt-watch", daemon=True).start()

    def _register(self, connection: libvirt.virConnect) -> None:
        connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_event, None)
        self._fresh.set()

    def _on_event(self, _: object, domain: libvirt.virDomain, event: int, detail: int, __: object) -> None:
        """Called by libvirt's event loop, which must not wait: it only keeps what happened."""
        power = _POWER_OF_EVENT.get((event, detail), _POWER_OF_EVENT.get((event, None)))
        if power is not None and domain.name().startswith(NAME_PREFIX):
            self._queue.put((domain.UUIDString(), power))

    def _pass_on(self, changed: Changed) -> None:
        while True:
            try:
                server, power = self._queue.get(timeout=_CHECK_S)
            except queue.Empty:
                self._compare(changed)
            else:
                before = self._known.pop(server, None)
                if power != _GONE:
                    self._known[server] = power
                    if power != before:  # a start has two events: started, resumed
                        changed(server, power)

    def _compare(self, changed: Changed) -> None:
        """Reconnect if the connection was lost; then pass on what changed in between."""
        try:
            connection = self._connection.get()
            if not self._fresh.is_set():
                return
            found = {
                domain.UUIDString(): power_of(domain)
                for domain in connection.listAllDomains()
                if domain.name().startswith(NAME_PREFIX)
            }
        except (libvirt.libvirtError, HypervisorFault):
            return
        self._fresh.clear()
        missed = {server: power for server, power in found.items() if self._known.get(server, power) != power}
        self._known = found
        for server, power in missed.items():
            changed(server, power)
