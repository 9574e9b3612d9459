"""A request may name the hosts that it wants, or wants to be away from."""

from dataclasses import dataclass

import numpy as np

from covey.scheduler.ask import Ask
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason


@dataclass(frozen=True, slots=True)
class NamedHosts:
    """Only these hosts, and none of those: a named destination, the hints, the host that a server leaves."""

    def allows(self, ask: Ask, fleet: Fleet) -> Mask | None:
        only, other = ask.standing.only_hosts, ask.standing.other_hosts
        if only is None and not other:
            return None
        may = np.ones(len(fleet), dtype=np.bool_) if only is None else fleet.mask_of(only)
        may[fleet.rows(other)] = False
        return may

    def reasons(self, ask: Ask, fleet: Fleet, lost: Mask) -> list[Reason]:
        away = lost & fleet.mask_of(ask.standing.other_hosts)
        return [
            Reason(away, "is excluded by the request", "are excluded by the request"),
            Reason(lost & ~away, "is not the one asked for", "are not the ones asked for"),
        ]

    def why_not(self, ask: Ask, fleet: Fleet, row: int) -> str:
        excluded = fleet.hosts[row].id in ask.standing.other_hosts
        return "the request excludes it" if excluded else "the request asks for another host"
