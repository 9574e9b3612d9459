"""Scopes: kinds of place (rack, switch, zone). Each domain, one such place, is an aggregate."""

from dataclasses import dataclass

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
