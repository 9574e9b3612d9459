"""What operators put right with the database in their hands, from the command line; there is no actor to ask about."""

from collections.abc import Callable

Progress = Callable[[int], None]
"""Told how many more were dealt with."""
Length = Callable[[int], Progress]
"""Told how many there are to deal with, before the first one is."""
