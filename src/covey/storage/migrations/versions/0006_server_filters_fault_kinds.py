"""Columns for what a listing of servers filters by; a kind for each fault."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_BACKFILL = {
    "sqlite": [
        """
        UPDATE servers SET flavor_id = json_extract(flavor, '$.id'), image_id = json_extract(request, '$.image_id'),
            reservation_id = json_extract(details, '$.reservation_id'),
            locked = coalesce(json_extract(details, '$.locked'), 0)
        """,
        """
        UPDATE servers SET fault = json_set(fault, '$.kind', 'no_valid_host')
        WHERE substr(json_extract(fault, '$.message'), 1, 24) = 'No valid host was found.'
        """,
    ],
    "postgresql": [
        """
        UPDATE servers SET flavor_id = flavor::json ->> 'id', image_id = request::json ->> 'image_id',
            reservation_id = details::json ->> 'reservation_id',
            locked = coalesce((details::json ->> 'locked')::boolean, false)
        """,
        """
        UPDATE servers SET fault = (fault::jsonb || '{"kind": "no_valid_host"}')::text
        WHERE left(fault::json ->> 'message', 24) = 'No valid host was found.'
        """,
    ],
}


def upgrade() -> None:
    op.add_column("servers", sa.Column("flavor_id", sa.String(length=255), nullable=True))
    op.add_column("servers", sa.Column("image_id", sa.String(length=36), nullable=True))
    op.add_column("servers", sa.Column("reservation_id", sa.String(length=255), nullable=True))
    op.add_column("servers", sa.Column("locked", sa.Boolean(), server_default=sa.false(), nullable=False))
    for statement in _BACKFILL[op.get_bind().dialect.name]:
        op.execute(statement)
    op.create_index(op.f("ix_servers_reservation_id"), "servers", ["reservation_id"])
