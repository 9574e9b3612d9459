"""What all tables share: their names' conventions, and a few kinds of column."""

import sqlalchemy as sa

# Alembic and error messages need names that are the same on every database.
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
    """A key column of a row that lives and dies with its parent."""
    column: sa.Column[int] = sa.Column(
        f"{parent.name.removesuffix('s').removeprefix('resource_')}_id",
        sa.ForeignKey(parent.c.id, ondelete="CASCADE"),
        primary_key=True,
    )
    return column
