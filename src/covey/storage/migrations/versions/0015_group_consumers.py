"""Consumers of other services as members of groups."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "group_consumers",
        sa.Column("consumer_uuid", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("member_uuid", sa.String(length=36), nullable=False),
        sa.Column("told_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["instance_groups.id"], name=op.f("fk_group_consumers_group_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("consumer_uuid", name=op.f("pk_group_consumers")),
    )
    op.create_index(op.f("ix_group_consumers_group_id"), "group_consumers", ["group_id"])
