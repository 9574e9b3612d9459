"""A filter and a weigher for nova-scheduler: Covey decides by the policies of an instance's server group."""

from covey_nova.scheduling import CoveyFilter, CoveyWeigher

__all__ = ["CoveyFilter", "CoveyWeigher"]
