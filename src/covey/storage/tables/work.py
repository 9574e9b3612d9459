"""What follows a commit: jobs and notifications; and the answers to requests with an idempotency key."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, SERIAL, TEXT, UUID, metadata

# Jobs that follow a commit. A worker that dies leaves its rows to another.
work = sa.Table(
    "work",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("verb", sa.String(32), nullable=False),  # the JobKind
    sa.Column("server_id", UUID, nullable=False, index=True),  # the subject: a server, a rebalance or a cluster action
    sa.Column("arguments", TEXT, nullable=False),  # JSON
    sa.Column("due_at", sa.DateTime, nullable=False, index=True),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sqlite_autoincrement=True,  # a late worker must not finish a newer job of the same id
)

# Notifications to publish after a commit.
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
