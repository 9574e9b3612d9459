"""Key pairs of users."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, func, insert, select

from covey.model.errors import Conflict
from covey.model.ids import UserId
from covey.model.keypairs import KeyPair, KeyType
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.tables import key_pairs

_OF_USER = (
    select(  # in the order of KeyPair's fields
        key_pairs.c.user_id,
        key_pairs.c.name,
        key_pairs.c.type,
        key_pairs.c.public_key,
        key_pairs.c.fingerprint,
        key_pairs.c.created_at,
        key_pairs.c.id,
    )
    .where(key_pairs.c.user_id == bindparam("user"))
    .order_by(key_pairs.c.name)
)
_BY_NAME = _OF_USER.where(key_pairs.c.name == bindparam("wanted"))
_COUNT = select(func.count()).select_from(key_pairs).where(key_pairs.c.user_id == bindparam("user"))
_DELETE = delete(key_pairs).where(key_pairs.c.user_id == bindparam("user"), key_pairs.c.name == bindparam("gone"))


class KeyPairs:
    """Every key pair."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def find(self, user: UserId, after: str | None = None, limit: int | None = None) -> list[KeyPair]:
        """Return a page of a user's key pairs by name; with `after`, those after that name."""
        page = _OF_USER if after is None else _OF_USER.where(key_pairs.c.name > after)
        return [_key_pair(row) for row in self._connection.execute(page.limit(limit), {"user": user})]

    def by_name(self, user: UserId, name: str) -> KeyPair | None:
        row = self._connection.execute(_BY_NAME, {"user": user, "wanted": name}).first()
        return None if row is None else _key_pair(row)

    def count(self, user: UserId) -> int:
        return self._connection.execute(_COUNT, {"user": user}).scalar_one()

    def add(self, new: KeyPair) -> None:
        """Add a key pair. Raises Conflict when the user has one of that name."""
        values = {
            "user_id": new.user_id,
            "name": new.name,
            "type": new.type,
            "public_key": new.public_key,
            "fingerprint": new.fingerprint,
            "created_at": new.created_at,
        }
        with integrity_error_as(Conflict(f"Key pair '{new.name}' already exists.")):
            self._connection.execute(insert(key_pairs), values)

    def delete(self, user: UserId, name: str) -> bool:
        """Delete a key pair. Return whether it existed."""
        return self._connection.execute(_DELETE, {"user": user, "gone": name}).rowcount == 1


def _key_pair(row: Sequence[Any]) -> KeyPair:
    user, name, kind, *rest = row
    return KeyPair(user, name, KeyType(kind), *rest)
