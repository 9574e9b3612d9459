"""Hosts, aggregates, flavors, images, quotas."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "flavors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("flavorid", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("ephemeral_gb", sa.Integer(), nullable=False),
        sa.Column("swap_mb", sa.Integer(), nullable=False),
        sa.Column("rxtx_factor", sa.Double(), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint("disk_gb >= 0", name=op.f("ck_flavors_disk")),
        sa.CheckConstraint("ephemeral_gb >= 0", name=op.f("ck_flavors_ephemeral")),
        sa.CheckConstraint("memory_mb >= 1", name=op.f("ck_flavors_memory")),
        sa.CheckConstraint("rxtx_factor > 0", name=op.f("ck_flavors_rxtx")),
        sa.CheckConstraint("swap_mb >= 0", name=op.f("ck_flavors_swap")),
        sa.CheckConstraint("vcpus >= 1", name=op.f("ck_flavors_vcpus")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavors")),
        sa.UniqueConstraint("flavorid", name=op.f("uq_flavors_flavorid")),
        sa.UniqueConstraint("name", name=op.f("uq_flavors_name")),
    )
    op.create_table(
        "images",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("disk_format", sa.String(length=255), nullable=True),
        sa.Column("container_format", sa.String(length=255), nullable=True),
        sa.Column("min_disk_gb", sa.Integer(), nullable=False),
        sa.Column("min_ram_mb", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("protected", sa.Boolean(), nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.CheckConstraint("min_disk_gb >= 0", name=op.f("ck_images_min_disk")),
        sa.CheckConstraint("min_ram_mb >= 0", name=op.f("ck_images_min_ram")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
    )
    with op.batch_alter_table("images", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_images_name"), ["name"], unique=False)
        batch_op.create_index(batch_op.f("ix_images_owner"), ["owner"], unique=False)

    op.create_table(
        "instance_group_policy_scopes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("allow_identifiers", sa.Boolean(), nullable=False),
        sa.Column("obfuscate_identifiers", sa.Boolean(), nullable=False),
        sa.Column("namespace_uuid", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_group_policy_scopes")),
        sa.UniqueConstraint("name", name=op.f("uq_instance_group_policy_scopes_name")),
    )
    op.create_table(
        "quota_classes",
        sa.Column("class_name", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.CheckConstraint("hard_limit >= -1", name=op.f("ck_quota_classes_limit")),
        sa.PrimaryKeyConstraint("class_name", "resource", name=op.f("pk_quota_classes")),
    )
    op.create_table(
        "quotas",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.CheckConstraint("hard_limit >= -1", name=op.f("ck_quotas_limit")),
        sa.PrimaryKeyConstraint("project_id", "resource", name=op.f("pk_quotas")),
    )
    op.create_table(
        "resource_providers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_providers")),
        sa.UniqueConstraint("name", name=op.f("uq_resource_providers_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_resource_providers_uuid")),
    )
    op.create_table(
        "aggregates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=True),
        sa.Column("scope_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint("zone <> ''", name=op.f("ck_aggregates_zone")),
        sa.ForeignKeyConstraint(["scope_id"], ["instance_group_policy_scopes.id"], name=op.f("fk_aggregates_scope_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("id", "scope_id", name=op.f("uq_aggregates_id_scope_id")),
        sa.UniqueConstraint("id", "zone", name=op.f("uq_aggregates_id_zone")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_aggregates_uuid")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("aggregates", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_aggregates_scope_id"), ["scope_id"], unique=False)

    op.create_table(
        "flavor_access",
        sa.Column("flavor_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["flavor_id"], ["flavors.id"], name=op.f("fk_flavor_access_flavor_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("flavor_id", "project_id", name=op.f("pk_flavor_access")),
    )
    op.create_table(
        "flavor_extra_specs",
        sa.Column("flavor_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["flavor_id"], ["flavors.id"], name=op.f("fk_flavor_extra_specs_flavor_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("flavor_id", "key", name=op.f("pk_flavor_extra_specs")),
    )
    op.create_table(
        "hosts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=True),
        sa.Column("disabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("forced_down", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.CheckConstraint("zone <> ''", name=op.f("ck_hosts_zone")),
        sa.ForeignKeyConstraint(["id"], ["resource_providers.id"], name=op.f("fk_hosts_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hosts")),
        sa.UniqueConstraint("id", "zone", name=op.f("uq_hosts_id_zone")),
        sa.UniqueConstraint("name", name=op.f("uq_hosts_name")),
    )
    op.create_table(
        "image_properties",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_image_properties_image_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("image_id", "key", name=op.f("pk_image_properties")),
    )
    op.create_table(
        "image_tags",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], name=op.f("fk_image_tags_image_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image_id", "tag", name=op.f("pk_image_tags")),
    )
    op.create_table(
        "inventories",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=False),
        sa.Column("allocation_ratio", sa.Double(), nullable=False),
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("allocation_ratio > 0", name=op.f("ck_inventories_ratio")),
        sa.CheckConstraint("reserved >= 0", name=op.f("ck_inventories_reserved")),
        sa.CheckConstraint("total >= 0", name=op.f("ck_inventories_total")),
        sa.CheckConstraint("used >= 0", name=op.f("ck_inventories_used")),
        sa.ForeignKeyConstraint(
            ["provider_id"], ["resource_providers.id"], name=op.f("fk_inventories_provider_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("provider_id", "resource_class", name=op.f("pk_inventories")),
    )
    op.create_table(
        "provider_traits",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_id"], ["resource_providers.id"], name=op.f("fk_provider_traits_provider_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("provider_id", "trait", name=op.f("pk_provider_traits")),
    )
    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=True),
        sa.Column("scope_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(
            ["aggregate_id", "scope_id"],
            ["aggregates.id", "aggregates.scope_id"],
            name=op.f("fk_aggregate_hosts_aggregate_id_scope_id"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(
            ["aggregate_id", "zone"],
            ["aggregates.id", "aggregates.zone"],
            name=op.f("fk_aggregate_hosts_aggregate_id_zone"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(
            ["aggregate_id"], ["aggregates.id"], name=op.f("fk_aggregate_hosts_aggregate_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["host_id", "zone"],
            ["hosts.id", "hosts.zone"],
            name=op.f("fk_aggregate_hosts_host_id_zone"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_aggregate_hosts_host_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("aggregate_id", "host_id", name=op.f("pk_aggregate_hosts")),
        sa.UniqueConstraint("scope_id", "host_id", name=op.f("uq_aggregate_hosts_scope_id_host_id")),
    )
    with op.batch_alter_table("aggregate_hosts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_aggregate_hosts_host_id"), ["host_id"], unique=False)

    op.create_table(
        "aggregate_metadata",
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["aggregate_id"], ["aggregates.id"], name=op.f("fk_aggregate_metadata_aggregate_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("aggregate_id", "key", name=op.f("pk_aggregate_metadata")),
    )
