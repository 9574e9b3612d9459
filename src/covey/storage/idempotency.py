"""Keys by which a client makes sure that a request it repeats is carried out once."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from covey.model.ids import ProjectId
from covey.storage.documents import dump, load
from covey.storage.tables import idempotency_keys as keys

_MINE = (keys.c.project_id == bindparam("project")) & (keys.c.key == bindparam("name"))
_READ = select(keys.c.fingerprint, keys.c.answer).where(_MINE)
_ANSWER = update(keys).where(_MINE).values(answer=bindparam("told"))
_ADD = {
    "postgresql": postgresql.insert(keys).on_conflict_do_nothing(),
    "sqlite": sqlite.insert(keys).on_conflict_do_nothing(),
}


class IdempotencyKeys:
    """What was answered to each key."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def reserve(self, project: ProjectId, key: str, fingerprint: str, now: datetime) -> tuple[str, list[str]] | None:
        """Take the key for this transaction, and tell None; or what it was used for, and what was answered then.

        Whoever uses the same key at the same time waits here for the first to end.
        """
        values = {"project_id": project, "key": key, "fingerprint": fingerprint, "answer": "[]", "created_at": now}
        statement = _ADD[self._connection.dialect.name].returning(keys.c.key)
        if self._connection.execute(statement, values).first() is not None:
            return None
        found = self._connection.execute(_READ, {"project": project, "name": key}).one()
        return found.fingerprint, load(found.answer, list[str])

    def answer(self, project: ProjectId, key: str, answer: list[str]) -> None:
        """Remember what the request brought."""
        self._connection.execute(_ANSWER, {"project": project, "name": key, "told": dump(answer)})
