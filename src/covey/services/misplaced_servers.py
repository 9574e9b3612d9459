"""Finds misplaced servers: their host is in an aggregate that now requires traits they do not request."""

from collections import defaultdict
from dataclasses import dataclass

from covey.model.ids import ProjectId, ServerId
from covey.model.resources import resource_request
from covey.services.servers import required_traits
from covey.storage.store import Transaction

_BATCH = 500  # servers to read in one query


@dataclass(frozen=True, slots=True)
class MisplacedServer:
    """A server on a host of aggregates that require traits which the server does not request."""

    server: ServerId
    name: str
    project_id: ProjectId
    host: str
    aggregates: tuple[str, ...]


def find_misplaced_servers(tx: Transaction) -> list[MisplacedServer]:
    """Return all misplaced servers, ordered by host."""
    requiring: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for aggregate in tx.aggregates.all():
        if aggregate.required_traits:
            for host in aggregate.hosts:
                requiring[host].append((aggregate.name, aggregate.required_traits))
    if not requiring:
        return []
    found = tx.servers.names_on([host.id for host in tx.hosts.find() if host.name in requiring])
    ids = [ServerId(server) for servers in found.values() for _, server in servers]
    on_hosts = [
        server for start in range(0, len(ids), _BATCH) for server in tx.servers.by_ids(ids[start : start + _BATCH])
    ]
    misplaced = []
    for server in sorted(on_hosts, key=lambda server: (server.host_name or "", server.id)):
        traits = required_traits(server.flavor, server.request) | resource_request(server.flavor).granular_traits
        host = server.host_name or ""
        violated = tuple(name for name, required in requiring[host] if not required <= traits)
        if violated:
            misplaced.append(MisplacedServer(server.id, server.name, server.project_id, host, violated))
    return misplaced
