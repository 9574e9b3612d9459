"""Manual fencing: an operator confirms that a host runs no guests, and Covey records it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from covey.model.agents import Agent
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.work import JobKind
from covey.services.agents.fencing import Fencing
from covey.services.notifications import NotificationEmitter
from covey.storage.store import Store, Transaction

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FencedHosts:
    """Hosts that operators fence."""

    store: Store
    notifications: NotificationEmitter
    fencing: Fencing | None  # None without a command
    silence_s: float  # a host whose agent reported within this time is not off

    def fence(self, name: str, *, is_off: bool = False, evacuate: bool = False) -> int:
        """Fence a host by the command, and set it down. Return the number of its servers, which may be evacuated now.

        With `is_off` the operator has switched it off, and no command runs. With `evacuate`, workers evacuate its
        servers. Otherwise nothing changes: raises NotFound; Invalid without a command; DriverFault if the command
        fails; Conflict if the agent reports nevertheless, or while a worker runs the command.
        """
        with self._off(name, is_off=is_off) as is_still_off, self.store.write() as tx:
            tx.aggregates.lock_hosts([_agent(tx, name).host_id])
            tx.topology.begin_change()
            agent = _agent(tx, name, lock=True)
            if not is_still_off(tx, agent):
                raise Conflict(f"The agent of {name} reported after the host was fenced. It may run guests.")
            tx.agents.fence(agent.host_id)
            self.notifications.host_changed(tx, agent.host_id)
            servers = len(tx.servers.names_on([agent.host_id])[agent.host_id])
            host = tx.hosts.by_id(agent.host_id)
            if evacuate and servers and host is not None:
                tx.work.add(JobKind.EVACUATE_HOST, host.uuid)
        log.warning("host.fenced_by_operator", host=name, is_off=is_off)
        return servers

    @contextmanager
    def _off(self, name: str, *, is_off: bool) -> Iterator[Callable[[Transaction, Agent], bool]]:
        """Yield a function that says whether the agent has been silent since the host was off."""
        with self.store.read() as tx:
            agent = _agent(tx, name)
        if is_off:
            if agent.heartbeat_age_s < self.silence_s:
                raise Conflict(f"{name} is not off: its agent reported {agent.heartbeat_age_s:.0f} seconds ago.")
            yield lambda _, found: found.heartbeat_at <= agent.now
            return
        if self.fencing is None:
            raise Invalid("[agents] fence_command is empty. Set it, or switch the host off yourself and pass --off.")
        with self.fencing.fenced(agent.host_id, name) as end:
            with self.store.read() as tx:
                ended_at = _agent(tx, name).now
            yield lambda tx, found: end(tx) and found.heartbeat_at <= ended_at


def _agent(tx: Transaction, name: str, *, lock: bool = False) -> Agent:
    found = tx.agents.by_host(name)
    if found is None:
        raise NotFound(f"Host {name} has no agent. Force it down: openstack compute service set --down.")
    locked = tx.agents.by_host_id(found.host_id, lock=True) if lock else found
    assert locked is not None
    return locked
