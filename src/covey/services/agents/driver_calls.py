"""Calls of the driver as rows: a worker makes them, the agent of the host takes them and reports."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from covey.model.agents import ARRIVED, OPEN, REMOVALS, Agent, AgentState, Call, CallState, NewCall, TakenCall, Verb
from covey.model.errors import CoveyError, DriverFault, HostDown, HostsDown, LeaseLost, OperationInProgress
from covey.model.ids import HostId, ServerId
from covey.model.servers import Server
from covey.request_slots import RequestSlots, slot_released
from covey.services.agents.call_polls import CallPolls, Handout
from covey.services.agents.guests import complete, document_of
from covey.services.agents.shared_writes import in_transaction
from covey.services.group_commit import GroupCommit
from covey.storage.store import Store, Transaction

_POLL_S = 0.1
_TAKEN_S = 1.0  # until a job looks again at a call that an agent has taken since, or whose lease has not ended
_HOSTS = {"destination", "data"}  # arguments that name a host, whose address its agent knows


class CallRequest(NamedTuple):
    """A call that a job needs."""

    verb: Verb
    server: Server
    host: str
    epoch: int
    arguments: Mapping[str, object]
    is_certain: bool = False  # whether a removal from a host that is down waits until the host runs no guests

    @property
    def lease(self) -> tuple[ServerId, int]:
        """The lease of the job."""
        return self.server.id, self.epoch


@dataclass(slots=True)
class DriverCalls:
    """Makes the calls of jobs, those that arrive together in one short transaction.

    A call belongs to its job: repeated in the same job it returns what the agent reported, also after a crash of the
    worker, and it ends with the job. The report of an agent makes the job due.
    """

    store: Store
    polls: CallPolls
    check_after_s: float  # how long a job waits for a report that does not come
    answer_within_s: float = 5.0  # how long a request waits for a report
    _commits: GroupCommit[CallRequest, None] = field(init=False)

    def __post_init__(self) -> None:
        self._commits = GroupCommit(self._carry_out, request_slots=RequestSlots())

    def carry_out(
        self,
        verb: Verb,
        server: Server,
        host: str,
        epoch: int,
        arguments: Mapping[str, object] | None = None,
        *,
        is_certain: bool = False,
    ) -> None:
        """Return once the agent has reported the call as done.

        Raises OperationInProgress before, DriverFault if the agent reported a failure, HostDown if it does not answer,
        and LeaseLost unless the caller has the newest lease of the server's job.
        """
        self._commits.submit(CallRequest(verb, server, host, epoch, arguments or {}, is_certain))

    def has_arrived(self, server: Server, source: str, destination: str, epoch: int) -> bool:
        """Return whether a guest whose source has ended is on its destination; it is removed there if not.

        What is there from before the first epoch of this move is older than the data of the source. Raises what
        `carry_out` raises, and HostsDown if the source has begun the move, and the destination has ended as well.
        """
        with self.store.read() as tx:
            began = tx.agent_calls.arguments(server.id, epoch, Verb.MIGRATE, source)
        unless = {"unless": ARRIVED, "since": began.get("since")} if began is not None else {}
        self.carry_out(Verb.DETACH, server, destination, epoch, unless, is_certain=True)
        with self.store.read() as tx:
            has_answered = tx.agent_calls.arguments(server.id, epoch, Verb.DETACH, destination) is not None
            result = tx.agent_calls.result(server.id, epoch, Verb.DETACH, destination)
        if began is not None and not has_answered:
            raise HostsDown(source, destination)
        return result == ARRIVED

    def spawn_all(self, wanted: Sequence[tuple[Server, str, int]]) -> list[CoveyError | None]:
        """Spawn servers, each with its host and epoch. Return what `carry_out` would raise for each, or None."""
        return self._carry_out([CallRequest(Verb.SPAWN, *each, {}) for each in wanted])

    def _carry_out(self, wanted: Sequence[CallRequest]) -> list[CoveyError | None]:
        """Return what keeps each call from being done, or None."""
        with self.store.read_once() as tx:
            done = tx.agent_calls.done({each.server.id for each in wanted})
        is_done = [(*each.lease, each.verb, each.host) in done for each in wanted]
        left = [each for each, ready in zip(wanted, is_done, strict=True) if not ready]
        obstacles = iter(self._begin(left) if left else ())
        return [None if ready else next(obstacles) for ready in is_done]

    def _begin(self, wanted: Sequence[CallRequest]) -> list[CoveyError | None]:
        with self.polls.handing_out() as handout:
            return in_transaction(self.store, lambda tx: self._begin_all(tx, wanted, handout))

    def abort(self, server: Server, host: str, epoch: int) -> bool:
        """Return whether the migration that this job began has ended without success.

        False if it succeeded, or if its host is down: then only the other host knows. Raises OperationInProgress while
        the agent ends it, and LeaseLost.
        """
        with self.store.write() as tx:
            job, agent = tx.agent_calls.lock_jobs([(server.id, epoch)]), tx.agents.by_host(host)
            if not job:
                raise LeaseLost(server.id, epoch)
            if agent is not None and agent.state is AgentState.DOWN:
                return False
            call = None if agent is None else tx.agent_calls.of_job(job[server.id, epoch], Verb.MIGRATE, agent.host_id)
            if call is None or call.state is CallState.FAILED:
                return True
            if call.state is CallState.DONE:
                return False
            if call.state is CallState.WAITING and tx.agent_calls.delete_free(call.id):
                return True
            tx.agent_calls.abort(call.id)
        raise OperationInProgress(self.check_after_s)

    def console_log(self, server: Server, host: str, lines: int | None) -> str:
        """Return what the guest wrote to its console, after a wait without a request slot. Raises DriverFault."""
        with self.polls.handing_out() as handout, self.store.write() as tx:
            host_id, state = tx.agents.states([host]).get(host, (None, AgentState.DOWN))
            if host_id is None or state is not AgentState.UP:
                raise DriverFault(f"The agent of {host} is not up.")
            new = NewCall(host_id, server.id, None, Verb.CONSOLE_LOG, 0, {"lines": lines}, document_of(server))
            (call,) = self._add(tx, [new], handout)
        try:
            return self._answer(call, host)
        finally:
            with self.store.write() as tx:
                tx.agent_calls.delete(call)

    def _answer(self, call: int, host: str) -> str:
        deadline = time.monotonic() + self.answer_within_s
        while time.monotonic() < deadline:
            with slot_released():
                time.sleep(_POLL_S)
            with self.store.read() as tx:
                found = tx.agent_calls.by_id(call)
            if found is not None and found.state is CallState.FAILED:
                raise DriverFault(found.error or f"The agent of {host} gave no reason.")
            if found is not None and found.state is CallState.DONE:
                return found.result or ""
        raise DriverFault(f"The agent of {host} did not answer within {self.answer_within_s:g} seconds.")

    def _begin_all(self, tx: Transaction, wanted: Sequence[CallRequest], handout: Handout) -> list[CoveyError | None]:
        """Store the calls that are made the first time. Return what keeps each call from being done, or None."""
        handout.begin()
        jobs = tx.agent_calls.lock_jobs([each.lease for each in wanted])
        agents = tx.agents.states({each.host for each in wanted})
        made = tx.agent_calls.made(jobs.values())
        obstacles: list[CoveyError | None] = []
        new: list[NewCall] = []
        for each in wanted:
            job, (host, state) = jobs.get(each.lease), agents.get(each.host, (None, AgentState.DOWN))
            if job is None:
                obstacles.append(LeaseLost(*each.lease))
            elif host is None:
                obstacles.append(None if each.verb in REMOVALS else DriverFault(f"{each.host} has no agent."))
            elif state is AgentState.DOWN or (job, each.verb, host) in made:
                obstacles.append(self._continue(tx, each, job))
            else:
                obstacles.append(self._prepare(tx, each, job, host, new))
        self._add(tx, new, handout)
        return obstacles

    def _prepare(self, tx: Transaction, wanted: CallRequest, job: int, host: HostId, new: list[NewCall]) -> CoveyError:
        """Add a call to those that are stored together."""
        server, arguments = wanted.server, dict(wanted.arguments)
        for name in _HOSTS & arguments.keys():
            other_host = str(arguments[name])
            other = tx.agents.by_host(other_host)
            if other is None and name != "data":  # shared data needs no agent there
                return DriverFault(f"{other_host} has no agent.")
            arguments[name] = {"name": other_host, "address": other_host if other is None else other.address}
        new.append(NewCall(host, server.id, job, wanted.verb, wanted.epoch, arguments, document_of(server)))
        return OperationInProgress(self.check_after_s)

    def _add(self, tx: Transaction, new: Sequence[NewCall], handout: Handout) -> list[int]:
        """Store calls, and hand them out to polls that wait in this process. Return their ids."""
        if not new:
            return []
        calls = [each._replace(handed_out=handout.accepts(each.host_id)) for each in new]
        ids = tx.agent_calls.add(calls, self.polls.call_lease_s)
        leaving = [(number, call) for number, call in zip(ids, calls, strict=True) if call.handed_out]
        guests = complete(tx, [call.guest for _, call in leaving])
        for (number, call), guest in zip(leaving, guests, strict=True):
            handout.add(TakenCall(number, call.host_id, call.verb, call.epoch, call.arguments, guest))
        return ids

    def _continue(self, tx: Transaction, wanted: CallRequest, job: int) -> CoveyError | None:
        """Return what keeps a call from being done that was made before, or whose host is down; None if it is done."""
        agent = tx.agents.by_host(wanted.host)
        assert agent is not None
        call = tx.agent_calls.of_job(job, wanted.verb, agent.host_id)
        if call is not None and call.state not in OPEN:
            return _reported(tx, call, wanted.host)
        is_down = agent.state is AgentState.DOWN
        if is_down and wanted.is_certain and not agent.may_be_evacuated:
            return OperationInProgress(self.check_after_s)
        if is_down and (call is None or wanted.verb in REMOVALS or _has_ended(call, agent)):
            # An agent that returns before the job has ended is asked about a migration that it had begun.
            stays = wanted.verb is Verb.MIGRATE and call is not None and call.state is CallState.RUNNING
            if call is not None and not stays and not tx.agent_calls.delete_free(call.id):
                return OperationInProgress(_TAKEN_S)
            return None if wanted.verb in REMOVALS else HostDown(wanted.host)
        if call is None:  # the agent came back this moment
            return OperationInProgress(_POLL_S)
        if not call.leased and call.epoch < wanted.epoch:  # one that the agent has is left to it
            tx.agent_calls.take_over(call.id, wanted.epoch)
        return OperationInProgress(self.check_after_s)


def _reported(tx: Transaction, call: Call, host: str) -> CoveyError | None:
    if call.state is CallState.DONE:
        return None
    tx.agent_calls.delete(call.id)  # a repetition tries again
    return DriverFault(call.error or f"The agent of {host} gave no reason.")


def _has_ended(call: Call, agent: Agent) -> bool:
    """Return whether a host that is down has not begun a call, or runs no guests any more, as an operator may say."""
    return call.state is CallState.WAITING or agent.may_be_evacuated
