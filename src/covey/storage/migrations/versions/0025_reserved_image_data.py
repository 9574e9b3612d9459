"""The bytes that an upload in progress reserves."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("images", sa.Column("upload_bytes", sa.BigInteger(), nullable=True))
