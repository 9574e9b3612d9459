"""Agents of hosts: registrations, heartbeats and states, by the database's clock."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import insert, select, update

from covey.model.agents import Agent, AgentState, FencingLease, Registration
from covey.model.ids import HostId, UserId
from covey.ports import Clock
from covey.storage.changes import Topology
from covey.storage.database_clock import DatabaseClock
from covey.storage.rows import dump, execute, load
from covey.storage.tables import agents, hosts, servers

_COLUMNS = (  # in the order of Agent's fields
    agents.c.host_id,
    hosts.c.name,
    agents.c.user_id,
    agents.c.hypervisor,
    agents.c.version,
    agents.c.address,
    agents.c.state,
    agents.c.traits,
    agents.c.self_fencing_s,
    agents.c.heartbeat_at,
    agents.c.lease_until,
    agents.c.fenced_at,
    agents.c.registered_at,
    hosts.c.forced_down,
    agents.c.machine_id,
)
_OWNER = "SELECT a.host_id, a.user_id FROM agents a JOIN hosts h ON h.id = a.host_id WHERE h.name = ?"
_STATES = "SELECT h.name, a.host_id, a.state FROM agents a JOIN hosts h ON h.id = a.host_id WHERE h.name IN ?"
_HEARTBEAT = """
    UPDATE agents SET heartbeat_at = {now}, lease_until = {lease}
    WHERE host_id IN (SELECT id FROM hosts WHERE name IN ?) AND state = ?
        AND user_id || '\n' || (SELECT name FROM hosts WHERE hosts.id = agents.host_id) IN ?
        AND (
            machine_id IS NULL
            OR user_id || '\n' || (SELECT name FROM hosts WHERE hosts.id = agents.host_id) || '\n' || machine_id IN ?
            OR user_id || '\n' || (SELECT name FROM hosts WHERE hosts.id = agents.host_id) || '\n' IN ?
        )
    RETURNING (SELECT name FROM hosts WHERE hosts.id = agents.host_id), user_id, machine_id, self_fencing_s
"""
_LEASE_POSTGRESQL = "{now} + self_fencing_s * interval '1 second'"
_LEASE_SQLITE = "strftime('%Y-%m-%d %H:%M:%f000', {now}, self_fencing_s || ' seconds')"
_LEASES = select(
    agents.c.host_id, agents.c.state, agents.c.self_fencing_s, agents.c.heartbeat_at, agents.c.lease_until
).where(agents.c.fenced_at.is_(None), agents.c.lease_until.is_not(None), agents.c.self_fencing_s.is_not(None))
_COUNTS = select(agents.c.state, sa.func.count()).group_by(agents.c.state)


class Agents:
    """Every agent. A change of a host's state is a change of the fleet; a heartbeat is none."""

    def __init__(self, connection: sa.Connection, topology: Topology, clock: Clock | None = None) -> None:
        self._connection = connection
        self._topology = topology
        self._clock = DatabaseClock(connection, clock)
        self._time = self._clock.time

    def by_host(self, name: str) -> Agent | None:
        """Return the agent of the host of that name."""
        return next(iter(self._find(hosts.c.name == name)), None)

    def by_host_id(self, host: HostId, *, lock: bool = False) -> Agent | None:
        """Return the agent of a host; `lock` locks its row, for a caller that has begun a change of topology."""
        if lock:
            row = select(agents.c.host_id).where(agents.c.host_id == host)
            self._connection.execute(row.with_for_update(key_share=True))
        return next(iter(self._find(agents.c.host_id == host)), None)

    def all(self) -> list[Agent]:
        """Return every agent, by the names of their hosts."""
        return self._find(sa.true())

    def counts(self) -> dict[AgentState, int]:
        """Return the number of agents in each state."""
        found = {AgentState(state): number for state, number in self._connection.execute(_COUNTS)}
        return {state: found.get(state, 0) for state in AgentState}

    def add(self, host: HostId, user: UserId, new: Registration) -> None:
        """Bind a host to a user, whose agent starts. The caller sets the host's state."""
        values = {"host_id": host, "user_id": user, "registered_at": self._time(), **self._registered(new)}
        self._connection.execute(insert(agents).values(values))
        self._set_down(host, down=True)

    def register(self, host: HostId, new: Registration) -> None:
        """Store the registration of a known agent."""
        self._connection.execute(update(agents).where(agents.c.host_id == host).values(self._registered(new)))
        self._set_down(host, down=True)

    def owner(self, host: str) -> tuple[HostId, UserId] | None:
        """Return the host of that name and the user that it is bound to; None without an agent."""
        row = execute(self._connection, _OWNER, host).fetchone()
        return None if row is None else (HostId(row[0]), UserId(row[1]))

    def states(self, hosts: Collection[str]) -> dict[str, tuple[HostId, AgentState]]:
        """Return the ids of hosts with an agent, and the states of their agents, by the hosts' names."""
        rows = execute(self._connection, _STATES, list(hosts)).fetchall()
        return {name: (HostId(host), AgentState(state)) for name, host, state in rows}

    def heartbeat(
        self, agents: Collection[tuple[str, UserId, str | None]], state: AgentState
    ) -> dict[tuple[str, UserId], tuple[str | None, float | None]]:
        """Record that agents are alive and in the same state as before, by one statement.

        Each is a host, its user, and its machine, None if it does not say which. Return the machines that have
        registered and the self-fencing times, without those that are no such agents in that state.
        """
        clock = self._clock
        postgresql = self._connection.dialect.name == "postgresql"
        lease = _LEASE_POSTGRESQL if postgresql else _LEASE_SQLITE
        statement = _HEARTBEAT.format(now=clock.sql, lease=lease.format(now=clock.sql))
        now, names = clock.value(), [host for host, *_ in agents]
        owners = [f"{user}\n{host}" for host, user, _ in agents]  # neither has a line end
        machines = [f"{user}\n{host}\n{machine or ''}" for host, user, machine in agents]
        values = (now, now, names, str(state), owners, machines, machines)
        rows = execute(self._connection, statement, *values).fetchall()
        return {(host, UserId(user)): (machine, self_fencing_s) for host, user, machine, self_fencing_s in rows}

    def set_state(self, host: HostId, state: AgentState) -> None:
        """Store another state that a living agent reports."""
        values = {"state": state, "heartbeat_at": self._time(), "lease_until": self._lease(), "fenced_at": None}
        self._connection.execute(update(agents).where(agents.c.host_id == host).values(values))
        self._set_down(host, down=state is not AgentState.UP)

    def now(self) -> datetime:
        """Return the time of the database's clock."""
        return self._connection.execute(select(self._time())).scalar_one()

    def any_silent(self, down_after_s: float) -> bool:
        """Return whether an agent that is not down had no heartbeat for that time."""
        silent = select(agents.c.host_id).where(self._is_silent(down_after_s)).limit(1)
        return self._connection.execute(silent).first() is not None

    def take_silent(self, down_after_s: float) -> list[HostId]:
        """Set agents without a heartbeat for that time to down. Return their hosts; a host is returned once.

        Those of hosts that another transaction changes stay for the next call.
        """
        silent = select(agents.c.host_id).where(self._is_silent(down_after_s)).order_by(agents.c.host_id)
        unlocked = select(hosts.c.id).where(hosts.c.id.in_(silent)).order_by(hosts.c.id)
        locked = self._connection.execute(unlocked.with_for_update(key_share=True, skip_locked=True)).scalars().all()
        if not locked:
            return []
        self._topology.begin_change()
        own = silent.where(agents.c.host_id.in_(locked))
        ids = self._connection.execute(own.with_for_update(skip_locked=True))
        found = list(ids.scalars().all())
        if found:
            down = update(agents).where(agents.c.host_id.in_(found)).values(state=AgentState.DOWN)
            self._connection.execute(down)
            changed = update(hosts).where(hosts.c.id.in_(found), hosts.c.agent_down.is_(sa.false()))
            ids_changed = (
                self._connection.execute(changed.values(agent_down=True).returning(hosts.c.id)).scalars().all()
            )
            if ids_changed:
                self._topology.changed(providers=list(ids_changed))
        return found

    def fencing_leases(self) -> list[FencingLease]:
        """Return the self-fencing leases of all hosts that are not fenced."""
        rows = self._connection.execute(_LEASES)
        return [FencingLease(host, AgentState(state), *times) for host, state, *times in rows]

    def end_leases(self, ended: Collection[FencingLease]) -> list[HostId]:
        """Store that hosts have fenced themselves, unless their agents have reported since. Return those hosts."""
        heartbeats = sa.tuple_(agents.c.host_id, agents.c.heartbeat_at)
        same = heartbeats.in_([(each.host_id, each.heartbeat_at) for each in ended])
        still = same & agents.c.fenced_at.is_(None) & agents.c.lease_until.is_not(None)
        is_down = agents.c.state == AgentState.DOWN
        rows = (
            select(agents.c.host_id).where(is_down, still).order_by(agents.c.host_id).with_for_update(skip_locked=True)
        )
        found = list(self._connection.execute(rows).scalars())
        if found:
            fenced = update(agents).where(agents.c.host_id.in_(found)).values(fenced_at=self._time())
            self._connection.execute(fenced)
        return found

    def begin_fencing(self, host: HostId, holder: str, lease_s: float, *, only_down: bool) -> bool:
        """Lease the fencing of a host to a holder. Return False while another one has it, or if the host is not down.

        Unless `only_down`, the host may be up.
        """
        is_free = agents.c.fencing_until.is_(None) | (agents.c.fencing_until <= self._time())
        if only_down:
            is_free &= agents.c.state == AgentState.DOWN
        lease = {"fencing_by": holder, "fencing_until": self._time(lease_s), "fencing_error": None}
        leased = update(agents).where(agents.c.host_id == host, is_free).values(lease)
        return self._connection.execute(leased).rowcount == 1

    def end_fencing(self, host: HostId, holder: str, error: str | None = None) -> bool:
        """End the lease of a holder. Return False if the agent has registered since, or another one has the lease."""
        held = (agents.c.host_id == host) & (agents.c.fencing_by == holder)
        ended = {"fencing_by": None, "fencing_until": None, "fencing_error": error}
        return self._connection.execute(update(agents).where(held).values(ended)).rowcount == 1

    def take_fencing_error(self, host: HostId) -> str | None:
        """Return why the host could not be fenced, once."""
        failed = (agents.c.host_id == host) & agents.c.fencing_error.is_not(None)
        error = self._connection.execute(select(agents.c.fencing_error).where(failed).with_for_update()).scalar()
        if error is not None:
            self._connection.execute(update(agents).where(failed).values(fencing_error=None))
        return error

    def set_fenced(self, host: HostId) -> None:
        """Store that a host was fenced, unless its agent has reported since."""
        is_down = (agents.c.host_id == host) & (agents.c.state == AgentState.DOWN)
        self._connection.execute(update(agents).where(is_down).values(fenced_at=self._time()))

    def fence(self, host: HostId) -> None:
        """Store that an operator has fenced a host, which is down."""
        down = update(agents).where(agents.c.host_id == host)
        self._connection.execute(down.values(state=AgentState.DOWN, fenced_at=self._time()))
        self._set_down(host, down=True)

    def uses_image(self, user: UserId, image: str) -> bool:
        """Return whether a server on, or on its way to, a host of the user's agents boots an image."""
        own = select(agents.c.host_id).where(agents.c.user_id == user)
        there = servers.c.host_id.in_(own) | servers.c.second_host_id.in_(own)
        used = select(servers.c.id).where(servers.c.image_id == image, there).limit(1)
        return self._connection.execute(used).first() is not None

    def _is_silent(self, down_after_s: float) -> sa.ColumnElement[bool]:
        return (agents.c.state != AgentState.DOWN) & (agents.c.heartbeat_at < self._time(-down_after_s))

    def _registered(self, new: Registration) -> dict[str, object]:
        return {
            "hypervisor": new.hypervisor,
            "version": new.version,
            "address": new.address,
            "machine_id": new.machine_id,
            "traits": dump(sorted(new.traits)),
            "self_fencing_s": new.self_fencing_s,
            "state": AgentState.STARTING,
            "heartbeat_at": self._time(),
            "lease_until": None if new.self_fencing_s is None else self._time(new.self_fencing_s),
            "fenced_at": None,
            "fencing_by": None,
            "fencing_until": None,
            "fencing_error": None,
        }

    def _lease(self) -> sa.ColumnElement[Any]:
        """Return the end of the lease that a heartbeat grants, by the agent's own self-fencing time."""
        if self._connection.dialect.name == "postgresql":
            return self._time() + agents.c.self_fencing_s * sa.literal_column("interval '1 second'", sa.Interval)
        return sa.func.strftime("%Y-%m-%d %H:%M:%f000", self._time(), agents.c.self_fencing_s.concat(" seconds"))

    def _set_down(self, host: HostId, *, down: bool) -> None:
        other = (hosts.c.id == host) & (hosts.c.agent_down.is_(not down))
        if self._connection.execute(update(hosts).where(other).values(agent_down=down)).rowcount:
            self._topology.changed(providers=[host])

    def _find(self, condition: sa.ColumnElement[bool]) -> list[Agent]:
        query = select(*_COLUMNS, self._time().label("now")).join_from(agents, hosts, agents.c.host_id == hosts.c.id)
        return [_agent(row) for row in self._connection.execute(query.where(condition).order_by(hosts.c.name))]


def _agent(row: Sequence[Any]) -> Agent:
    host, name, user, hypervisor, version, address, state, traits, *rest = row
    known = frozenset(load(traits, list[str]))
    return Agent(host, name, user, hypervisor, version, address, AgentState(state), known, *rest)
