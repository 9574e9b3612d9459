"""Hosts that a scope says nothing sure of: they are in none of its domains, or outside hands put them in two."""

from covey.scheduler.fleet import Domains, Mask
from covey.scheduler.reasons import Reason


def nowhere_reasons(domains: Domains, place: str, lost: Mask) -> list[Reason]:
    """Why hosts without a sure domain were lost."""
    return [
        Reason(lost & ~domains.ambiguous, f"is in no {place}", f"are in no {place}"),
        Reason(lost & domains.ambiguous, f"is in two {place} domains", f"are in two {place} domains"),
    ]


def why_nowhere(domains: Domains, place: str, row: int) -> str:
    """The same for one host."""
    return f"it is in two {place} domains at once" if domains.ambiguous[row] else f"it is in no {place}"
