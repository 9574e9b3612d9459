"""What follows a commit, and what was answered to requests that may be repeated."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, SERIAL, TEXT, UUID, metadata

# What has to be done after a commit. A row is work not yet done; a worker that dies leaves it to another.
work = sa.Table(
    "work",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("verb", sa.String(32), nullable=False),
    sa.Column("server_id", UUID, nullable=False, index=True),
    sa.Column("arguments", TEXT, nullable=False),  # JSON
    sa.Column("due_at", sa.DateTime, nullable=False, index=True),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sqlite_autoincrement=True,  # a worker that comes late must not finish another job of the same number
)

# What has to be told after a commit.
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("event", sa.String(64), nullable=False),
    sa.Column("payload", TEXT, nullable=False),  # JSON
    sa.Column("created_at", sa.DateTime, nullable=False),
    sqlite_autoincrement=True,
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("project_id", PROJECT, primary_key=True),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("answer", TEXT, nullable=False),  # JSON
    sa.Column("created_at", sa.DateTime, nullable=False),
)
