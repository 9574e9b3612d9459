"""Naming conventions and column types of all tables."""

import sqlalchemy as sa

# Alembic and error messages need the same names on every database.
metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    },
)

NAME, TEXT, UUID, PROJECT = sa.String(255), sa.Text(), sa.String(36), sa.String(255)
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def owned_by(parent: sa.Table) -> sa.Column[int]:
    """Return a key column of rows that are deleted with their parent."""
    column: sa.Column[int] = sa.Column(
        f"{parent.name.removesuffix('s').removeprefix('resource_')}_id",
        sa.ForeignKey(parent.c.id, ondelete="CASCADE"),
        primary_key=True,
    )
    return column
