"""All rows of a database, to compare two states."""

import sqlalchemy as sa

from covey.storage.tables import metadata


def all_rows(connected: sa.Engine) -> dict[str, list[str]]:
    """Return every row of every table, sorted."""
    with connected.connect() as connection:
        return {
            table.name: sorted(str(tuple(row)) for row in connection.execute(sa.select(table)))
            for table in metadata.sorted_tables
        }
