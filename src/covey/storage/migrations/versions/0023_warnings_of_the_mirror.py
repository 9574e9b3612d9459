"""What the last reading of Nova left out."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nova_sync", sa.Column("warnings", sa.Text(), nullable=False, server_default="[]"))
