"""Turns what the database refuses into what the model calls it."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from covey.model.errors import CoveyError, Invalid, TransactionConflict

_OVERTAKEN = "Somebody else changed the same thing at the same time. Look at it anew, then try again."
_OVERTAKEN_STATES = {"40001", "40P01"}  # SQL's names for a serialization failure and a deadlock


@contextmanager
def refused_as(error: CoveyError) -> Iterator[None]:
    """Raises the given error if the database finds a key or a check broken in the block."""
    try:
        yield
    except sa.exc.IntegrityError as cause:
        raise error from cause


@contextmanager
def refused_in_the_end() -> Iterator[None]:
    """For a whole transaction: what its own statements did not foresee, such as a rule checked at its end."""
    try:
        yield
    except sa.exc.IntegrityError as cause:
        raise TransactionConflict(_OVERTAKEN) from cause
    except sa.exc.DataError as cause:
        raise Invalid("A value is longer or larger than the database can keep.") from cause
    except sa.exc.OperationalError as cause:
        if getattr(cause.orig, "sqlstate", None) in _OVERTAKEN_STATES:
            raise TransactionConflict(_OVERTAKEN) from cause
        raise
