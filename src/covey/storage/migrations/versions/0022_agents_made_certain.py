"""The machine of an agent, the leases of fencing commands and of uploads, and the epoch of a guest's last call."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("machine_id", sa.String(length=255), nullable=True))
    op.add_column("agents", sa.Column("fencing_by", sa.String(length=36), nullable=True))
    op.add_column("agents", sa.Column("fencing_until", sa.DateTime(), nullable=True))
    op.add_column("agents", sa.Column("fencing_error", sa.Text(), nullable=True))
    op.add_column("images", sa.Column("upload_id", sa.String(length=36), nullable=True))
    op.add_column("images", sa.Column("upload_until", sa.DateTime(), nullable=True))
    op.add_column("servers", sa.Column("call_epoch", sa.BigInteger(), nullable=True))
