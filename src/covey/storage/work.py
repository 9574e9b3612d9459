"""Work rows: jobs that are not done yet. Outbox rows: notifications that are not published yet."""

import fcntl
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.work import Job, JobKind, Notification, ParkedJob
from covey.ports import Clock
from covey.storage.database_clock import DatabaseClock
from covey.storage.rows import dump, execute, insert_rows, load
from covey.storage.tables import outbox, work

# A newer version may write kinds that this one does not know: such rows are left to its workers.
_KNOWN = work.c.verb.in_(list(JobKind))
_UNKNOWN = select(work.c.verb, sa.func.count()).where(~_KNOWN).group_by(work.c.verb)
_earlier = work.alias("earlier")
_IS_FIRST = ~sa.exists().where(
    _earlier.c.server_id == work.c.server_id, _earlier.c.id < work.c.id, _earlier.c.parked.is_(sa.false())
)
_PARKED = select(work.c.verb, work.c.server_id, work.c.attempts, work.c.error).where(work.c.parked).order_by(work.c.id)
_WAKE = """
    UPDATE work SET woken = true, due_at = CASE WHEN leased_until IS NULL THEN {} ELSE due_at END
    WHERE id IN ? AND NOT parked
"""
_COUNT_PARKED = select(sa.func.count()).where(work.c.parked)
_NEVER = datetime(9999, 12, 31)  # noqa: DTZ001 -- as all times in the database
_MAX_ERROR = 1000  # characters
_OLDEST = (
    select(outbox.c.id, outbox.c.event, outbox.c.payload, outbox.c.created_at)
    .order_by(outbox.c.id)
    .limit(bindparam("limit"))
)
_LOCK = select(sa.func.pg_try_advisory_xact_lock(0x636F766579))  # "covey": no other program uses this number
_PUBLISHED = delete(outbox).where(outbox.c.id.in_(bindparam("ids", expanding=True)))


class Work:
    """Jobs. Those of one subject run one after the other, in the order in which they were added.

    A taken job has a lease: unless it is done or its lease renewed by then, another worker takes it. Times are those of
    the database's clock, so the clocks of workers may differ. A test may bring its own.
    """

    def __init__(self, connection: sa.Connection, clock: Clock | None = None) -> None:
        self._connection = connection
        self._postgresql = connection.dialect.name == "postgresql"
        self._clock = DatabaseClock(connection, clock)
        self._time, self._microseconds = self._clock.time, self._clock.microseconds

    def add(self, kind: JobKind, subject: str, arguments: dict[str, object] | None = None, after_s: float = 0) -> None:
        """Add a job that is due after that time."""
        values = {"verb": kind, "server_id": subject, "arguments": dump(arguments or {}), "due_at": self._time(after_s)}
        self._connection.execute(insert(work).values(values))

    def any_due(self) -> bool:
        """Return whether a job is due, by one statement of the driver: idle workers ask all the time."""
        due = f"SELECT id FROM work WHERE verb IN ? AND due_at <= {self._clock.sql} LIMIT 1"  # noqa: S608
        return bool(execute(self._connection, due, list(JobKind), self._clock.value()).fetchall())

    def take(self, lease_s: float, limit: int) -> list[Job]:
        """Return due jobs, leased for that time. A job of an unknown kind is never returned, and stays as it is."""
        due = select(work.c.id).where(self._is_due(), _IS_FIRST).order_by(work.c.id).limit(limit)
        ids = self._connection.execute(due.with_for_update(skip_locked=True)).scalars().all()
        if not ids:
            return []
        until, newer = self._time(lease_s), sa.func.greatest if self._postgresql else sa.func.max
        lease = update(work).values(
            due_at=until,
            leased_until=until,
            attempts=work.c.attempts + 1,
            epoch=newer(work.c.epoch + 1, self._microseconds()),
            woken=False,
        )
        columns = (work.c.id, work.c.verb, work.c.server_id, work.c.arguments, work.c.epoch, work.c.attempts)
        rows = self._connection.execute(lease.where(work.c.id.in_(ids)).returning(*columns)).all()
        return [
            Job(JobKind(row.verb), row.server_id, load(row.arguments, dict[str, object]), row.epoch, row.attempts)
            for row in sorted(rows, key=lambda row: row.id)
        ]

    def renew(self, jobs: Collection[Job], lease_s: float) -> set[tuple[str, int]]:
        """Renew the leases of jobs. Return subject and epoch of those that still had theirs."""
        until = self._time(lease_s)
        renewed = update(work).where(_is_leased(jobs)).values(due_at=until, leased_until=until)
        rows = self._connection.execute(renewed.returning(work.c.server_id, work.c.epoch))
        return {(row.server_id, row.epoch) for row in rows}

    def lock_lease(self, job: Job) -> bool:
        """Lock a job's row. Return whether the caller's lease is still the last one."""
        same = select(work.c.id).where(_is_leased([job])).with_for_update()
        return self._connection.execute(same).first() is not None

    def done(self, jobs: Collection[Job]) -> None:
        """Delete jobs that are carried out; not those that another worker has taken since."""
        for (kind, epoch), group in _by_lease(jobs).items():
            deleted = "DELETE FROM work WHERE server_id IN ? AND verb = ? AND epoch = ?"
            execute(self._connection, deleted, group, str(kind), epoch)

    def complete(self, job: Job) -> bool:
        """Delete a job that is carried out. Return False if another worker has taken it since."""
        return self._connection.execute(delete(work).where(_is_leased([job]))).rowcount == 1

    def postpone(self, jobs: Collection[Job], after_s: float) -> None:
        """Make jobs due again after that time, or at once where `wake` was called. This is no attempt, and no failure.

        A job keeps its place before later ones of its subject.
        """
        due_at = sa.case((work.c.woken, self._time()), else_=self._time(after_s))
        attempts = sa.case((work.c.attempts > 0, work.c.attempts - 1), else_=0)
        self._connection.execute(
            update(work).where(_is_leased(jobs)).values(leased_until=None, due_at=due_at, attempts=attempts)
        )

    def wake(self, jobs: Sequence[int]) -> None:
        """Make jobs due that wait for an operation; one that a worker has now is due when it is postponed."""
        if jobs:
            execute(self._connection, _WAKE.format(self._clock.sql), self._clock.value(), list(jobs))

    def wake_subject(self, subject: str) -> None:
        """Like `wake`, for all jobs of a subject."""
        self.wake(self._connection.execute(select(work.c.id).where(work.c.server_id == subject)).scalars().all())

    def retry(self, job: Job, error: str, after_s: float) -> None:
        """Make a job that failed due again after that time."""
        self._end_lease(job, error, due_at=self._time(after_s))

    def park(self, job: Job, error: str) -> None:
        """Take a job that failed too often away from the workers."""
        self._end_lease(job, error, due_at=_NEVER, parked=True)

    def parked(self, limit: int) -> list[ParkedJob]:
        """Return the oldest parked jobs."""
        return [ParkedJob(*row) for row in self._connection.execute(_PARKED.limit(limit))]

    def count_parked(self) -> int:
        """Return the number of parked jobs."""
        return self._connection.execute(_COUNT_PARKED).scalar_one()

    def unpark(self) -> int:
        """Make all parked jobs due now, as if they had not failed. Return their number."""
        again = update(work).where(work.c.parked).values(parked=False, attempts=0, due_at=self._time())
        return self._connection.execute(again).rowcount

    def finish(self, kind: JobKind, subjects: Sequence[str]) -> None:
        """Delete all jobs of a kind of these subjects."""
        if subjects:
            execute(self._connection, "DELETE FROM work WHERE server_id IN ? AND verb = ?", list(subjects), str(kind))

    def drop(self, subject: str) -> None:
        """Delete all jobs of a subject."""
        self._connection.execute(delete(work).where(work.c.server_id == subject))

    def drop_waiting(self, subject: str) -> None:
        """Delete the jobs of a subject that no worker carries out at present."""
        waits = work.c.leased_until.is_(None) | (work.c.leased_until <= self._time())
        self._connection.execute(delete(work).where(work.c.server_id == subject, waits))

    def epochs(self, subjects: Collection[str]) -> dict[str, int]:
        """Return the newest epoch of the jobs of each subject that has any."""
        newest = select(work.c.server_id, sa.func.max(work.c.epoch)).where(work.c.server_id.in_(subjects))
        return dict(self._connection.execute(newest.group_by(work.c.server_id)).all()) if subjects else {}

    def unknown_kinds(self) -> dict[str, int]:
        """Return the number of jobs of each kind that this version does not know."""
        return dict(self._connection.execute(_UNKNOWN).all())

    def _end_lease(self, job: Job, error: str, **values: object) -> None:
        self._connection.execute(
            update(work).where(_is_leased([job])).values(leased_until=None, error=error[:_MAX_ERROR], **values)
        )

    def _is_due(self) -> sa.ColumnElement[bool]:
        return _KNOWN & (work.c.due_at <= self._time())


def _is_leased(jobs: Collection[Job]) -> sa.ColumnElement[bool]:
    leases = [(job.subject_id, job.kind, job.epoch) for job in jobs]
    return sa.tuple_(work.c.server_id, work.c.verb, work.c.epoch).in_(leases)


def _by_lease(jobs: Collection[Job]) -> dict[tuple[JobKind, int], list[str]]:
    groups: dict[tuple[JobKind, int], list[str]] = {}
    for job in jobs:
        groups.setdefault((job.kind, job.epoch), []).append(job.subject_id)
    return groups


class Outbox:
    """Notifications to publish, in the order of their events. One process at a time publishes, which keeps it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, notifications: Sequence[tuple[str, object]], created_at: datetime) -> None:
        """Add notifications, each an event's name and its payload."""
        rows = [(event, dump(payload), created_at) for event, payload in notifications]
        insert_rows(self._connection, outbox, ("event", "payload", "created_at"), rows)

    def is_empty(self) -> bool:
        return not execute(self._connection, "SELECT id FROM outbox LIMIT 1").fetchall()

    @contextmanager
    def publisher_lock(self) -> Iterator[bool]:
        """Try to become the one publisher, for the block and its transaction; yields whether that succeeded.

        Writers are not blocked. The lock ends with the process that holds it.
        """
        if self._connection.dialect.name == "postgresql":
            yield bool(self._connection.execute(_LOCK).scalar_one())
        else:
            with _file_lock(f"{self._connection.engine.url.database}-outbox") as acquired:
                yield acquired

    def oldest(self, limit: int) -> list[Notification]:
        """Return the notifications that are to be published next."""
        rows = self._connection.execute(_OLDEST, {"limit": limit})
        return [Notification(row.id, row.event, load(row.payload, dict[str, object]), row.created_at) for row in rows]

    def published(self, ids: Sequence[int]) -> None:
        """Delete notifications that are published."""
        if ids:
            self._connection.execute(_PUBLISHED, {"ids": list(ids)})


@contextmanager
def _file_lock(path: str) -> Iterator[bool]:
    """Lock a file beside the SQLite database: a lock on the database itself would block every writer."""
    with Path(path).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
