"""Sizes of tests that could run for any time. Both are shares of the counts that the tests name.

`make` sets them: EXAMPLES for properties (`make test-quick` takes a twentieth), SOAK for the storms of `make soak`.
"""

import os

_EXAMPLES = float(os.environ.get("EXAMPLES", "1"))
_SOAK = float(os.environ.get("SOAK", "1"))


def is_whole() -> bool:
    """Return whether soak tests run in full, on a machine of their own."""
    return _SOAK >= 1


def examples(count: int) -> int:
    """Return how many examples of a property to try."""
    return max(1, round(count * _EXAMPLES))


def operations(count: int) -> int:
    """Return how many operations, kills or examples a soak test does."""
    return max(1, round(count * _SOAK))
