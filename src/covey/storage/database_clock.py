"""The database's clock, so that the clocks of the service's processes may differ."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from covey.clock_and_ids import now
from covey.ports import Clock

_SQL = "COALESCE(?::timestamp, timezone('utc', statement_timestamp()))"
_YEAR_1970 = datetime(1970, 1, 1)  # noqa: DTZ001 -- as all times in the database


class DatabaseClock:
    """The time as an expression of SQL. SQLite is on the same machine, so its time is this machine's.

    A test may bring its own clock.
    """

    def __init__(self, connection: sa.Connection, clock: Clock | None = None) -> None:
        postgresql = connection.dialect.name == "postgresql"
        self._clock = clock if clock is not None or postgresql else now
        self.sql = _SQL if postgresql else "?"
        """The time in a statement of the driver, with a placeholder for `value`."""

    def value(self) -> datetime | None:
        """Return what stands for the time in a statement of the driver."""
        return None if self._clock is None else self._clock()

    def sql_after(self, after_s: float) -> tuple[str, tuple[object, ...]]:
        """Return SQL for the time after this number of seconds, and the values of its placeholders."""
        if self.sql == "?":
            assert self._clock is not None
            return "?", (self._clock() + timedelta(seconds=after_s),)
        return f"{self.sql} + ? * interval '1 second'", (self.value(), after_s)

    def time(self, after_s: float = 0) -> sa.ColumnElement[datetime]:
        """Return the time after this number of seconds; before now for a negative number."""
        after = timedelta(seconds=after_s)
        if self._clock is not None:
            return sa.literal(self._clock() + after)
        present = sa.func.timezone("utc", sa.func.statement_timestamp(), type_=sa.DateTime)
        return present + after if after_s else present

    def microseconds(self) -> sa.ColumnElement[int]:
        """Return the present time as a number, for an epoch: it grows across all jobs, and after a failover."""
        if self._clock is not None:
            return sa.literal((self._clock() - _YEAR_1970) // timedelta(microseconds=1), sa.BigInteger)
        return sa.cast(sa.func.extract("epoch", sa.func.statement_timestamp()) * 1_000_000, sa.BigInteger)
