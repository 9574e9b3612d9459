"""Work rows: what a worker has yet to do, and the outbox: what has yet to be told."""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.work import Job, Notification
from covey.storage.bulk import execute, insert_rows
from covey.storage.documents import dump, load
from covey.storage.tables import outbox, work

_DUE = (
    select(work.c.id, work.c.verb, work.c.server_id, work.c.arguments, work.c.attempts)
    .where(work.c.due_at <= bindparam("now"))
    .order_by(work.c.id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_ANY = select(work.c.id).where(work.c.due_at <= bindparam("now")).limit(1)
_LATER = (
    update(work)
    .where(work.c.id.in_(bindparam("ids", expanding=True)))
    .values(due_at=bindparam("due"), attempts=work.c.attempts + 1)
)
_DONE = delete(work).where(work.c.id.in_(bindparam("ids", expanding=True)))
_NOTES = (
    select(outbox.c.id, outbox.c.event, outbox.c.payload, outbox.c.created_at)
    .order_by(outbox.c.id)
    .limit(bindparam("most"))
)
_NOTE = select(outbox.c.id).limit(1)
_TURN = select(sa.func.pg_try_advisory_xact_lock(0x636F766579))  # of this database; no other program has this number
_TOLD = delete(outbox).where(outbox.c.id.in_(bindparam("ids", expanding=True)))


class Work:
    """Jobs. Taking one postpones it: whoever took it and died leaves it to the next, after a while."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, verb: str, server: str, due: datetime, arguments: dict[str, object] | None = None) -> None:
        values = {"verb": verb, "server_id": server, "arguments": dump(arguments or {}), "due_at": due}
        self._connection.execute(insert(work), values)

    def any_due(self, now: datetime) -> bool:
        return self._connection.execute(_ANY, {"now": now}).first() is not None

    def take(self, now: datetime, again: datetime, most: int) -> list[Job]:
        """Jobs that are due; unless they are done, they are due again at that time."""
        rows = self._connection.execute(_DUE, {"now": now, "most": most}).all()
        if rows:
            self._connection.execute(_LATER, {"ids": [row.id for row in rows], "due": again})
        return [
            Job(row.id, row.verb, row.server_id, load(row.arguments, dict[str, object]), row.attempts) for row in rows
        ]

    def hold(self, job: Job) -> bool:
        """Whether nobody else took the job since, nor can until the end of the transaction."""
        same = select(work.c.attempts).where(work.c.id == job.id, work.c.verb == job.verb).with_for_update()
        return self._connection.execute(same).scalar() == job.attempts + 1

    def done(self, ids: Sequence[int]) -> None:
        if ids:
            self._connection.execute(_DONE, {"ids": list(ids)})

    def finish(self, verb: str, servers: Sequence[str]) -> None:
        """Forget a step of these servers that was done."""
        if servers:
            execute(self._connection, "DELETE FROM work WHERE server_id IN ? AND verb = ?", list(servers), verb)

    def drop(self, server: str) -> None:
        """Forget all that was to be done to a server."""
        self._connection.execute(delete(work).where(work.c.server_id == server))


class Outbox:
    """Notes to send, in the order in which they came about. One process at a time sends them, so they keep it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, notes: Sequence[tuple[str, object]], now: datetime) -> None:
        rows = [(event, dump(payload), now) for event, payload in notes]
        insert_rows(self._connection, outbox, ("event", "payload", "created_at"), rows)

    def is_empty(self) -> bool:
        return self._connection.execute(_NOTE).first() is None

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Whether nobody else is telling; if so, nobody else begins to while the block and its transaction last.

        It hinders nobody from writing, and ends with the process that has it, however that dies.
        """
        if self._connection.dialect.name == "postgresql":
            yield bool(self._connection.execute(_TURN).scalar_one())
        else:
            with _held(f"{self._connection.engine.url.database}-outbox") as mine:
                yield mine

    def oldest(self, most: int) -> list[Notification]:
        rows = self._connection.execute(_NOTES, {"most": most})
        return [Notification(row.id, row.event, load(row.payload, dict[str, object]), row.created_at) for row in rows]

    def told(self, ids: Sequence[int]) -> None:
        """Forget them."""
        if ids:
            self._connection.execute(_TOLD, {"ids": list(ids)})


@contextmanager
def _held(path: str) -> Iterator[bool]:
    """A lock between processes, beside a SQLite file; the lock of the file itself would keep everybody from writing."""
    with Path(path).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
