"""The hashes of image data."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("images", sa.Column("md5", sa.String(length=32), nullable=True))
    op.add_column("images", sa.Column("sha512", sa.String(length=128), nullable=True))
