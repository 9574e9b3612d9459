"""Compares the fleet in a process' memory with the rows."""

from typing import Any

from covey.scheduler.fleet import NO_DOMAIN, Fleet
from covey.services.live_fleet import LiveFleet
from covey.storage.store import Store


def differences(store: Store, live: LiveFleet, loaded: LiveFleet) -> dict[str, Any]:
    """Return the hosts that differ between a fleet and one that was just loaded, each as the pair of both."""
    kept, fresh = (_columns(store, each) for each in (live, loaded))
    return {name: (kept.get(name), fresh.get(name)) for name in kept | fresh if kept.get(name) != fresh.get(name)}


def _columns(store: Store, live: LiveFleet) -> dict[str, Any]:
    with store.read() as tx:
        fleet = live.read(tx).fleet
    return {fleet.uuids[row]: _column(fleet, row) for row in range(len(fleet)) if fleet.present[row]}


def _column(fleet: Fleet, row: int) -> dict[str, Any]:
    domains = {scope: fleet.domains(scope) for scope in {a.scope for a in fleet.aggregates.values() if a.scope}}
    inventories = fleet.inventories
    return {
        "host": fleet.hosts[row],
        "capacity and free": {
            name: (int(fleet.capacity[line, row]), int(fleet.free[line, row]))
            for name, line in inventories.classes.items()
            if inventories.exists[line, row]
        },
        "available": bool(fleet.available[row]),
        "traits": sorted(fleet.traits[row]),
        "placement aggregates": sorted(fleet.member_of[row]),
        "domains": {
            scope: found.names[found.of_host[row]]
            for scope, found in domains.items()
            if found.of_host[row] != NO_DOMAIN
        },
    }
