"""An index of the members as which consumers of other services count."""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_group_consumers_member_uuid"), "group_consumers", ["member_uuid"])
