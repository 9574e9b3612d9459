"""A cloud with racks and zones, set up in the database."""

import uuid
from collections.abc import Mapping, Sequence

from covey.model.ids import AggregateId, ScopeId
from covey.model.scopes import Scope
from tests.build import NOW
from tests.functional.fleets import Cloud

Domains = Mapping[str, str]  # real identifiers, by name


def add_scope(
    cloud: Cloud, name: str, domains: Mapping[str, Sequence[str]], *, allow: bool = False, obfuscate: bool = False
) -> Domains:
    """Add a scope whose domains have these hosts."""
    new = Scope(ScopeId(str(uuid.uuid4())), name, allow, obfuscate, str(uuid.uuid4()))
    with cloud.store.write() as tx:
        tx.scopes.add([new])
        ids = tx.aggregates.add([(str(uuid.uuid4()), domain, None, new.id) for domain in domains], NOW)
        known = {host.name: host.id for host in tx.hosts.find()}
        pairs = [
            (AggregateId(aggregate), known[host])
            for aggregate, hosts in zip(ids, domains.values(), strict=True)
            for host in hosts
        ]
        tx.aggregates.add_hosts(pairs, NOW)
    return {domain: str(aggregate) for domain, aggregate in zip(domains, ids, strict=True)}


def scope(cloud: Cloud, name: str) -> Scope:
    with cloud.store.read() as tx:
        return next(found for found in tx.scopes.all() if found.name == name)


def surrogate(cloud: Cloud, name: str, project: str, identifier: str) -> str:
    """Return the surrogate identifier, computed in two passes as in the specification."""
    tenant = uuid.uuid5(uuid.UUID(scope(cloud, name).namespace_uuid), project)
    return str(uuid.uuid5(tenant, identifier))


RACKS = {"rack-a": ["node-1", "node-2"], "rack-b": ["node-3", "node-4"], "rack-c": ["node-5"]}
ZONES = {"zone-a": ["node-1", "node-2", "node-3"], "zone-b": ["node-4", "node-5"]}
ROWS = {"row-a": ["node-1"], "row-b": ["node-2", "node-3", "node-4"]}


class Scoped(Cloud):
    """Five hosts: racks allow no identifiers, zones allow surrogates, rows allow real ones."""

    domains: dict[str, Domains]

    def zone(self, name: str, project: str = "web") -> str:
        """Return a tenant's identifier of a zone."""
        return surrogate(self, "zone", project, self.domains["zone"][name])


def scoped(cloud: Cloud) -> Scoped:
    """A cloud of five hosts, with its scopes."""
    found = Scoped(cloud.service, cloud.assembled, cloud.store, cloud.connection, cloud.time)
    found.domains = {
        "rack": add_scope(cloud, "rack", RACKS),
        "zone": add_scope(cloud, "zone", ZONES, allow=True, obfuscate=True),
        "row": add_scope(cloud, "row", ROWS, allow=True),
    }
    return found
