"""How many moves a rebalance that a tenant started may make in all."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rebalances", sa.Column("max_moves", sa.Integer(), nullable=True))
