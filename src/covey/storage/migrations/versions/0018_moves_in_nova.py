"""What a move of a Nova instance depends on, drains of Nova's compute nodes, and moves of rebalances that failed."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nova_servers", sa.Column("task_state", sa.String(length=64), nullable=True))
    op.add_column("nova_servers", sa.Column("locked", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("nova_servers", sa.Column("zone", sa.String(length=255), nullable=True))
    op.add_column("nova_servers", sa.Column("traits", sa.Text(), nullable=True))
    op.add_column("drains", sa.Column("reason", sa.Text(), nullable=True))
    op.add_column("rebalances", sa.Column("failed_moves", sa.Text(), server_default="[]", nullable=False))
    with op.batch_alter_table("drain_hosts", schema=None) as batch_op:
        batch_op.drop_constraint(op.f("fk_drain_hosts_host_id"), type_="foreignkey")
        batch_op.create_foreign_key(
            op.f("fk_drain_hosts_host_id"), "resource_providers", ["host_id"], ["id"], ondelete="CASCADE"
        )
