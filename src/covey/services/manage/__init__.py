"""Repairs of the database behind `covey manage`. The command line calls them directly, so no access rules apply."""

from collections.abc import Callable

Progress = Callable[[int], None]
"""Called with the number of items done since the last call."""
StartProgress = Callable[[int], Progress]
"""Called once with the number of items, before the first one."""
