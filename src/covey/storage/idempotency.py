"""Idempotency keys: a request that a client repeats with the same key is carried out once."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from covey.model.claims import Answer, IdempotencyKey
from covey.model.ids import ProjectId
from covey.storage.rows import dump, load
from covey.storage.tables import idempotency_keys as keys

_KEY = (keys.c.project_id == bindparam("project")) & (keys.c.key == bindparam("name"))
_READ = select(keys.c.fingerprint, keys.c.answer).where(_KEY)
_ANSWER = update(keys).where(_KEY).values(fingerprint=bindparam("request"), answer=bindparam("servers"))
_FORGET = delete(keys).where(_KEY)
_PURGE = delete(keys).where(keys.c.created_at < bindparam("before"))
_ADD = {
    "postgresql": postgresql.insert(keys).on_conflict_do_nothing(),
    "sqlite": sqlite.insert(keys).on_conflict_do_nothing(),
}


class IdempotencyKeys:
    """The answer to each key."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def reserve(self, requested: Iterable[IdempotencyKey], now: datetime) -> dict[IdempotencyKey, Answer | None]:
        """Reserve keys for this transaction. Return the stored answer of each, or None for a new key.

        A concurrent transaction that reserves one of the keys waits until this one ends. All transactions reserve
        in the order of the keys, so two cannot deadlock.
        """
        return {key: self._reserve(*key, now) for key in sorted(set(requested))}

    def _reserve(self, project: ProjectId, key: str, now: datetime) -> Answer | None:
        statement = _ADD[self._connection.dialect.name].returning(keys.c.key)
        values = {"project_id": project, "key": key, "fingerprint": "", "answer": "[]", "created_at": now}
        while self._connection.execute(statement, values).first() is None:
            answer = self._read(project, key)
            if answer is not None:  # it is None if another transaction has just purged the key
                return answer
        return None

    def answer(self, answers: Mapping[IdempotencyKey, Answer]) -> None:
        """Store the answer to each of the reserved keys."""
        if answers:
            self._connection.execute(
                _ANSWER,
                [
                    {"project": project, "name": key, "request": fingerprint, "servers": dump(ids)}
                    for (project, key), (fingerprint, ids) in answers.items()
                ],
            )

    def delete(self, unused: Sequence[IdempotencyKey]) -> None:
        """Delete keys whose requests failed, so that a client can use them again."""
        if unused:
            self._connection.execute(_FORGET, [{"project": project, "name": key} for project, key in unused])

    def purge(self, before: datetime) -> None:
        """Delete the keys that are older."""
        self._connection.execute(_PURGE, {"before": before})

    def _read(self, project: ProjectId, key: str) -> Answer | None:
        row = self._connection.execute(_READ, {"project": project, "name": key}).first()
        return None if row is None else (row.fingerprint, load(row.answer, list[str]))
