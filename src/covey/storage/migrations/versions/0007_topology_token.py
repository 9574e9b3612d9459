"""The topology token, and what a structural change changes, in the change log."""

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    table = op.create_table(
        "topology",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(length=36), nullable=False),
        sa.Column("trimmed_to", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_topology_single_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_topology")),
    )
    op.bulk_insert(table, [{"id": 1, "token": str(uuid4()), "trimmed_to": 0}])
    op.execute("DELETE FROM fleet_changes")  # no process that reads the log runs during an upgrade
    op.add_column("fleet_changes", sa.Column("structure", sa.Text(), nullable=True))
