"""Drains of hosts and domains."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, TEXT, UUID, metadata
from covey.storage.tables.ledger import resource_providers

drains = sa.Table(
    "drains",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("scope", NAME, nullable=False),
    sa.Column("domain", NAME, nullable=False),
    sa.Column("hosts", TEXT, nullable=False),  # JSON, like the three lists below
    sa.Column("disabled", TEXT, nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("planned", sa.Integer, nullable=False),
    sa.Column("steps", TEXT, nullable=False),
    sa.Column("left_servers", TEXT, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False, index=True),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.Column("reason", TEXT),
)

# The hosts of running drains, Nova's compute nodes among them. A host is in at most one.
drain_hosts = sa.Table(
    "drain_hosts",
    metadata,
    sa.Column("host_id", sa.ForeignKey(resource_providers.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("drain_id", sa.ForeignKey(drains.c.id, ondelete="CASCADE"), nullable=False, index=True),
)
