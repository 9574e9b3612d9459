"""Provider trees, units of inventories, names of one's own, and placement's aggregates.

Columns are added in plain SQL, which both databases read: to write a table again, as SQLite's way of changing one
otherwise is, would take along all rows that live and die with its rows.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COLUMNS = (
    "resource_providers ADD COLUMN parent_id INTEGER CONSTRAINT fk_resource_providers_parent_id "
    "REFERENCES resource_providers (id)",
    "resource_providers ADD COLUMN root_id INTEGER CONSTRAINT fk_resource_providers_root_id "
    "REFERENCES resource_providers (id) "
    "CONSTRAINT ck_resource_providers_tree CHECK ((parent_id IS NULL) = (root_id IS NULL))",
    "inventories ADD COLUMN min_unit INTEGER DEFAULT '1' NOT NULL",
    "inventories ADD COLUMN max_unit INTEGER DEFAULT '2147483647' NOT NULL",
    "inventories ADD COLUMN step_size INTEGER DEFAULT '1' NOT NULL "
    "CONSTRAINT ck_inventories_units CHECK (min_unit >= 1 AND max_unit >= 1 AND step_size >= 1)",
)


def upgrade() -> None:
    for column in _COLUMNS:
        op.execute(f"ALTER TABLE {column}")
    op.add_column("consumers", sa.Column("updated_at", sa.DateTime(), nullable=True))
    op.add_column("fleet_changes", sa.Column("others", sa.Text(), nullable=True))
    op.create_index(op.f("ix_resource_providers_parent_id"), "resource_providers", ["parent_id"])
    op.create_index(op.f("ix_resource_providers_root_id"), "resource_providers", ["root_id"])
    op.create_index("ix_provider_traits_trait", "provider_traits", ["trait"])
    op.create_index("ix_consumers_project_id_user_id", "consumers", ["project_id", "user_id"])
    op.create_table(
        "provider_aggregates",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("aggregate_uuid", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_provider_aggregates_provider_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("provider_id", "aggregate_uuid", name=op.f("pk_provider_aggregates")),
    )
    op.create_index("ix_provider_aggregates_aggregate_uuid", "provider_aggregates", ["aggregate_uuid"])
    op.create_table(
        "custom_traits",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_custom_traits")),
    )
    op.create_table(
        "custom_resource_classes",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_custom_resource_classes")),
    )
    op.execute(
        "INSERT INTO provider_aggregates (provider_id, aggregate_uuid) "
        "SELECT h.host_id, a.uuid FROM aggregate_hosts h JOIN aggregates a ON a.id = h.aggregate_id"
    )
    op.execute(
        "INSERT INTO custom_traits (name) SELECT DISTINCT trait FROM provider_traits WHERE trait LIKE 'CUSTOM!_%' ESCAPE '!'"
    )

