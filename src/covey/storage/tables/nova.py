"""The mirror of a Nova cloud."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, TEXT, UUID, metadata

nova_hosts = sa.Table(
    "nova_hosts",
    metadata,
    sa.Column("uuid", UUID, primary_key=True),  # of the resource provider
    sa.Column("name", NAME, nullable=False),
    sa.Column("service_host", NAME, nullable=False),
    sa.Column("zone", NAME),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("disabled_reason", NAME),
    sa.Column("up", sa.Boolean, nullable=False),
)

nova_servers = sa.Table(
    "nova_servers",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("host", NAME),
    sa.Column("task_state", sa.String(64)),
    sa.Column("locked", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("zone", NAME),  # that the request asked for
    sa.Column("traits", TEXT),  # of the flavor, as A,!B
)

# Rows of Covey's own tables that belong to Nova: aggregates and groups by uuid, flavors by flavorid.
nova_objects = sa.Table(
    "nova_objects",
    metadata,
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("object_id", NAME, primary_key=True),
)

# One row, once a sync ran.
nova_sync = sa.Table(
    "nova_sync",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("url", TEXT, nullable=False),
    sa.Column("read_at", sa.DateTime),  # NULL before the first complete reading
    sa.Column("changed_at", sa.DateTime),  # when a reading last found changes
    sa.Column("error", TEXT),
    sa.Column("warnings", TEXT, nullable=False, server_default="[]"),  # JSON: sentences of the last complete reading
    sa.CheckConstraint("id = 1", "single_row"),
)
