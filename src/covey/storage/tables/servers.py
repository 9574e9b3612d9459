"""Servers, their groups, actions, migrations and rebalances."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, SERIAL, TEXT, UUID, metadata
from covey.storage.tables.fleet import hosts, instance_group_policy_scopes

servers = sa.Table(
    "servers",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("host_id", sa.ForeignKey(hosts.c.id), index=True),
    sa.Column(
        "second_host_id", sa.ForeignKey(hosts.c.id), index=True
    ),  # the other host of a migration; both hosts count
    sa.Column("vm_state", sa.String(32), nullable=False),
    sa.Column("task_state", sa.String(32)),
    sa.Column("power_state", sa.SmallInteger, nullable=False),
    sa.Column("flavor", TEXT, nullable=False),  # JSON: the flavor as it was at the request
    sa.Column("request", TEXT, nullable=False),  # JSON: the placement request, for later decisions
    sa.Column("details", TEXT, nullable=False),  # JSON: what placement does not read
    # Copies of values inside the JSON columns above, for the filters of a listing.
    sa.Column("flavor_id", NAME),
    sa.Column("image_id", UUID),
    sa.Column("reservation_id", NAME, index=True),
    sa.Column("locked", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("disk_gb", sa.Integer, nullable=False),
    sa.Column("fault", TEXT),
    sa.Column("decision", TEXT),  # JSON: the placement record
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.Column("launched_at", sa.DateTime),
    sa.Column("call_epoch", sa.BigInteger),  # of the last call that changed the guest's power; it is in its metadata
    sa.Index("ix_servers_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.CheckConstraint("host_id IS NOT NULL OR second_host_id IS NULL", "second_host"),
    sa.CheckConstraint("host_id <> second_host_id", "two_hosts"),
)

server_tags = sa.Table(
    "server_tags",
    metadata,
    sa.Column("server_id", sa.ForeignKey(servers.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("tag", sa.String(60), primary_key=True),
)

instance_groups = sa.Table(
    "instance_groups",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("project_id", PROJECT, nullable=False, index=True),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime),
)

instance_group_policies = sa.Table(
    "instance_group_policies",
    metadata,
    sa.Column("group_id", sa.ForeignKey(instance_groups.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.SmallInteger, primary_key=True),
    sa.Column("policy", sa.String(32), nullable=False),
    sa.Column("scope_id", sa.ForeignKey(instance_group_policy_scopes.c.id), index=True),  # NULL is the host scope
    sa.Column("identifier", NAME),
    sa.Column("rules", TEXT, nullable=False),  # JSON
)

# A server is in at most one group.
instance_group_members = sa.Table(
    "instance_group_members",
    metadata,
    sa.Column("server_id", sa.ForeignKey(servers.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("group_id", sa.ForeignKey(instance_groups.c.id, ondelete="CASCADE"), nullable=False, index=True),
)

# Consumers of allocations that another service runs and that are in a group, such as Nova's instances. A migration
# that holds the allocations which a member leaves is a consumer of that member. Its hosts follow from allocations.
group_consumers = sa.Table(
    "group_consumers",
    metadata,
    sa.Column("consumer_uuid", UUID, primary_key=True),
    sa.Column("group_id", sa.ForeignKey(instance_groups.c.id, ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("member_uuid", UUID, nullable=False, index=True),
    sa.Column("told_at", sa.DateTime, nullable=False),
)

# Why the policies of its group refused an instance that another service schedules, the last time that they did.
instance_refusals = sa.Table(
    "instance_refusals",
    metadata,
    sa.Column("instance_uuid", UUID, primary_key=True),
    sa.Column("group_id", sa.ForeignKey(instance_groups.c.id, ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("step", sa.String(16), nullable=False),
    sa.Column("refused_at", sa.DateTime, nullable=False, index=True),
    sa.Column("reasons", TEXT, nullable=False),  # JSON
)

# Migrations, past and present. They outlive their server, and keep the hosts' names.
migrations = sa.Table(
    "migrations",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", UUID, nullable=False, unique=True),
    sa.Column("server_id", UUID, nullable=False, index=True),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("source", NAME, nullable=False),
    sa.Column("destination", NAME),
    sa.Column("old_flavor", TEXT, nullable=False),
    sa.Column("new_flavor", TEXT, nullable=False),
    sa.Column("abort", sa.Boolean, nullable=False, server_default=sa.false()),  # its end was requested
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sqlite_autoincrement=True,
)

# The owners of deleted servers, for as long as their instance actions can be listed.
deleted_servers = sa.Table(
    "deleted_servers",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("deleted_at", sa.DateTime, nullable=False, index=True),
)

# Instance actions outlive their server.
instance_actions = sa.Table(
    "instance_actions",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("server_id", UUID, nullable=False, index=True),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.Column("message", TEXT),
    sa.Column("events", TEXT, nullable=False),  # JSON
)

# Rebalances of groups. At most one of a group runs.
rebalances = sa.Table(
    "rebalances",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("group_id", sa.ForeignKey(instance_groups.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("plan", TEXT, nullable=False),  # JSON
    sa.Column("done", sa.Integer, nullable=False),
    sa.Column("under_way", sa.Boolean, nullable=False),
    sa.Column("plans", sa.Integer, nullable=False),
    sa.Column("reason", TEXT),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.Column("failed_moves", TEXT, nullable=False, server_default="[]"),  # JSON
    sa.Column("max_moves", sa.Integer),  # NULL: an operator started it
    sa.Index("ix_rebalances_group_id_created_at", "group_id", "created_at"),
    sa.Index(
        "uq_rebalances_running",
        "group_id",
        unique=True,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    ),
    sa.CheckConstraint("done >= 0", "done"),
)
