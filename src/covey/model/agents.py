"""Agents of hosts, and the calls that they carry out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from covey.model.ids import HostId, ServerId, UserId

FENCING_GRACE = timedelta(seconds=10)
"""How long an agent may take to end its guests after its self-fencing lease ran out."""

MAX_WATCH_INTERVAL_S = 5.0
"""Maximum seconds between two checks of the agents."""


class AgentState(StrEnum):
    """The state of a host, as its agent reports it."""

    STARTING = "starting"  # the agent compares what runs with what should run
    UP = "up"
    DOWN = "down"  # no heartbeat for [agents] down_after


class Verb(StrEnum):
    """What a call does."""

    SPAWN = "spawn"
    DESTROY = "destroy"
    DETACH = "detach"
    POWER = "power"
    MIGRATE = "migrate"
    EVACUATE = "evacuate"
    CONSOLE_LOG = "console_log"


REMOVALS = frozenset({Verb.DESTROY, Verb.DETACH})
"""Verbs that a host which is down needs not carry out: its agent removes what should not be there when it starts."""


ARRIVED = "arrived"
"""The result of a detach that found the guest running: its move has succeeded, although its source could not report."""


class CallState(StrEnum):
    """The state of a call."""

    WAITING = "waiting"  # no agent has it
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


OPEN = (CallState.WAITING, CallState.RUNNING)


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of a host. Times are those of the database's clock, like `now`, when the row was read."""

    host_id: HostId
    host_name: str
    user_id: UserId
    hypervisor: str
    version: str
    address: str
    state: AgentState
    traits: frozenset[str]
    self_fencing_s: float | None
    heartbeat_at: datetime
    lease_until: datetime | None
    fenced_at: datetime | None
    registered_at: datetime
    forced_down: bool
    machine_id: str | None  # None if the agent does not report one
    now: datetime

    @property
    def heartbeat_age_s(self) -> float:
        """The seconds since the last heartbeat."""
        return max(0.0, (self.now - self.heartbeat_at).total_seconds())

    def is_elsewhere(self, machine: str | None) -> bool:
        """Whether another machine than this one has the host, and may run guests; False if one reports no id."""
        may_run = self.state is not AgentState.DOWN or not self.may_be_evacuated
        return may_run and None not in {self.machine_id, machine} and self.machine_id != machine

    @property
    def runs_no_guests(self) -> bool:
        """Whether it is certain that no guest runs on the host: it is fenced, or has fenced itself."""
        return self.fenced_at is not None

    @property
    def fences_itself_within_s(self) -> float | None:
        """The seconds after which a worker has watched the silent host fence itself, at most; None without a lease."""
        if self.lease_until is None or self.self_fencing_s is None:
            return None
        return self.self_fencing_s + FENCING_GRACE.total_seconds() + MAX_WATCH_INTERVAL_S

    @property
    def may_be_evacuated(self) -> bool:
        """Whether servers may start elsewhere: an operator has forced the host down, or the host runs no guests."""
        return self.forced_down or (self.state is AgentState.DOWN and self.runs_no_guests)


class FencingLease(NamedTuple):
    """The self-fencing lease of a host that is not known to be fenced. Times are those of the database's clock."""

    host_id: HostId
    state: AgentState
    self_fencing_s: float
    heartbeat_at: datetime
    lease_until: datetime


class Registration(NamedTuple):
    """An agent's registration: hypervisor, address, traits, self-fencing time."""

    hypervisor: str
    version: str
    address: str
    traits: frozenset[str]
    self_fencing_s: float | None
    machine_id: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the driver that an agent carries out. The guest document lacks the image and the boot data."""

    id: int
    host_id: HostId
    server_id: ServerId
    job_id: int | None  # the row of the job that needs it; None for a request
    verb: Verb
    epoch: int
    arguments: Mapping[str, object]
    guest: Mapping[str, object]
    state: CallState
    progress: Mapping[str, int] | None = None
    result: str | None = None
    error: str | None = None
    abort: bool = False
    leased: bool = False  # an agent has it at present


class NewCall(NamedTuple):
    """A call to store. One that is handed out is returned to a waiting poll after the commit."""

    host_id: HostId
    server_id: ServerId
    job_id: int | None
    verb: Verb
    epoch: int
    arguments: Mapping[str, object]
    guest: Mapping[str, object]
    handed_out: bool = False


class TakenCall(NamedTuple):
    """A call that is leased to the agent of its host."""

    id: int
    host_id: HostId
    verb: Verb
    epoch: int
    arguments: Mapping[str, object]
    guest: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a call, as its agent reports it."""

    epoch: int
    state: CallState
    progress: Mapping[str, int] | None = None
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RunningMigration:
    """A migration that an agent carries out."""

    server_id: ServerId
    source: str
    destination: str
    live: bool
    progress: Mapping[str, int] = field(default_factory=dict)
