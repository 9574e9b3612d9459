"""Optional dependencies: names the extra to install when a feature needs one that is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from covey.model.errors import MissingExtra


@contextmanager
def requires(extra: str, feature: str) -> Iterator[None]:
    """Import optional packages inside this block. Raises MissingExtra when one of them is not installed."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "covey":
            raise
        raise MissingExtra(feature, extra, str(error)) from error
