"""`covey simulate`: replay a workload on a fleet."""

from covey.cli.simulate.command import simulate

__all__ = ["simulate"]
