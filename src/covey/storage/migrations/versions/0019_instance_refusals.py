"""Refusals of instances that Nova schedules, and when the mirror of Nova changed."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "instance_refusals",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.String(length=16), nullable=False),
        sa.Column("refused_at", sa.DateTime(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["instance_groups.id"], name=op.f("fk_instance_refusals_group_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_instance_refusals")),
    )
    op.create_index(op.f("ix_instance_refusals_group_id"), "instance_refusals", ["group_id"])
    op.create_index(op.f("ix_instance_refusals_refused_at"), "instance_refusals", ["refused_at"])
    op.add_column("nova_sync", sa.Column("changed_at", sa.DateTime(), nullable=True))
