"""Compares the guests of a host with the servers that the service has there, and decides what to do about each."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from covey.agent.guests import Guest
from covey.agent.hypervisor import ObservedGuest
from covey.agent.service_api import ExpectedServer

_LAST_EPOCH = 2**63 - 1  # a deleted server gets no calls any more


class RepairAction(StrEnum):
    """What to do about a guest."""

    START = "start"  # it should run, and does not
    REPORT = "report"  # send its power state to the service
    DETACH = "detach"  # it is on another host, or shelved: its data stays
    DESTROY = "destroy"  # it is deleted, or its data here is stale


@dataclass(frozen=True, slots=True)
class Repair:
    """One guest, and what to do about it."""

    action: RepairAction
    server: str
    epoch: int
    power: str = "shutdown"  # as observed
    is_missing: bool = False  # the hypervisor does not have it
    guest: Guest | None = None  # of a server that belongs here


class ForeignService(Exception):
    """The service knows none of the host's guests. It is probably the wrong service, and nothing is touched."""

    def __init__(self, guests: int) -> None:
        super().__init__(
            f"The service knows no guest on this host ({guests} in all), and has no server here. Is it the right "
            "service? The agent leaves the guests alone, and does not report up."
        )


def find_orphans(observed: Sequence[ObservedGuest], expected: Sequence[ExpectedServer]) -> list[str]:
    """Return the guests that the service does not have on this host."""
    known = {each.guest.id for each in expected}
    return [guest.id for guest in observed if guest.id not in known]


def find_leftovers(
    stored: Iterable[str], observed: Sequence[ObservedGuest], expected: Sequence[ExpectedServer]
) -> list[str]:
    """Return the servers that have data here, and neither a guest nor a row of the service."""
    known = {guest.id for guest in observed} | {each.guest.id for each in expected}
    return sorted(set(stored) - known)


def cleanups(locations: Mapping[str, str], epochs: Mapping[str, int], *, shares_disks: bool) -> list[Repair]:
    """Return what removes data that no server needs. The data of a shelved server stays, and that of an unknown one.

    `epochs` are the newest that the host had seen before the service was asked for the locations.
    """
    found = [
        Repair(RepairAction.DESTROY, server, _LAST_EPOCH)
        for server, location in locations.items()
        if location == "deleted"
    ]
    if not shares_disks:  # an older copy; a newer call of the server goes first
        stale = (server for server, location in locations.items() if location == "elsewhere")
        found += [Repair(RepairAction.DESTROY, server, epochs.get(server, 0)) for server in stale]
    return found


def repairs(
    observed: Sequence[ObservedGuest],
    expected: Sequence[ExpectedServer],
    locations: Mapping[str, str],
    *,
    resumed: Collection[str] | None,
    shares_disks: bool,
) -> list[Repair]:
    """Return what makes the host agree with the service.

    `locations` says where the service has each orphan. `resumed` are the servers to start again if they should run and
    do not: those that self-fencing has stopped; None means all. Servers with a task, and servers that arrive or leave,
    belong to their calls. Raises ForeignService.
    """
    unknown = [server for server, location in locations.items() if location == "unknown"]
    if unknown and len(unknown) == len(observed) and not expected:
        raise ForeignService(len(unknown))
    here = {guest.id: guest for guest in observed}
    found = [_orphan(here[server], location, shares_disks=shares_disks) for server, location in locations.items()]
    found += [_own(each, here.get(each.guest.id), resumed) for each in expected]
    return [repair for repair in found if repair is not None]


def removals(observed: Sequence[ObservedGuest], locations: Mapping[str, str], *, shares_disks: bool) -> list[Repair]:
    """Return what removes guests that do not belong here. Guests that the service does not know stay."""
    known = [guest for guest in observed if locations.get(guest.id, "unknown") != "unknown"]
    found = (_orphan(guest, locations[guest.id], shares_disks=shares_disks) for guest in known)
    return [repair for repair in found if repair is not None]


def _orphan(guest: ObservedGuest, location: str, *, shares_disks: bool) -> Repair | None:
    match location:
        case "deleted":
            return Repair(RepairAction.DESTROY, guest.id, guest.epoch)
        case "elsewhere" if not shares_disks:  # it runs from another disk
            return Repair(RepairAction.DESTROY, guest.id, guest.epoch)
        case "elsewhere" | "shelved" | "unknown":
            return Repair(RepairAction.DETACH, guest.id, guest.epoch)
        case _:  # it has arrived since
            return None


def _own(server: ExpectedServer, guest: ObservedGuest | None, resumed: Collection[str] | None) -> Repair | None:
    if server.task is not None or server.location != "here":
        return None
    wanted, power = server.guest.power, "shutdown" if guest is None else guest.power
    if power in {wanted, "starting"} and (guest is not None or wanted == "shutdown"):
        return None
    epoch = server.epoch if guest is None else max(server.epoch, guest.epoch)
    start = wanted == "running" and power != "paused" and (resumed is None or server.guest.id in resumed)
    action = RepairAction.START if start else RepairAction.REPORT
    return Repair(action, server.guest.id, epoch, power, guest is None, server.guest)
