"""Scopes: kinds of place (rack, switch, zone). Each domain, one such place, is an aggregate."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from covey.model.aggregates import Aggregate
from covey.model.ids import ScopeId

HOST_SCOPE = "host"  # implicit: every host is the sole member of its own domain


@dataclass(frozen=True, slots=True)
class Scope:
    """A kind of place that an operator defined."""

    id: ScopeId
    name: str
    allow_identifiers: bool
    obfuscate_identifiers: bool
    namespace_uuid: str


IMPLICIT = Scope(
    id=ScopeId("00000000-0000-4000-8000-0000686f7374"),  # which ends in "host", and is in no table
    name=HOST_SCOPE,
    allow_identifiers=False,
    obfuscate_identifiers=True,
    namespace_uuid="",
)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Hosts that no policy of a scope can be sure of: in no domain of it or, by outside hands, in several."""

    scope: str
    nowhere: tuple[str, ...]
    ambiguous: tuple[tuple[str, tuple[str, ...]], ...]  # each with the domains that it is in


def misplaced(scope: Scope, hosts: Iterable[str], domains: Iterable[Aggregate]) -> Misplaced:
    """Which of the hosts are not in exactly one domain of the scope."""
    places: dict[str, list[str]] = defaultdict(list)
    for domain in domains:
        if domain.scope == scope.id:
            for host in domain.hosts:
                places[host].append(domain.name)
    return Misplaced(
        scope.name,
        nowhere=tuple(host for host in hosts if host not in places),
        ambiguous=tuple((host, tuple(names)) for host, names in places.items() if len(names) > 1),
    )
