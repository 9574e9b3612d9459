"""The initial state of a simulation: fleet, running servers, groups, and the sizes of new servers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from covey.model.claims import Allocations
from covey.model.errors import Invalid
from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.groups import HOST, GroupPolicy, PolicyKind, ScopeRef, check_policies, with_rules
from covey.model.ids import HostId, ScopeId
from covey.model.providers import ProviderRecord
from covey.model.resources import GranularGroup, Resources, total_of
from covey.scheduler.fleet import Fleet, Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec

NO_REQUIREMENTS, DEFAULT_WEIGHTS = HostRequirements(), Weights()

_MAX_LISTED = 5  # names in an error message
_WITH_TARGET = 3  # parts of a policy


@dataclass(frozen=True, slots=True)
class Size:
    """A size of server, with the traits and the granular groups that it asks for."""

    amounts: Resources
    traits: tuple[str, ...] = ()
    forbidden_traits: tuple[str, ...] = ()
    granular: tuple[GranularGroup, ...] = ()
    isolate: bool = False

    @property
    def total(self) -> Resources:
        """All that one server takes."""
        return total_of(self.amounts, self.granular)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs before the simulation starts; its host's usage includes it."""

    name: str
    host: HostId
    amounts: Resources
    requirements: HostRequirements = NO_REQUIREMENTS
    group: str | None = None
    held: Allocations | None = None  # by provider; None if its host alone serves it
    granular: tuple[GranularGroup, ...] = ()
    isolate: bool = False

    @property
    def request(self) -> RequestSpec:
        """What it asks of a host, without its group."""
        return RequestSpec(self.amounts, requirements=self.requirements, granular=self.granular, isolate=self.isolate)


@dataclass(frozen=True, slots=True)
class InitialState:
    """A fleet with its aggregates by name, its groups and its servers."""

    providers: Sequence[ProviderRecord]
    hosts: Sequence[HostRecord]
    aggregates: Sequence[AggregateRecord] = ()
    names: Mapping[int, str] = field(default_factory=dict)  # of aggregates, by id
    scopes: Mapping[str, ScopeId] = field(default_factory=dict)
    sizes: tuple[Size, ...] = ()
    groups: Mapping[str, tuple[GroupPolicy, ...]] = field(default_factory=dict)
    servers: tuple[RunningServer, ...] = ()
    weights: Weights = DEFAULT_WEIGHTS
    default_zone: str = "nova"
    subset: int = 1
    notes: tuple[str, ...] = ()  # what the simulation leaves out

    def fleet(self) -> Fleet:
        """Return the hosts in columns."""
        return Fleet(self.providers, self.hosts, self.aggregates, self.weights, self.default_zone)

    def scope(self, name: str) -> ScopeRef:
        """Return the scope of this name. Raises Invalid with the known scopes."""
        if name == HOST.name:
            return HOST
        if name not in self.scopes:
            raise Invalid(_unknown("scope", name, [HOST.name, *self.scopes]))
        return ScopeRef(self.scopes[name], name)

    def domains(self, scope: str) -> Iterator[AggregateRecord]:
        """Return the domains of a scope. Raises Invalid."""
        if scope not in self.scopes:
            raise Invalid(_unknown("scope", scope, list(self.scopes)))
        return (aggregate for aggregate in self.aggregates if aggregate.scope == self.scopes[scope])

    def hosts_at(self, place: str) -> frozenset[HostId]:
        """Return the hosts of an aggregate, such as a rack, of a zone, or the host of that name. Raises Invalid."""
        for aggregate in self.aggregates:
            if self.names.get(aggregate.id) == place:
                return frozenset(host.id for host in self.hosts if aggregate.id in host.aggregates)
        found = frozenset(host.id for host in self.hosts if place in {host.zone or self.default_zone, host.name})
        if not found:
            known = sorted(set(self.names.values()) | {host.zone or self.default_zone for host in self.hosts})
            raise Invalid(_unknown("aggregate, zone or host", place, known))
        return found

    def policies(self, texts: Sequence[str], rules: Mapping[str, int]) -> tuple[GroupPolicy, ...]:
        """Parse policies of the form TYPE[:SCOPE[:IDENTIFIER]] with the scopes of this fleet. Raises Invalid."""
        policies = with_rules(tuple(map(self._policy, texts)), rules)
        check_policies(policies)
        return policies

    def _policy(self, text: str) -> GroupPolicy:
        parts = text.split(":", 2)
        if parts[0] not in set(PolicyKind):
            raise Invalid(f"Unknown policy {text!r}. It must start with one of {', '.join(PolicyKind)}.")
        scope = self.scope(parts[1] if len(parts) > 1 else HOST.name)
        target = self._target(scope, parts[2]) if len(parts) == _WITH_TARGET else None
        return GroupPolicy(PolicyKind(parts[0]), scope, target)

    def _target(self, scope: ScopeRef, name: str) -> str:
        if scope == HOST:
            return name
        identifiers = {self.names.get(domain.id, str(domain.id)): str(domain.id) for domain in self.domains(scope.name)}
        if name not in identifiers:
            raise Invalid(_unknown(scope.name, name, sorted(identifiers)))
        return identifiers[name]


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return f"Unknown {kind} {name!r}. Known: {', '.join(known[:_MAX_LISTED]) or 'none'}{more}."
