"""What follows a commit: jobs and notifications; and the answers to requests with an idempotency key."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, SERIAL, TEXT, UUID, metadata

# Jobs that follow a commit. A worker that dies leaves its rows to another. Operators' scripts read `verb` and
# `server_id`, so these columns keep their names: a rename would break the scripts that find stuck jobs.
work = sa.Table(
    "work",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("verb", sa.String(32), nullable=False),  # the JobKind
    sa.Column("server_id", UUID, nullable=False, index=True),  # the subject: a server, a rebalance, …
    sa.Column("arguments", TEXT, nullable=False),  # JSON
    sa.Column("due_at", sa.DateTime, nullable=False, index=True),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),  # of the last lease
    sa.Column("leased_until", sa.DateTime),  # NULL while no worker has it
    sa.Column("parked", sa.Boolean, nullable=False, server_default=sa.false()),  # failed too often: no worker takes it
    sa.Column("error", TEXT),  # of the last failure
    sa.Column("woken", sa.Boolean, nullable=False, server_default=sa.false()),  # due at once when its lease ends
    sqlite_autoincrement=True,  # jobs of one subject run in the order of their ids
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
