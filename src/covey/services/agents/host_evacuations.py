"""Evacuates hosts that are down, once it is certain that they run no guests."""

from dataclasses import dataclass

import structlog

from covey.model.access import Actor, with_implied_roles
from covey.model.actions import MoveKind
from covey.model.agents import MAX_WATCH_INTERVAL_S, Agent, AgentState
from covey.model.errors import Busy, Conflict, Invalid, NotFound, NoValidHost, OperationInProgress
from covey.model.ids import ServerId, UserId
from covey.model.servers import Server
from covey.model.work import Job
from covey.ports import NewUuid
from covey.services.agents.fencing import Fencing
from covey.services.agents.guests import location_of
from covey.services.group_evacuations import GroupEvacuations
from covey.services.moves import MoveRequest, Moves
from covey.storage.store import Store

log = structlog.get_logger()

_RULE = "os_compute_api:os-evacuate"
_MAY_RUN = {"here", "arriving", "leaving"}
_AGAIN_S, _MAX_AGAIN_S = 30.0, 300.0  # for servers that could not leave yet
_OPERATOR = Actor(UserId("covey"), None, with_implied_roles(frozenset({"admin"})), "covey")


@dataclass(frozen=True, slots=True)
class HostEvacuations:
    """Carries out the job that follows the failure of a host."""

    store: Store
    moves: Moves
    groups: GroupEvacuations
    new_uuid: NewUuid
    fencing: Fencing | None = None  # None without a command

    def run(self, job: Job) -> None:
        """Fence a host, then evacuate its servers, group by group.

        Raises OperationInProgress until it is done, and DriverFault if the host can't be fenced. A host that comes back
        keeps its servers.
        """
        with self.store.read() as tx:
            host = tx.hosts.by_uuid(job.subject_id)
            agent = None if host is None else tx.agents.by_host_id(host.id)
            there = [] if host is None else tx.servers.at_hosts([host.id])
            counts = tx.agents.counts()
        servers = [server for server in there if _may_run(server, agent)]
        if agent is None or agent.state is not AgentState.DOWN or not servers:
            self._finish(job)
            return
        if 2 * counts[AgentState.DOWN] > sum(counts.values()):
            log.error("hosts.not_evacuated", reason="More than half of all agents are down.", **counts)
            raise OperationInProgress(_AGAIN_S)
        if not agent.may_be_evacuated:
            self._fence(agent)
            log.error("host.not_evacuated", host=agent.host_name, reason="It can't be fenced. Force it down by hand.")
            self._finish(job)
            return
        self._evacuate([server for server in servers if server.host_id == agent.host_id])
        raise OperationInProgress(_again_s(agent))  # until no server is left

    def _fence(self, agent: Agent) -> None:
        """Return if there is no way to fence the host. Raises OperationInProgress until it is fenced, DriverFault."""
        if self.fencing is not None:
            self.fencing.begin(agent.host_id, agent.host_name)
        if agent.fences_itself_within_s is not None:
            raise OperationInProgress(MAX_WATCH_INTERVAL_S)  # HostWatch records the end of the lease

    def _evacuate(self, servers: list[Server]) -> None:
        """Begin the evacuation of servers; those that ran will run again."""
        request_id = f"req-{self.new_uuid()}"
        refused: list[tuple[ServerId, str]] = []
        for group in sorted({server.group_id for server in servers if server.group_id is not None}):
            try:
                outcomes = self.groups.evacuate(_OPERATOR, group, request_id, stopped=False)
            except (Conflict, NotFound):  # its members have left, or the group is deleted
                continue
            except Busy as error:
                log.warning("group.not_evacuated", group=group, reason=error.message)
                continue
            refused += [(server, reason) for server, reason in outcomes if reason is not None]
        for server in servers:
            if server.group_id is None and server.task is None:
                try:
                    self.moves.begin(_OPERATOR, server.id, MoveRequest(MoveKind.EVACUATION, request_id), _RULE)
                except NotFound:  # deleted since
                    continue
                except (NoValidHost, Conflict, Invalid, Busy) as error:
                    refused.append((server.id, error.message))
        for server_id, reason in refused:
            log.warning("server.not_evacuated", server=server_id, reason=reason)

    def _finish(self, job: Job) -> None:
        with self.store.write() as tx:
            tx.work.complete(job)


def _again_s(agent: Agent) -> float:
    """Return when to try again: the longer the host is down, the later."""
    return min(max(agent.heartbeat_age_s / 4, _AGAIN_S), _MAX_AGAIN_S)


def _may_run(server: Server, agent: Agent | None) -> bool:
    """Return whether an agent's host may run a server, also one that only arrives: its move waits for the fencing."""
    return agent is not None and location_of(server, agent.host_id, agent.host_name) in _MAY_RUN
