"""Servers, groups, allocations, work."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "consumers",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("consumer_type", sa.String(length=255), nullable=True),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_consumers")),
    )
    op.create_table(
        "fleet_changes",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tx", sa.BigInteger(), nullable=False),
        sa.Column("writer", sa.String(length=36), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=True),
        sa.Column("vcpus", sa.BigInteger(), nullable=True),
        sa.Column("memory_mb", sa.BigInteger(), nullable=True),
        sa.Column("disk_gb", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_fleet_changes")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("fleet_changes", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_fleet_changes_tx"), ["tx"], unique=False)

    op.create_table(
        "idempotency_keys",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "instance_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_groups")),
    )
    with op.batch_alter_table("instance_groups", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instance_groups_project_id"), ["project_id"], unique=False)

    op.create_table(
        "migrations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("destination", sa.String(length=255), nullable=True),
        sa.Column("old_flavor", sa.Text(), nullable=False),
        sa.Column("new_flavor", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_migrations")),
        sa.UniqueConstraint("uuid", name=op.f("uq_migrations_uuid")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("migrations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_migrations_server_id"), ["server_id"], unique=False)

    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "quota_usages",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("instances", sa.BigInteger(), nullable=False),
        sa.Column("cores", sa.BigInteger(), nullable=False),
        sa.Column("ram", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("instances >= 0 AND cores >= 0 AND ram >= 0", name=op.f("ck_quota_usages_not_negative")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_quota_usages")),
    )
    op.create_table(
        "work",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("verb", sa.String(length=32), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("due_at", sa.DateTime(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_work")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("work", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_work_due_at"), ["due_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_work_server_id"), ["server_id"], unique=False)

    op.create_table(
        "instance_group_policies",
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("policy", sa.String(length=32), nullable=False),
        sa.Column("scope_id", sa.String(length=36), nullable=True),
        sa.Column("identifier", sa.String(length=255), nullable=True),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["instance_groups.id"], name=op.f("fk_instance_group_policies_group_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scope_id"], ["instance_group_policy_scopes.id"], name=op.f("fk_instance_group_policies_scope_id")
        ),
        sa.PrimaryKeyConstraint("group_id", "position", name=op.f("pk_instance_group_policies")),
    )
    with op.batch_alter_table("instance_group_policies", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instance_group_policies_scope_id"), ["scope_id"], unique=False)

    op.create_table(
        "allocations",
        sa.Column("consumer_uuid", sa.String(length=36), nullable=False),
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.CheckConstraint("used >= 1", name=op.f("ck_allocations_used")),
        sa.ForeignKeyConstraint(
            ["consumer_uuid"], ["consumers.uuid"], name=op.f("fk_allocations_consumer_uuid"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["provider_id", "resource_class"],
            ["inventories.provider_id", "inventories.resource_class"],
            name=op.f("fk_allocations_provider_id_resource_class"),
        ),
        sa.PrimaryKeyConstraint("consumer_uuid", "provider_id", "resource_class", name=op.f("pk_allocations")),
    )
    with op.batch_alter_table("allocations", schema=None) as batch_op:
        batch_op.create_index(
            "ix_allocations_provider_id_resource_class", ["provider_id", "resource_class"], unique=False
        )

    op.create_table(
        "servers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=True),
        sa.Column("second_host_id", sa.Integer(), nullable=True),
        sa.Column("vm_state", sa.String(length=32), nullable=False),
        sa.Column("task_state", sa.String(length=32), nullable=True),
        sa.Column("power_state", sa.SmallInteger(), nullable=False),
        sa.Column("flavor", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("launched_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint("host_id <> second_host_id", name=op.f("ck_servers_two_hosts")),
        sa.CheckConstraint("host_id IS NOT NULL OR second_host_id IS NULL", name=op.f("ck_servers_second_host")),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_servers_host_id")),
        sa.ForeignKeyConstraint(["second_host_id"], ["hosts.id"], name=op.f("fk_servers_second_host_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_servers")),
    )
    with op.batch_alter_table("servers", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_servers_host_id"), ["host_id"], unique=False)
        batch_op.create_index("ix_servers_project_id_created_at_id", ["project_id", "created_at", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_servers_second_host_id"), ["second_host_id"], unique=False)

    op.create_table(
        "instance_actions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("events", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name=op.f("fk_instance_actions_server_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_actions")),
    )
    with op.batch_alter_table("instance_actions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instance_actions_server_id"), ["server_id"], unique=False)

    op.create_table(
        "instance_group_members",
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["instance_groups.id"], name=op.f("fk_instance_group_members_group_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name=op.f("fk_instance_group_members_server_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("server_id", name=op.f("pk_instance_group_members")),
    )
    with op.batch_alter_table("instance_group_members", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instance_group_members_group_id"), ["group_id"], unique=False)

    op.create_table(
        "server_tags",
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=60), nullable=False),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name=op.f("fk_server_tags_server_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("server_id", "tag", name=op.f("pk_server_tags")),
    )
