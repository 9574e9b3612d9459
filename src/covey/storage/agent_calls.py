"""Calls of the driver that agents carry out, by the database's clock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, select, update

from covey.model.agents import OPEN, Call, CallState, NewCall, Report, RunningMigration, TakenCall, Verb
from covey.model.ids import HostId, ServerId, UserId
from covey.model.servers import BootData
from covey.ports import Clock
from covey.storage.database_clock import DatabaseClock
from covey.storage.rows import dump, execute, insert_rows, load, pipeline
from covey.storage.tables import agent_calls, hosts, server_boot_data, servers
from covey.storage.work import Work

_JOBS = """
    SELECT server_id, epoch, id FROM work
    WHERE server_id IN ? AND server_id || '@' || epoch IN ? ORDER BY id FOR NO KEY UPDATE
"""
_MADE = "SELECT job_id, verb, host_id FROM agent_calls WHERE job_id IN ?"
_OF_JOB = (
    (agent_calls.c.job_id == bindparam("job"))
    & (agent_calls.c.verb == bindparam("wanted"))
    & (agent_calls.c.host_id == bindparam("host"))
)
_CAN_BE_TAKEN = "(state = 'waiting' OR (state = 'running' AND leased_until <= {}))"
# An agent that was declared down registers before it takes calls: its job may have gone on without it.
_REPORTS = "EXISTS (SELECT 1 FROM agents WHERE agents.host_id = agent_calls.host_id AND agents.state <> 'down')"
_HOSTS_WITH_CALLS = f"SELECT DISTINCT host_id FROM agent_calls WHERE {_CAN_BE_TAKEN} AND {_REPORTS}"  # noqa: S608 -- nothing of a caller's
_POLL = f"""
    SELECT a.host_id, a.user_id, a.state <> 'down' AND EXISTS (
        SELECT 1 FROM agent_calls WHERE host_id = a.host_id AND {_CAN_BE_TAKEN}
    )
    FROM agents a JOIN hosts h ON h.id = a.host_id WHERE h.name = ?
"""  # noqa: S608
_FREE = f"""
    SELECT id, host_id FROM agent_calls WHERE host_id IN ? AND {_CAN_BE_TAKEN} AND {_REPORTS} ORDER BY id LIMIT 1000
    FOR UPDATE SKIP LOCKED
"""  # noqa: S608
_TAKE = """
    UPDATE agent_calls SET state = 'running', leased_until = {} WHERE id IN ?
    RETURNING id, host_id, verb, epoch, arguments, guest
"""
_NEW = ("host_id", "server_id", "job_id", "verb", "epoch", "arguments", "guest", "state")
_ADDED = " RETURNING id, job_id, verb, host_id"
_ADD_POSTGRESQL = f"""
    INSERT INTO agent_calls ({", ".join(_NEW)}, created_at, leased_until)
    SELECT {", ".join(_NEW)}, {{now}}, CASE WHEN state = 'running' THEN {{until}} END FROM json_to_recordset(?::json)
        AS r(host_id int, server_id text, job_id bigint, verb text, epoch bigint, arguments text, guest text,
             state text)
    {_ADDED}
"""  # noqa: S608
_REPORTED = """
    SELECT c.id, c.epoch, h.name, a.user_id, c.job_id, c.verb
    FROM agent_calls c JOIN agents a ON a.host_id = c.host_id JOIN hosts h ON h.id = c.host_id WHERE c.id IN ?
"""
# Of a server on two hosts, the destination of a migration is the one whose agent does not carry the call out.
_REPORT = """
    UPDATE agent_calls SET state = ?, leased_until = {}, progress = COALESCE(?, progress), result = ?, error = ?
    WHERE id = ? AND epoch = ? AND state IN ('waiting', 'running')
    RETURNING CASE WHEN verb = 'migrate' AND NOT abort THEN EXISTS (
        SELECT 1 FROM servers s JOIN agents a ON a.host_id IN (s.host_id, s.second_host_id)
        WHERE s.id = agent_calls.server_id AND a.host_id <> agent_calls.host_id AND a.fenced_at IS NOT NULL
    ) ELSE abort END
"""
_ARRIVED = """
    UPDATE agents SET fenced_at = NULL, lease_until = NULL WHERE host_id IN (
        SELECT a.host_id FROM agent_calls c JOIN servers s ON s.id = c.server_id
            JOIN agents a ON a.host_id IN (s.host_id, s.second_host_id)
        WHERE c.id IN ? AND c.state = 'done' AND a.host_id <> c.host_id
    )
"""
_FENCED = """
    SELECT c.id FROM agent_calls c JOIN servers s ON s.id = c.server_id
        JOIN agents a ON a.host_id IN (s.host_id, s.second_host_id)
    WHERE c.id IN ? AND a.host_id <> c.host_id AND a.fenced_at IS NOT NULL
"""
_DONE = """
    SELECT w.server_id, w.epoch, c.verb, h.name
    FROM work w JOIN agent_calls c ON c.job_id = w.id JOIN hosts h ON h.id = c.host_id
    WHERE w.server_id IN ? AND c.state = 'done'
"""
_CALL = """
    SELECT c.state, c.result, c.arguments FROM work w JOIN agent_calls c ON c.job_id = w.id
        JOIN hosts h ON h.id = c.host_id
    WHERE w.server_id = ? AND w.epoch = ? AND c.verb = ? AND h.name = ?
"""
_SET_POWER = (Verb.SPAWN, Verb.POWER, Verb.EVACUATE)  # a migrated guest may have an older epoch in its metadata
_LAST_CALL = select(sa.func.max(agent_calls.c.epoch)).where(
    agent_calls.c.server_id == bindparam("server"),
    agent_calls.c.job_id.is_not(None),
    agent_calls.c.verb.in_(_SET_POWER),
    agent_calls.c.state == CallState.DONE,
)
_BOOT_DATA = select(server_boot_data).where(server_boot_data.c.server_id.in_(bindparam("ids", expanding=True)))
_MIGRATIONS = (
    select(agent_calls.c.server_id, hosts.c.name, agent_calls.c.arguments, agent_calls.c.progress)
    .join_from(agent_calls, hosts, agent_calls.c.host_id == hosts.c.id)
    .where(agent_calls.c.verb == Verb.MIGRATE, agent_calls.c.state == CallState.RUNNING)
    .order_by(agent_calls.c.id)
)


@dataclass(frozen=True, slots=True)
class _Migrate:
    """The arguments of a migration."""

    live: bool
    destination: dict[str, str]


class AgentCalls:
    """Every call that is not consumed yet."""

    def __init__(self, connection: sa.Connection, clock: Clock | None = None) -> None:
        self._connection = connection
        self._clock = clock
        self._now = DatabaseClock(connection, clock)
        self._time = self._now.time

    def lock_jobs(self, leases: Collection[tuple[ServerId, int]]) -> dict[tuple[ServerId, int], int]:
        """Lock the jobs of servers that are leased with these epochs. Return their rows' ids, without lost leases."""
        ids, names = [server for server, _ in leases], [f"{server}@{epoch}" for server, epoch in leases]
        rows = execute(self._connection, _JOBS, ids, names).fetchall()
        return {(ServerId(server), epoch): job for server, epoch, job in rows}

    def done(self, ids: Collection[ServerId]) -> set[tuple[ServerId, int, Verb, str]]:
        """Return the calls of these servers' jobs that agents have reported done: server, epoch, verb and host."""
        rows = execute(self._connection, _DONE, list(ids)).fetchall()
        return {(ServerId(server), epoch, Verb(verb), host) for server, epoch, verb, host in rows}

    def result(self, server: ServerId, epoch: int, verb: Verb, host: str) -> str | None:
        """Return the result of a call that an agent has reported done; None without one."""
        row = execute(self._connection, _CALL, server, epoch, str(verb), host).fetchone()
        return None if row is None or row[0] != CallState.DONE else row[1]

    def arguments(self, server: ServerId, epoch: int, verb: Verb, host: str) -> dict[str, object] | None:
        """Return the arguments of a call that the server's job has made; None without one."""
        row = execute(self._connection, _CALL, server, epoch, str(verb), host).fetchone()
        return None if row is None else load(row[2], dict[str, object])

    def made(self, jobs: Collection[int]) -> set[tuple[int, Verb, HostId]]:
        """Return the calls that these jobs have made, in any state: job, verb and host."""
        rows = execute(self._connection, _MADE, list(jobs)).fetchall()
        return {(job, Verb(verb), HostId(host)) for job, verb, host in rows}

    def of_job(self, job: int, verb: Verb, host: HostId) -> Call | None:
        """Return the call that a job has made."""
        return self._one(_OF_JOB, {"job": job, "wanted": verb, "host": host})

    def by_id(self, call: int) -> Call | None:
        return self._one(agent_calls.c.id == bindparam("call"), {"call": call})

    def add(self, new: Sequence[NewCall], lease_s: float) -> list[int]:
        """Add calls, one of each job, verb and host. Return their ids.

        Those that are handed out already are leased to the agents of their hosts for that time; the others wait.
        """
        rows = [
            (
                each.host_id,
                each.server_id,
                each.job_id,
                str(each.verb),
                each.epoch,
                dump(each.arguments),
                dump(each.guest),
                str(CallState.RUNNING if each.handed_out else CallState.WAITING),
            )
            for each in new
        ]
        until, times = self._now.sql_after(lease_s)
        if self._connection.dialect.name == "postgresql":
            statement = _ADD_POSTGRESQL.format(now=self._now.sql, until=until)
            records = dump([dict(zip(_NEW, row, strict=True)) for row in rows])
            added = execute(self._connection, statement, self._now.value(), *times, records).fetchall()
        else:
            present = self._now.value()
            timed = [
                (*row, present, times[0] if each.handed_out else None) for row, each in zip(rows, new, strict=True)
            ]
            cursors = insert_rows(self._connection, agent_calls, (*_NEW, "created_at", "leased_until"), timed, _ADDED)
            added = [row for cursor in cursors for row in cursor.fetchall()]
        ids = {(job, verb, host): call for call, job, verb, host in added}
        return [ids[each.job_id, str(each.verb), each.host_id] for each in new]

    def take_over(self, call: int, epoch: int) -> None:
        """Give an open call the epoch of a newer lease. The agent that has the old one starts again.

        A call that an agent has begun stays a running one: its host may run the guest.
        """
        again = {"epoch": epoch, "leased_until": self._time()}
        self._connection.execute(update(agent_calls).where(agent_calls.c.id == call).values(again))

    def release(self, host: HostId) -> None:
        """End the leases of the calls that a host's agent has taken: it registers, and may have forgotten them."""
        taken = (agent_calls.c.host_id == host) & (agent_calls.c.state == CallState.RUNNING)
        self._connection.execute(update(agent_calls).where(taken).values(leased_until=self._time()))

    def delete(self, call: int) -> None:
        self._connection.execute(delete(agent_calls).where(agent_calls.c.id == call))

    def delete_free(self, call: int) -> bool:
        """Delete a call that no agent has at present. Return False if one has it, or has reported since."""
        c = agent_calls.c
        waits = c.state == CallState.WAITING
        free = waits | ((c.state == CallState.RUNNING) & (c.leased_until <= self._time()))
        return self._connection.execute(delete(agent_calls).where(c.id == call, free)).rowcount == 1

    def delete_lost(self, before_s: float) -> int:
        """Delete calls of requests that ended long ago without a report. Return their number."""
        lost = agent_calls.c.job_id.is_(None) & (agent_calls.c.created_at < self._time(-before_s))
        return self._connection.execute(delete(agent_calls).where(lost)).rowcount

    def abort(self, call: int) -> None:
        """Ask the agent to end an operation."""
        self._connection.execute(update(agent_calls).where(agent_calls.c.id == call).values(abort=True))

    def hosts_with_calls(self) -> set[HostId]:
        """Return the hosts whose agents have calls to take."""
        rows = execute(self._connection, _HOSTS_WITH_CALLS.format(self._now.sql), self._now.value())
        return {HostId(row[0]) for row in rows.fetchall()}

    def any_for(self, host: str) -> tuple[HostId, UserId, bool] | None:
        """Return the host of that name, its agent's user, and whether it has a call to take; None without an agent."""
        row = execute(self._connection, _POLL.format(self._now.sql), self._now.value(), host).fetchone()
        return None if row is None else (HostId(row[0]), UserId(row[1]), bool(row[2]))

    def take(self, limits: Mapping[HostId, int], lease_s: float) -> list[TakenCall]:
        """Return calls for the agents of hosts, leased to them: those that wait, and those whose lease has ended.

        No host gets more than its limit. A migration that is handed out again says if its destination is fenced.
        """
        left, found = dict(limits), []
        for call, host in execute(
            self._connection, _FREE.format(self._now.sql), list(limits), self._now.value()
        ).fetchall():
            if left[host] > 0:
                left[host] -= 1
                found.append(call)
        if not found:
            return []
        until, times = self._now.sql_after(lease_s)
        rows = execute(self._connection, _TAKE.format(until), *times, found).fetchall()
        migrations = [row[0] for row in rows if row[2] == Verb.MIGRATE]
        fenced = {row[0] for row in execute(self._connection, _FENCED, migrations).fetchall()} if migrations else set()
        return [_taken(*row, fenced=row[0] in fenced) for row in sorted(rows)]

    def report(self, reports: Sequence[tuple[int, str, UserId, Report]], lease_s: float) -> list[bool | None]:
        """Store what agents report of calls, each with the host's name and the agent's user.

        Calls that have ended make their jobs due. Return for each whether the agent is to abort the operation; None if
        the call is gone, has a newer epoch, or belongs to another agent. A migration to a fenced host is aborted. One
        that is done has started a guest there, maybe after that host had stopped its guests: it is not fenced, and has
        no self-fencing lease before its agent's next heartbeat.
        """
        rows = execute(self._connection, _REPORTED, [call for call, *_ in reports]).fetchall()
        jobs = {(call, epoch, host, user): job for call, epoch, host, user, job, _ in rows}
        migrations = {row[0] for row in rows if row[-1] == Verb.MIGRATE}
        known = [(call, report.epoch, host, user) in jobs for call, host, user, report in reports]
        ended = {
            jobs[call, report.epoch, host, user]
            for is_known, (call, host, user, report) in zip(known, reports, strict=True)
            if is_known and report.state not in OPEN
        }
        with pipeline(self._connection):
            # The jobs before the calls, as the end of a job locks them.
            Work(self._connection, self._clock).wake(sorted(job for job in ended if job is not None))
            cursors = [
                self._report(call, report, lease_s) if is_known else None
                for is_known, (call, _, _, report) in zip(known, reports, strict=True)
            ]
        stored = [[] if cursor is None else cursor.fetchall() for cursor in cursors]
        arrived = [
            call
            for is_known, (call, *_, report) in zip(known, reports, strict=True)
            if is_known and call in migrations and report.state is CallState.DONE
        ]
        if arrived:
            execute(self._connection, _ARRIVED, arrived)
        return [bool(rows[0][0]) if rows else None for rows in stored]

    def _report(self, call: int, report: Report, lease_s: float) -> Any:  # noqa: ANN401 -- the driver's cursor
        until, times = self._now.sql_after(lease_s)
        progress = None if report.progress is None else dump(report.progress)
        outcome = (None, None) if report.state in OPEN else (report.result, report.error)
        values = (str(report.state), *times, progress, *outcome, call, report.epoch)
        return execute(self._connection, _REPORT.format(until), *values)

    def keep_epoch(self, server: str) -> None:
        """Keep the epoch of the last call of a server's jobs that set the power of its guest, before the jobs end."""
        epoch = self._connection.execute(_LAST_CALL, {"server": server}).scalar()
        if epoch is not None:
            self._connection.execute(update(servers).where(servers.c.id == server).values(call_epoch=epoch))

    def kept_epochs(self, ids: Collection[ServerId]) -> dict[ServerId, int]:
        """Return the epochs that are kept of these servers. A guest that is seen with a smaller one was seen before."""
        kept = select(servers.c.id, servers.c.call_epoch).where(
            servers.c.id.in_(ids), servers.c.call_epoch.is_not(None)
        )
        return dict(self._connection.execute(kept).all()) if ids else {}

    def boot_data(self, ids: Collection[ServerId]) -> dict[ServerId, BootData]:
        """Return the boot data of those of the servers that have any."""
        rows = self._connection.execute(_BOOT_DATA, {"ids": list(ids)}) if ids else ()
        return {ServerId(server): BootData(*data) for server, *data in rows}

    def progress(self, server: ServerId) -> Mapping[str, int] | None:
        """Return the progress of a server's migration; None if none is reported."""
        of_server = (agent_calls.c.server_id == server) & (agent_calls.c.verb == Verb.MIGRATE)
        found = self._connection.execute(select(agent_calls.c.progress).where(of_server)).scalars().first()
        return None if found is None else load(found, dict[str, int])

    def migrations(self) -> list[RunningMigration]:
        """Return the migrations that agents carry out now, the oldest first."""
        return [_migration(*row) for row in self._connection.execute(_MIGRATIONS)]

    def _one(self, condition: sa.ColumnElement[bool], values: Mapping[str, object]) -> Call | None:
        row = self._connection.execute(select(*self._columns()).where(condition), values).first()
        return None if row is None else _call(row)

    def _columns(self) -> tuple[sa.ColumnElement[Any], ...]:
        """Return columns in the order of Call's fields."""
        c = agent_calls.c
        leased = sa.func.coalesce(c.leased_until > self._time(), sa.false())
        return (
            *(c.id, c.host_id, c.server_id, c.job_id, c.verb, c.epoch, c.arguments, c.guest, c.state),
            *(c.progress, c.result, c.error, c.abort, leased),
        )


def _migration(server: ServerId, source: str, arguments: str, progress: str | None) -> RunningMigration:
    wanted = load(arguments, _Migrate)
    reported = {} if progress is None else load(progress, dict[str, int])
    return RunningMigration(server, source, wanted.destination["name"], wanted.live, reported)


def _taken(call: int, host: int, verb: str, epoch: int, arguments: str, guest: str, *, fenced: bool) -> TakenCall:
    made = load(arguments, dict[str, Any])
    if fenced:
        made["destination"]["fenced"] = True
    return TakenCall(call, HostId(host), Verb(verb), epoch, made, load(guest, dict[str, object]))


def _call(row: Sequence[Any]) -> Call:
    call, host, server, job, verb, epoch, arguments, guest, state, progress, *rest = row
    return Call(
        call,
        host,
        server,
        job,
        Verb(verb),
        epoch,
        load(arguments, dict[str, object]),
        load(guest, dict[str, object]),
        CallState(state),
        None if progress is None else load(progress, dict[str, int]),
        *rest,
    )
