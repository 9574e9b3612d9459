"""The schema, with the invariants that the database itself can hold."""

import sqlalchemy as sa

# Alembic and error messages need names that are the same on every database.
metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    },
)

NAME, TEXT, UUID, PROJECT = sa.String(255), sa.Text(), sa.String(36), sa.String(255)


def _owned_by(parent: sa.Table) -> sa.Column[int]:
    """A key column of a row that lives and dies with its parent."""
    column: sa.Column[int] = sa.Column(
        f"{parent.name.removesuffix('s').removeprefix('resource_')}_id",
        sa.ForeignKey(parent.c.id, ondelete="CASCADE"),
        primary_key=True,
    )
    return column


resource_providers = sa.Table(
    "resource_providers",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", UUID, nullable=False, unique=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("parent_id", sa.ForeignKey("resource_providers.id"), index=True),
    sa.Column("root_id", sa.ForeignKey("resource_providers.id"), index=True),  # NULL: itself
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.CheckConstraint("(parent_id IS NULL) = (root_id IS NULL)", "tree"),
)

# "used" may exceed what there is only when an operator lowers the inventory under running servers, so
# it is the claim, by conditional arithmetic, and not a check here that keeps it within capacity.
inventories = sa.Table(
    "inventories",
    metadata,
    _owned_by(resource_providers),
    sa.Column("resource_class", NAME, primary_key=True),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("reserved", sa.Integer, nullable=False),
    sa.Column("allocation_ratio", sa.Double, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("min_unit", sa.Integer, nullable=False, server_default="1"),
    sa.Column("max_unit", sa.Integer, nullable=False, server_default="2147483647"),
    sa.Column("step_size", sa.Integer, nullable=False, server_default="1"),
    sa.CheckConstraint("total >= 0", "total"),
    sa.CheckConstraint("reserved >= 0", "reserved"),
    sa.CheckConstraint("min_unit >= 1 AND max_unit >= 1 AND step_size >= 1", "units"),
    sa.CheckConstraint("allocation_ratio > 0", "ratio"),
    sa.CheckConstraint("used >= 0", "used"),
)

provider_traits = sa.Table(
    "provider_traits",
    metadata,
    _owned_by(resource_providers),
    sa.Column("trait", NAME, primary_key=True),
    sa.Index("ix_provider_traits_trait", "trait"),
)

# Placement's aggregates are uuids and nothing else; those of compute are among them.
provider_aggregates = sa.Table(
    "provider_aggregates",
    metadata,
    _owned_by(resource_providers),
    sa.Column("aggregate_uuid", UUID, primary_key=True),
    sa.Index("ix_provider_aggregates_aggregate_uuid", "aggregate_uuid"),
)

# What operators named themselves; the standard names come with the packages os-traits and os-resource-classes.
custom_traits = sa.Table(
    "custom_traits",
    metadata,
    sa.Column("name", NAME, primary_key=True),
    sa.Column("created_at", sa.DateTime),
)
custom_resource_classes = sa.Table(
    "custom_resource_classes",
    metadata,
    sa.Column("name", NAME, primary_key=True),
    sa.Column("created_at", sa.DateTime, nullable=False),
)

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
    sqlite_autoincrement=True,  # an id, once shown to tenants as a domain, never means another aggregate
)

aggregate_metadata = sa.Table(
    "aggregate_metadata",
    metadata,
    _owned_by(aggregates),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", TEXT, nullable=False),
)

# Each row repeats its aggregate's zone and scope, so that keys can hold two rules:
# a host is in one domain of a scope at the most, and all its zoned aggregates agree on its zone.
aggregate_hosts = sa.Table(
    "aggregate_hosts",
    metadata,
    _owned_by(aggregates),
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

flavors = sa.Table(
    "flavors",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("flavorid", NAME, nullable=False, unique=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("disk_gb", sa.Integer, nullable=False),
    sa.Column("ephemeral_gb", sa.Integer, nullable=False),
    sa.Column("swap_mb", sa.Integer, nullable=False),
    sa.Column("rxtx_factor", sa.Double, nullable=False),
    sa.Column("is_public", sa.Boolean, nullable=False),
    sa.Column("description", TEXT),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime),
    sa.CheckConstraint("vcpus >= 1", "vcpus"),
    sa.CheckConstraint("memory_mb >= 1", "memory"),
    sa.CheckConstraint("disk_gb >= 0", "disk"),
    sa.CheckConstraint("ephemeral_gb >= 0", "ephemeral"),
    sa.CheckConstraint("swap_mb >= 0", "swap"),
    sa.CheckConstraint("rxtx_factor > 0", "rxtx"),
)

flavor_extra_specs = sa.Table(
    "flavor_extra_specs",
    metadata,
    _owned_by(flavors),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", NAME, nullable=False),
)

flavor_access = sa.Table(
    "flavor_access",
    metadata,
    _owned_by(flavors),
    sa.Column("project_id", PROJECT, primary_key=True),
)

images = sa.Table(
    "images",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, index=True),
    sa.Column("owner", PROJECT, nullable=False, index=True),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("visibility", sa.String(16), nullable=False),
    sa.Column("disk_format", NAME),
    sa.Column("container_format", NAME),
    sa.Column("min_disk_gb", sa.Integer, nullable=False),
    sa.Column("min_ram_mb", sa.Integer, nullable=False),
    sa.Column("size_bytes", sa.BigInteger),
    sa.Column("protected", sa.Boolean, nullable=False),
    sa.Column("hidden", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.CheckConstraint("min_disk_gb >= 0", "min_disk"),
    sa.CheckConstraint("min_ram_mb >= 0", "min_ram"),
)

image_properties = sa.Table(
    "image_properties",
    metadata,
    sa.Column("image_id", sa.ForeignKey(images.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", TEXT, nullable=False),
)

image_tags = sa.Table(
    "image_tags",
    metadata,
    sa.Column("image_id", sa.ForeignKey(images.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("tag", NAME, primary_key=True),
)

quotas = sa.Table(
    "quotas",
    metadata,
    sa.Column("project_id", PROJECT, primary_key=True),
    sa.Column("resource", NAME, primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.CheckConstraint("hard_limit >= -1", "limit"),
)

quota_classes = sa.Table(
    "quota_classes",
    metadata,
    sa.Column("class_name", NAME, primary_key=True),
    sa.Column("resource", NAME, primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.CheckConstraint("hard_limit >= -1", "limit"),
)

servers = sa.Table(
    "servers",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("host_id", sa.ForeignKey(hosts.c.id), index=True),
    sa.Column("second_host_id", sa.ForeignKey(hosts.c.id), index=True),  # while it moves, both places count
    sa.Column("vm_state", sa.String(32), nullable=False),
    sa.Column("task_state", sa.String(32)),
    sa.Column("power_state", sa.SmallInteger, nullable=False),
    sa.Column("flavor", TEXT, nullable=False),  # JSON: the size as it was when it was asked for
    sa.Column("request", TEXT, nullable=False),  # JSON: what was asked, to decide again by
    sa.Column("details", TEXT, nullable=False),  # JSON: what placement does not look at
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("disk_gb", sa.Integer, nullable=False),
    sa.Column("fault", TEXT),
    sa.Column("decision", TEXT),  # JSON: why it is where it is
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.Column("launched_at", sa.DateTime),
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

# A server is in one group at the most.
instance_group_members = sa.Table(
    "instance_group_members",
    metadata,
    sa.Column("server_id", sa.ForeignKey(servers.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("group_id", sa.ForeignKey(instance_groups.c.id, ondelete="CASCADE"), nullable=False, index=True),
)

consumers = sa.Table(
    "consumers",
    metadata,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("consumer_type", NAME),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("updated_at", sa.DateTime),  # NULL where nobody noted it
    sa.Index("ix_consumers_project_id_user_id", "project_id", "user_id"),
)

allocations = sa.Table(
    "allocations",
    metadata,
    sa.Column("consumer_uuid", sa.ForeignKey(consumers.c.uuid, ondelete="CASCADE"), primary_key=True),
    sa.Column("provider_id", sa.Integer, primary_key=True),
    sa.Column("resource_class", NAME, primary_key=True),
    sa.Column("used", sa.Integer, nullable=False),
    sa.ForeignKeyConstraint(
        ["provider_id", "resource_class"], [inventories.c.provider_id, inventories.c.resource_class]
    ),
    sa.Index("ix_allocations_provider_id_resource_class", "provider_id", "resource_class"),
    sa.CheckConstraint("used >= 1", "used"),
)

quota_usages = sa.Table(
    "quota_usages",
    metadata,
    sa.Column("project_id", PROJECT, primary_key=True),
    sa.Column("instances", sa.BigInteger, nullable=False),
    sa.Column("cores", sa.BigInteger, nullable=False),
    sa.Column("ram", sa.BigInteger, nullable=False),
    sa.CheckConstraint("instances >= 0 AND cores >= 0 AND ram >= 0", "not_negative"),
)

# Moves, past and present: they outlive the server that moved, and so do the hosts' names in them.
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
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sqlite_autoincrement=True,
)

instance_actions = sa.Table(
    "instance_actions",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("server_id", sa.ForeignKey(servers.c.id, ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.Column("message", TEXT),
    sa.Column("events", TEXT, nullable=False),  # JSON
)

# Moves that put a group right. At most one of a group runs.
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

# What has to be done after a commit. A row is work not yet done; a worker that dies leaves it to another.
work = sa.Table(
    "work",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
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
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
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

# The change log that keeps every process's fleet fresh. A row with a host tells by how much its use changed;
# without amounts, that the host is otherwise now; without a host, that everything may be.
fleet_changes = sa.Table(
    "fleet_changes",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("tx", sa.BigInteger, nullable=False, index=True),  # PostgreSQL's transaction id, to fence by
    sa.Column("writer", sa.String(36), nullable=False),
    sa.Column("host_id", sa.Integer),
    sa.Column("vcpus", sa.BigInteger),
    sa.Column("memory_mb", sa.BigInteger),
    sa.Column("disk_gb", sa.BigInteger),
    sa.Column("others", TEXT),  # JSON: amounts of other classes
    sqlite_autoincrement=True,
)
