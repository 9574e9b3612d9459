"""Work rows: jobs that are not done yet. Outbox rows: notifications that are not published yet."""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.work import Job, JobKind, Notification
from covey.storage.rows import dump, execute, insert_rows, load
from covey.storage.tables import outbox, work

# A newer version may write kinds that this one does not know: such rows are left to its workers.
_KNOWN = work.c.verb.in_(list(JobKind))
_DUE = _KNOWN & (work.c.due_at <= bindparam("now"))
_TAKE = (
    select(work.c.id, work.c.verb, work.c.server_id, work.c.arguments, work.c.attempts)
    .where(_DUE)
    .order_by(work.c.id)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_ANY_DUE = select(work.c.id).where(_DUE).limit(1)
_LEASE = (
    update(work)
    .where(work.c.id.in_(bindparam("ids", expanding=True)))
    .values(due_at=bindparam("until"), attempts=work.c.attempts + 1)
)
_DELETE = delete(work).where(work.c.id.in_(bindparam("ids", expanding=True)))
_UNKNOWN = select(work.c.verb, sa.func.count()).where(~_KNOWN).group_by(work.c.verb)
_OLDEST = (
    select(outbox.c.id, outbox.c.event, outbox.c.payload, outbox.c.created_at)
    .order_by(outbox.c.id)
    .limit(bindparam("limit"))
)
_ANY = select(outbox.c.id).limit(1)
_LOCK = select(sa.func.pg_try_advisory_xact_lock(0x636F766579))  # "covey": no other program uses this number
_PUBLISHED = delete(outbox).where(outbox.c.id.in_(bindparam("ids", expanding=True)))


class Work:
    """Jobs. A taken job has a lease: unless it is done by then, another worker takes it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, kind: JobKind, subject: str, due: datetime, arguments: dict[str, object] | None = None) -> None:
        """Add a job that is due at that time."""
        values = {"verb": kind, "server_id": subject, "arguments": dump(arguments or {}), "due_at": due}
        self._connection.execute(insert(work), values)

    def any_due(self, now: datetime) -> bool:
        """Return whether a job is due."""
        return self._connection.execute(_ANY_DUE, {"now": now}).first() is not None

    def take(self, now: datetime, lease_until: datetime, limit: int) -> list[Job]:
        """Return due jobs, leased until that time. A job of an unknown kind is never returned, and stays as it is."""
        rows = self._connection.execute(_TAKE, {"now": now, "limit": limit}).all()
        if rows:
            self._connection.execute(_LEASE, {"ids": [row.id for row in rows], "until": lease_until})
        return [
            Job(row.id, JobKind(row.verb), row.server_id, load(row.arguments, dict[str, object]), row.attempts)
            for row in rows
        ]

    def unknown_kinds(self) -> dict[str, int]:
        """Return the number of jobs of each kind that this version does not know."""
        return dict(self._connection.execute(_UNKNOWN).all())

    def lock_lease(self, job: Job) -> bool:
        """Lock a job's row. Return whether the caller's lease is still the last one."""
        same = select(work.c.attempts).where(work.c.id == job.id, work.c.verb == job.kind).with_for_update()
        return self._connection.execute(same).scalar() == job.attempts + 1

    def done(self, ids: Sequence[int]) -> None:
        """Delete jobs that are carried out."""
        if ids:
            self._connection.execute(_DELETE, {"ids": list(ids)})

    def finish(self, kind: JobKind, subjects: Sequence[str]) -> None:
        """Delete all jobs of a kind of these subjects."""
        if subjects:
            execute(self._connection, "DELETE FROM work WHERE server_id IN ? AND verb = ?", list(subjects), str(kind))

    def drop(self, subject: str) -> None:
        """Delete all jobs of a subject."""
        self._connection.execute(delete(work).where(work.c.server_id == subject))


class Outbox:
    """Notifications to publish, in the order of their events. One process at a time publishes, which keeps it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, notifications: Sequence[tuple[str, object]], now: datetime) -> None:
        """Add notifications, each an event's name and its payload."""
        rows = [(event, dump(payload), now) for event, payload in notifications]
        insert_rows(self._connection, outbox, ("event", "payload", "created_at"), rows)

    def is_empty(self) -> bool:
        return self._connection.execute(_ANY).first() is None

    @contextmanager
    def publisher_lock(self) -> Iterator[bool]:
        """Try to become the one publisher, for the block and its transaction; yields whether that succeeded.

        Writers are not blocked. The lock ends with the process that holds it, however that dies.
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
