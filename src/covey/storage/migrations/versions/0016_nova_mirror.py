"""The mirror of a Nova cloud."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "nova_hosts",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("service_host", sa.String(length=255), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("up", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_nova_hosts")),
    )
    op.create_table(
        "nova_servers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nova_servers")),
    )
    op.create_table(
        "nova_objects",
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("object_id", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("kind", "object_id", name=op.f("pk_nova_objects")),
    )
    op.create_table(
        "nova_sync",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("read_at", sa.DateTime(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_nova_sync_single_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nova_sync")),
    )
