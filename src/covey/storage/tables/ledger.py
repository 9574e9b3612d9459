"""Resource providers, their inventories, and the allocations of consumers."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, UUID, metadata, owned_by

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

# An operator may lower an inventory below its usage, so no check bounds "used" by the capacity: the claim's
# conditional UPDATE does.
inventories = sa.Table(
    "inventories",
    metadata,
    owned_by(resource_providers),
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
    owned_by(resource_providers),
    sa.Column("trait", NAME, primary_key=True),
    sa.Index("ix_provider_traits_trait", "trait"),
)

# Placement's aggregates are bare uuids, Compute's aggregates among them.
provider_aggregates = sa.Table(
    "provider_aggregates",
    metadata,
    owned_by(resource_providers),
    sa.Column("aggregate_uuid", UUID, primary_key=True),
    sa.Index("ix_provider_aggregates_aggregate_uuid", "aggregate_uuid"),
)

# Custom names; the standard names come from the packages os-traits and os-resource-classes.
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

consumers = sa.Table(
    "consumers",
    metadata,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("project_id", PROJECT, nullable=False),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("consumer_type", NAME),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("updated_at", sa.DateTime),  # NULL where it is unknown
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
