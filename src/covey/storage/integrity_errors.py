"""Integrity errors of the database as errors of the model."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from covey.model.errors import CoveyError


@contextmanager
def integrity_error_as(error: CoveyError) -> Iterator[None]:
    """Raise the given error if a statement in the block violates a key or a check."""
    try:
        yield
    except sa.exc.IntegrityError as cause:
        raise error from cause
