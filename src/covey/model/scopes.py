"""Policy scopes: failure-domain types such as rack or switch. Each domain, such as one rack, is an aggregate."""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from covey.model.aggregates import Aggregate
from covey.model.ids import ProjectId, ScopeId

HOST_SCOPE = "host"  # implicit: every host is the only member of its own domain


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope that an operator defined."""

    id: ScopeId
    name: str
    allow_identifiers: bool
    obfuscate_identifiers: bool
    namespace_uuid: str


IMPLICIT_SCOPE = Scope(
    id=ScopeId("00000000-0000-4000-8000-0000686f7374"),  # the last bytes spell "host"; no table has this id
    name=HOST_SCOPE,
    allow_identifiers=False,
    obfuscate_identifiers=True,
    namespace_uuid="",
)


def obfuscated_identifier(namespace: str, project: ProjectId, identifier: str) -> str:
    """Return the identifier that one project uses for a domain. It is derived from the scope's secret namespace."""
    tenant = uuid.uuid5(uuid.UUID(namespace), project)
    return str(uuid.uuid5(tenant, identifier))


@dataclass(frozen=True, slots=True)
class DomainProblems:
    """Hosts that policies of a scope exclude: they are in no domain of it or, after changes outside Covey, in two."""

    scope: str
    no_domain: tuple[str, ...]
    ambiguous: tuple[tuple[str, tuple[str, ...]], ...]  # each host with its domains


def find_domain_problems(scope: Scope, hosts: Iterable[str], aggregates: Iterable[Aggregate]) -> DomainProblems:
    """Return the hosts that are not in exactly one domain of the scope."""
    domains: dict[str, list[str]] = defaultdict(list)
    for aggregate in aggregates:
        if aggregate.scope == scope.id:
            for host in aggregate.hosts:
                domains[host].append(aggregate.name)
    return DomainProblems(
        scope.name,
        no_domain=tuple(host for host in hosts if host not in domains),
        ambiguous=tuple((host, tuple(names)) for host, names in domains.items() if len(names) > 1),
    )
