"""Servers that sit where requests like theirs may not go any more, as after a change of an aggregate's metadata."""

from collections import defaultdict
from dataclasses import dataclass

from covey.model.ids import ProjectId, ServerId
from covey.services.servers import required_traits
from covey.storage.store import Transaction

_SOME = 500  # servers that are looked at at once


@dataclass(frozen=True, slots=True)
class MisplacedServer:
    """A server on a host of aggregates that require traits which it does not ask for."""

    server: ServerId
    name: str
    project_id: ProjectId
    host: str
    aggregates: tuple[str, ...]


def misplaced_servers(tx: Transaction) -> list[MisplacedServer]:
    """All of them, by host."""
    asked: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for aggregate in tx.aggregates.all():
        if aggregate.required_traits:
            for host in aggregate.hosts:
                asked[host].append((aggregate.name, aggregate.required_traits))
    if not asked:
        return []
    found = tx.servers.names_on([host.id for host in tx.hosts.find() if host.name in asked])
    ids = [ServerId(server) for servers in found.values() for _, server in servers]
    here = [server for start in range(0, len(ids), _SOME) for server in tx.servers.by_ids(ids[start : start + _SOME])]
    told = []
    for server in sorted(here, key=lambda server: (server.host_name or "", server.id)):
        traits, host = required_traits(server.flavor, server.request), server.host_name or ""
        closed = tuple(name for name, wanted in asked[host] if not wanted <= traits)
        if closed:
            told.append(MisplacedServer(server.id, server.name, server.project_id, host, closed))
    return told
