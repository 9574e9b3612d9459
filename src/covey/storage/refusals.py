"""Turns what the database refuses into what the model calls it."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from covey.model.errors import CoveyError


@contextmanager
def refused_as(error: CoveyError) -> Iterator[None]:
    """Raises the given error if the database finds a key or a check broken in the block."""
    try:
        yield
    except sa.exc.IntegrityError as cause:
        raise error from cause
