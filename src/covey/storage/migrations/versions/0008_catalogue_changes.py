"""Changes of flavors and images in the change log, so that every process knows when its copies are outdated."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("fleet_changes", sa.Column("catalogue", sa.Text(), nullable=True))
