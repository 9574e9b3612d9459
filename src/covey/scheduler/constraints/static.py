"""Constraints that hold until the fleet's structure changes: host state, names, zones, aggregates and traits."""

from dataclasses import dataclass

import numpy as np

from covey.model.fleet_records import AggregateRecord
from covey.scheduler.columns import groups_of, number_combinations
from covey.scheduler.fleet import Fleet, Mask, Rows
from covey.scheduler.reasons import Reason, Sentences
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class Enabled:
    """The host's compute service is enabled."""

    def allows(self, _: RequestSpec, fleet: Fleet) -> Mask:
        return fleet.enabled

    def reasons(self, _: RequestSpec, __: Fleet, rejected: Mask) -> list[Reason]:
        return [Reason(rejected, "is disabled", "are disabled")]

    def explain_hosts(self, _: RequestSpec, __: Fleet, rows: Rows) -> Sentences:
        yield rows, "it is disabled"


@dataclass(frozen=True, slots=True)
class Up:
    """The host's compute service is up."""

    def allows(self, _: RequestSpec, fleet: Fleet) -> Mask:
        return fleet.up

    def reasons(self, _: RequestSpec, __: Fleet, rejected: Mask) -> list[Reason]:
        return [Reason(rejected, "is down", "are down")]

    def explain_hosts(self, _: RequestSpec, __: Fleet, rows: Rows) -> Sentences:
        yield rows, "it is down"


@dataclass(frozen=True, slots=True)
class NamedHosts:
    """The request names the host or does not exclude it: a destination, a hint, the host that a server leaves."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        only, other = spec.requirements.only_hosts, spec.requirements.ignored_hosts
        if only is None and not other:
            return None
        mask = np.ones(len(fleet), dtype=np.bool_) if only is None else fleet.mask_of(only)
        mask[fleet.rows(other)] = False
        return mask

    def reasons(self, spec: RequestSpec, fleet: Fleet, rejected: Mask) -> list[Reason]:
        excluded = rejected & fleet.mask_of(spec.requirements.ignored_hosts)
        return [
            Reason(excluded, "is excluded by the request", "are excluded by the request"),
            Reason(rejected & ~excluded, "is not the one asked for", "are not the ones asked for"),
        ]

    def explain_hosts(self, spec: RequestSpec, fleet: Fleet, rows: Rows) -> Sentences:
        excluded = fleet.mask_of(spec.requirements.ignored_hosts)[rows]
        yield rows[excluded], "the request excludes it"
        yield rows[~excluded], "the request asks for another host"


@dataclass(frozen=True, slots=True)
class Zone:
    """The host is in the requested availability zone; a host without a zone is in the default one."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        zone = spec.requirements.zone
        return None if zone is None else fleet.zone.any_of([zone])

    def reasons(self, spec: RequestSpec, _: Fleet, rejected: Mask) -> list[Reason]:
        zone = spec.requirements.zone
        return [Reason(rejected, f"is not in zone {zone}", f"are not in zone {zone}")]

    def explain_hosts(self, spec: RequestSpec, fleet: Fleet, rows: Rows) -> Sentences:
        for zone, same in fleet.zone.groups(rows):
            yield same, f"it is in zone {', '.join(zone)}, not {spec.requirements.zone}"


@dataclass(frozen=True, slots=True)
class TenantIsolation:
    """Hosts of an aggregate with filter_tenant_id metadata admit only the projects that it lists."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        reserved = [aggregate for aggregate in fleet.restricted if aggregate.projects]
        if not reserved or spec.requirements.ignores_isolation:
            return None
        project = spec.requirements.project_id
        closed = fleet.in_aggregates.any_of(each.id for each in reserved if project not in each.projects)
        opened = fleet.in_aggregates.any_of(each.id for each in reserved if project in each.projects)
        return ~closed | opened

    def reasons(self, _: RequestSpec, __: Fleet, rejected: Mask) -> list[Reason]:
        return [Reason(rejected, "is reserved for other projects", "are reserved for other projects")]

    def explain_hosts(self, _: RequestSpec, __: Fleet, rows: Rows) -> Sentences:
        yield rows, "an aggregate reserves it for other projects"


@dataclass(frozen=True, slots=True)
class ForbiddenAggregates:
    """Hosts of an aggregate that requires traits admit only requests that require them all."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        closed = [] if spec.requirements.ignores_isolation else forbidden_aggregates(spec, fleet)
        return ~fleet.in_aggregates.any_of(aggregate.id for aggregate in closed) if closed else None

    def reasons(self, _: RequestSpec, __: Fleet, rejected: Mask) -> list[Reason]:
        one = "is in an aggregate that requires traits the request does not ask for"
        return [Reason(rejected, one, one.replace("is in", "are in"))]

    def explain_hosts(self, _: RequestSpec, __: Fleet, rows: Rows) -> Sentences:
        yield rows, "it is in an aggregate that requires traits the request does not ask for"


def forbidden_aggregates(spec: RequestSpec, fleet: Fleet) -> list[AggregateRecord]:
    """Return the aggregates whose required traits the request does not all require."""
    required = spec.requirements.all_required_traits
    return [aggregate for aggregate in fleet.restricted if not aggregate.traits <= required]


@dataclass(frozen=True, slots=True)
class Traits:
    """The host has all required traits, and none of the forbidden ones."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        required, forbidden = spec.requirements.required_traits, spec.requirements.forbidden_traits
        if not required and not forbidden:
            return None
        mask = fleet.trees.with_traits(required)
        return mask & ~fleet.traits.any_of(forbidden) if forbidden else mask

    def reasons(self, spec: RequestSpec, fleet: Fleet, rejected: Mask) -> list[Reason]:
        lacks = rejected & ~fleet.trees.with_traits(spec.requirements.required_traits)
        return [
            Reason(lacks, "lacks a required trait", "lack a required trait"),
            Reason(rejected & ~lacks, "has a forbidden trait", "have a forbidden trait"),
        ]

    def explain_hosts(self, spec: RequestSpec, fleet: Fleet, rows: Rows) -> Sentences:
        required, forbidden = spec.requirements.required_traits, spec.requirements.forbidden_traits
        has = fleet.traits.any_of(forbidden, rows) & fleet.trees.with_traits(required)[rows]
        for traits, same in fleet.traits.groups(rows[has]):
            yield same, f"it has the forbidden trait {', '.join(sorted(forbidden & traits))}"
        rows = rows[~has]
        lacks = [~fleet.trees.with_traits([trait])[rows] for trait in sorted(required)]
        for _, places in groups_of(number_combinations(lacks, rows.size), np.arange(rows.size)):
            missing = (trait for trait, column in zip(sorted(required), lacks, strict=True) if column[places[0]])
            yield rows[places], f"it lacks the required trait {', '.join(missing)}"
