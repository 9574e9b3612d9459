"""Compares the servers that the service records with the guests and the data that hosts have."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any


def wait_for_agreement(disagreements: Callable[[], list[str]], timeout_s: float) -> None:
    """Wait until there is no disagreement. The error has those that are left."""
    deadline = time.monotonic() + timeout_s
    while found := disagreements():
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def disagreements(
    servers: Sequence[Mapping[str, Any]], guests: Mapping[str, Mapping[str, str]], disks: Collection[str]
) -> list[str]:
    """Return a sentence for each server whose guest is not as its row says, and for each guest or disk without a row.

    `servers` are documents of the Compute API, `guests` the power of each server's guest by host, and `disks` the
    servers that have data.
    """
    known = {server["id"]: server for server in servers}
    found = [f"{server} is unrecorded: {dict(places)}" for server, places in guests.items() if server not in known]
    for server, document in known.items():
        wanted, places = places_of(document), {host: _seen(power) for host, power in guests.get(server, {}).items()}
        if wanted is not None and places != wanted:
            found.append(f"{server} is {document['status']}: {wanted} is recorded, {places} is true")
        if wanted and server not in disks:
            found.append(f"{server} is {document['status']}, and has no disk")
    return found + [f"the disk of {server} is left" for server in sorted(set(disks) - known.keys())]


def places_of(server: Mapping[str, Any]) -> dict[str, str] | None:
    """Return where the guest of a server is, and whether it runs, by its row; None while that changes."""
    host = server["OS-EXT-SRV-ATTR:host"]
    if server["OS-EXT-STS:task_state"] is not None:
        return None
    match server["status"]:
        case "ACTIVE" | "VERIFY_RESIZE":
            return {host: "running"}
        case "SHUTOFF":
            return {host: "shutdown"}
        case "SHELVED_OFFLOADED":
            return {}
        case _:
            return {} if host is None else None


def _seen(power: str) -> str:
    """Return a power state as the service shows it: a crashed guest is SHUTOFF too."""
    return "shutdown" if power == "crashed" else power
