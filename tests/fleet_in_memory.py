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
    with store.read() as tx, live.fresh(tx) as snapshot:
        return {host.name: _column(snapshot.fleet, row) for row, host in enumerate(snapshot.fleet.hosts)}


def _column(fleet: Fleet, row: int) -> dict[str, Any]:
    host = fleet.hosts[row]
    domains = {scope: fleet.domains(scope) for scope in {a.scope for a in fleet.aggregates if a.scope}}
    return {
        "capacity": fleet.capacity[:, row].tolist(),
        "free": fleet.free[:, row].tolist(),
        "available": bool(fleet.available[row]),
        "zone": fleet.zone_of(host),
        "traits": sorted(host.traits),
        "aggregates": sorted(aggregate.id for aggregate in fleet.aggregates if host.id in aggregate.hosts),
        "domains": {
            scope: found.names[found.of_host[row]]
            for scope, found in domains.items()
            if found.of_host[row] != NO_DOMAIN
        },
    }
