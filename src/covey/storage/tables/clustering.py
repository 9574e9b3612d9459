"""Tables of the clustering resources."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, TEXT, UUID, metadata


def _owner() -> tuple[sa.Column[str], sa.Column[str]]:
    return sa.Column("user_id", PROJECT, nullable=False), sa.Column("project_id", PROJECT, nullable=False, index=True)


profiles = sa.Table(
    "profiles",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("type", NAME, nullable=False),
    sa.Column("spec", TEXT, nullable=False),  # JSON, as the caller sent it
    sa.Column("metadata", TEXT, nullable=False),  # JSON
    *_owner(),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime),
)

policies = sa.Table(
    "policies",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("type", NAME, nullable=False),
    sa.Column("spec", TEXT, nullable=False),  # JSON, as the caller sent it
    *_owner(),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime),
)

clusters = sa.Table(
    "clusters",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("profile_id", sa.ForeignKey(profiles.c.id), nullable=False, index=True),
    *_owner(),
    sa.Column("init_at", sa.DateTime, nullable=False),
    sa.Column("created_at", sa.DateTime),
    sa.Column("updated_at", sa.DateTime),
    sa.Column("min_size", sa.Integer, nullable=False),
    sa.Column("max_size", sa.Integer, nullable=False),
    sa.Column("desired_capacity", sa.Integer, nullable=False),
    sa.Column("next_index", sa.Integer, nullable=False),
    sa.Column("timeout", sa.Integer, nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("status_reason", TEXT, nullable=False),
    sa.Column("metadata", TEXT, nullable=False),  # JSON, like the next three
    sa.Column("data", TEXT, nullable=False),
    sa.Column("dependents", TEXT, nullable=False),
    sa.Column("config", TEXT, nullable=False),
    sa.CheckConstraint("min_size >= 0 AND desired_capacity >= 0 AND next_index >= 1", "sizes"),
)

# A server belongs to at most one node. server_id is not a foreign key: a deleted server leaves its node.
nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("profile_id", sa.ForeignKey(profiles.c.id), nullable=False, index=True),
    sa.Column("cluster_id", sa.ForeignKey(clusters.c.id), index=True),
    sa.Column("server_id", UUID, unique=True),
    sa.Column("position", sa.Integer, nullable=False),  # the index in the cluster; -1 for an orphan
    sa.Column("role", NAME),
    *_owner(),
    sa.Column("init_at", sa.DateTime, nullable=False),
    sa.Column("created_at", sa.DateTime),
    sa.Column("updated_at", sa.DateTime),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("status_reason", TEXT, nullable=False),
    sa.Column("metadata", TEXT, nullable=False),  # JSON, like the next two
    sa.Column("data", TEXT, nullable=False),
    sa.Column("dependents", TEXT, nullable=False),
    sa.Column("tainted", sa.Boolean, nullable=False),
)

cluster_policies = sa.Table(
    "cluster_policies",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("cluster_id", sa.ForeignKey(clusters.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("policy_id", sa.ForeignKey(policies.c.id), nullable=False, index=True),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("data", TEXT, nullable=False),  # JSON
    sa.Column("group_id", UUID, index=True),  # the server group in the data
    sa.Column("last_op", sa.DateTime),
    sa.UniqueConstraint("cluster_id", "policy_id"),
)

# Actions outlive their targets. Children are deleted with their parent.
cluster_actions = sa.Table(
    "cluster_actions",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("verb", sa.String(32), nullable=False),
    sa.Column("target", UUID, nullable=False, index=True),
    sa.Column("cluster_id", UUID, index=True),
    sa.Column("parent_id", sa.ForeignKey("cluster_actions.id", ondelete="CASCADE"), index=True),
    *_owner(),
    sa.Column("roles", TEXT, nullable=False),  # JSON
    sa.Column("cause", sa.String(64), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("status_reason", TEXT, nullable=False),
    sa.Column("inputs", TEXT, nullable=False),  # JSON, like the next two
    sa.Column("outputs", TEXT, nullable=False),
    sa.Column("data", TEXT, nullable=False),
    sa.Column("timeout", sa.Integer, nullable=False),
    sa.Column("worker", NAME),
    sa.Column("to_be_cancelled", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False, index=True),
    sa.Column("started_at", sa.DateTime),
    sa.Column("ended_at", sa.DateTime),
    sa.Column("updated_at", sa.DateTime),
)

# Locks of clusters and nodes. A node's lock names its cluster, which no other action can lock at the same time.
cluster_locks = sa.Table(
    "cluster_locks",
    metadata,
    sa.Column("target", UUID, primary_key=True),
    sa.Column("cluster_id", UUID, index=True),
    sa.Column("action_id", sa.ForeignKey(cluster_actions.c.id, ondelete="CASCADE"), nullable=False, index=True),
)

cluster_events = sa.Table(
    "cluster_events",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("timestamp", sa.DateTime, nullable=False, index=True),
    sa.Column("object_id", UUID, nullable=False, index=True),
    sa.Column("object_name", NAME, nullable=False),
    sa.Column("object_type", sa.String(16), nullable=False),
    sa.Column("cluster_id", UUID, index=True),
    sa.Column("level", sa.SmallInteger, nullable=False),
    sa.Column("action", sa.String(32), nullable=False),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("reason", TEXT, nullable=False),
    *_owner(),
)

receivers = sa.Table(
    "receivers",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, index=True),
    sa.Column("type", sa.String(32), nullable=False),
    sa.Column("cluster_id", sa.ForeignKey(clusters.c.id, ondelete="CASCADE"), index=True),
    sa.Column("action", sa.String(32)),
    sa.Column("params", TEXT, nullable=False),  # JSON
    sa.Column("roles", TEXT, nullable=False),  # JSON
    *_owner(),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime),
)

# Processes that execute actions, with the time of their last heartbeat.
cluster_engines = sa.Table(
    "cluster_engines",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("host", NAME, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
)
