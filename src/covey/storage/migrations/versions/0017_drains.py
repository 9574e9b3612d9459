"""Drains of hosts and domains."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drains",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("scope", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.Column("hosts", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("planned", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("left_servers", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drains")),
    )
    op.create_index(op.f("ix_drains_created_at"), "drains", ["created_at"], unique=False)
    op.create_table(
        "drain_hosts",
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("drain_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["drain_id"], ["drains.id"], name=op.f("fk_drain_hosts_drain_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_drain_hosts_host_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("host_id", name=op.f("pk_drain_hosts")),
    )
    op.create_index(op.f("ix_drain_hosts_drain_id"), "drain_hosts", ["drain_id"], unique=False)
