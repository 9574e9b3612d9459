"""Rebalances."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rebalances",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("under_way", sa.Boolean(), nullable=False),
        sa.Column("plans", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.CheckConstraint("done >= 0", name=op.f("ck_rebalances_done")),
        sa.ForeignKeyConstraint(
            ["group_id"], ["instance_groups.id"], name=op.f("fk_rebalances_group_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rebalances")),
    )
    with op.batch_alter_table("rebalances", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_rebalances_group_id_created_at"), ["group_id", "created_at"], unique=False
        )
        batch_op.create_index(
            "uq_rebalances_running",
            ["group_id"],
            unique=True,
            sqlite_where=sa.text("status = 'running'"),
            postgresql_where=sa.text("status = 'running'"),
        )
