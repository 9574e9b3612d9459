"""Leases of jobs: their epochs, and jobs that are parked."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("work", sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("work", sa.Column("leased_until", sa.DateTime(), nullable=True))
    op.add_column("work", sa.Column("parked", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("work", sa.Column("error", sa.Text(), nullable=True))
