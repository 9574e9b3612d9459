"""Keys by which a client makes sure that a request it repeats is carried out once."""

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from covey.model.ids import ProjectId
from covey.storage.documents import dump, load
from covey.storage.tables import idempotency_keys as keys

Key = tuple[ProjectId, str]  # a project, and its own name for a request

_MINE = (keys.c.project_id == bindparam("project")) & (keys.c.key == bindparam("name"))
_READ = select(keys.c.fingerprint, keys.c.answer).where(_MINE)
_ANSWER = update(keys).where(_MINE).values(fingerprint=bindparam("request"), answer=bindparam("told"))
_FORGET = delete(keys).where(_MINE)
_ADD = {
    "postgresql": postgresql.insert(keys).on_conflict_do_nothing(),
    "sqlite": sqlite.insert(keys).on_conflict_do_nothing(),
}


class IdempotencyKeys:
    """What was answered to each key."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def reserve(self, wanted: Iterable[Key], now: datetime) -> dict[Key, tuple[str, list[str]] | None]:
        """Take keys for this transaction, and tell None of each; or what it was used for, and what was answered then.

        Whoever uses one of them at the same time waits here for the first to end. Everybody takes them in one
        order, so that two never wait for each other.
        """
        found: dict[Key, tuple[str, list[str]] | None] = {}
        statement = _ADD[self._connection.dialect.name].returning(keys.c.key)
        for project, key in sorted(set(wanted)):
            values = {"project_id": project, "key": key, "fingerprint": "", "answer": "[]", "created_at": now}
            taken = self._connection.execute(statement, values).first() is not None
            found[project, key] = None if taken else self._read(project, key)
        return found

    def answer(self, project: ProjectId, key: str, fingerprint: str, answer: list[str]) -> None:
        """Remember what the request was, and what it brought."""
        told = {"request": fingerprint, "told": dump(answer)}
        self._connection.execute(_ANSWER, {"project": project, "name": key} | told)

    def forget(self, project: ProjectId, key: str) -> None:
        """The request came to nothing: it may be repeated, and the key be used for another."""
        self._connection.execute(_FORGET, {"project": project, "name": key})

    def _read(self, project: ProjectId, key: str) -> tuple[str, list[str]]:
        found = self._connection.execute(_READ, {"project": project, "name": key}).one()
        return found.fingerprint, load(found.answer, list[str])
