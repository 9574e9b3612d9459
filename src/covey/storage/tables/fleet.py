"""Hosts, their aggregates and scopes, and the fleet's change log."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, SERIAL, TEXT, UUID, metadata, owned_by
from covey.storage.tables.ledger import resource_providers

# A host is a resource provider: the same id, the same uuid.
hosts = sa.Table(
    "hosts",
    metadata,
    sa.Column("id", sa.ForeignKey(resource_providers.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("zone", NAME),
    sa.Column("disabled", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("disabled_reason", NAME),
    sa.Column("forced_down", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("agent_down", sa.Boolean, nullable=False, server_default=sa.false()),  # its agent does not report up
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.UniqueConstraint("id", "zone"),
    sa.CheckConstraint("zone <> ''", "zone"),
)

instance_group_policy_scopes = sa.Table(
    "instance_group_policy_scopes",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("allow_identifiers", sa.Boolean, nullable=False),
    sa.Column("obfuscate_identifiers", sa.Boolean, nullable=False),
    sa.Column("namespace_uuid", UUID, nullable=False),
)

aggregates = sa.Table(
    "aggregates",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", UUID, nullable=False, unique=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("zone", NAME),
    sa.Column("scope_id", sa.ForeignKey(instance_group_policy_scopes.c.id), index=True),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime),
    sa.UniqueConstraint("id", "zone"),
    sa.UniqueConstraint("id", "scope_id"),
    sa.CheckConstraint("zone <> ''", "zone"),
    sqlite_autoincrement=True,  # an id that tenants saw as a domain is never reused
)

aggregate_metadata = sa.Table(
    "aggregate_metadata",
    metadata,
    owned_by(aggregates),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", TEXT, nullable=False),
)

# Each row repeats its aggregate's zone and scope, so that keys enforce two rules:
# a host is in at most one domain of a scope, and all its zoned aggregates have the same zone.
aggregate_hosts = sa.Table(
    "aggregate_hosts",
    metadata,
    owned_by(aggregates),
    sa.Column("host_id", sa.ForeignKey(hosts.c.id, ondelete="CASCADE"), primary_key=True, index=True),
    sa.Column("zone", NAME),
    sa.Column("scope_id", UUID),
    sa.UniqueConstraint("scope_id", "host_id"),
    sa.ForeignKeyConstraint(
        ["aggregate_id", "zone"], [aggregates.c.id, aggregates.c.zone], deferrable=True, initially="DEFERRED"
    ),
    sa.ForeignKeyConstraint(
        ["aggregate_id", "scope_id"], [aggregates.c.id, aggregates.c.scope_id], deferrable=True, initially="DEFERRED"
    ),
    sa.ForeignKeyConstraint(["host_id", "zone"], [hosts.c.id, hosts.c.zone], deferrable=True, initially="DEFERRED"),
)

# The change log that keeps every process's fleet up to date. A row with a host is a change of its usage.
fleet_changes = sa.Table(
    "fleet_changes",
    metadata,
    sa.Column("seq", SERIAL, primary_key=True),
    sa.Column("tx", sa.BigInteger, nullable=False, index=True),  # PostgreSQL's id of the transaction that wrote it
    sa.Column("writer", sa.String(36), nullable=False),
    sa.Column("host_id", sa.Integer),
    sa.Column("vcpus", sa.BigInteger),
    sa.Column("memory_mb", sa.BigInteger),
    sa.Column("disk_gb", sa.BigInteger),
    sa.Column("others", TEXT),  # JSON: amounts of other classes
    sa.Column("structure", TEXT),  # JSON: the hosts, other providers and aggregates that a structural change changes
    sa.Column("catalogue", TEXT),  # JSON: the flavors and images that a change of the catalogue changes
    sqlite_autoincrement=True,
)

# One row. The token is random, so that no crash and no failover brings an old one back.
topology = sa.Table(
    "topology",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("token", UUID, nullable=False),
    sa.Column("trimmed_to", sa.BigInteger, nullable=False),  # rows of the change log below this one may be deleted
    sa.CheckConstraint("id = 1", "single_row"),
)

# Keys of what is shown in place of what must not be, such as hostId. The migrations generate them.
secrets = sa.Table(
    "secrets",
    metadata,
    sa.Column("name", NAME, primary_key=True),
    sa.Column("value", TEXT, nullable=False),
)
