"""`covey simulate`: how a fleet would fare."""

from covey.cli.simulate.command import simulate

__all__ = ["simulate"]
