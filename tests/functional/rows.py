"""All that a database holds, to compare before with after."""

import sqlalchemy as sa

from covey.storage.tables import metadata


def all_rows(connected: sa.Engine) -> dict[str, list[str]]:
    """Every row of every table, in an order of their own."""
    with connected.connect() as connection:
        return {
            table.name: sorted(str(tuple(row)) for row in connection.execute(sa.select(table)))
            for table in metadata.sorted_tables
        }
