"""Decision: the hosts that were chosen, and what is needed to decide the same again."""

from dataclasses import dataclass

from covey.model.ids import HostId


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen hosts, one for each server; empty when the minimum did not fit."""

    chosen: tuple[HostId, ...]
    fitting: tuple[HostId, ...]  # the same, also when there were too few
    candidates: int  # hosts that would have done for the first server
    seed: int
