"""Remedies: single changes after which a refused request would fit, each verified by deciding again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from covey.scheduler.constraints.static import forbidden_aggregates
from covey.scheduler.decide import allowed_hosts, decide
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.policies import hard_policies
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import largest_free

_MAX_NAMES = 3  # of hosts
_MB_IN_GB = 1024


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change, in words. Tenants do not see what only an operator can change."""

    words: str
    for_operators: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    words: str
    spec: RequestSpec
    fleet: Fleet
    for_operators: bool = False


def remedies(spec: RequestSpec, fleet: Fleet) -> list[Remedy]:
    """Return the changes after which a host admits the server. Pass a copy of the fleet: its cache of sizes changes."""
    changes = _smaller(spec, fleet) if spec.forced else _all(spec, fleet)
    return [Remedy(c.words, c.for_operators) for c in changes if decide(c.spec, c.fleet, 0).chosen]


def _all(spec: RequestSpec, fleet: Fleet) -> list[_Change]:
    return [
        *_smaller(spec, fleet),
        *_relaxed_policies(spec, fleet),
        *_other_hosts(spec, fleet),
        *_fewer_traits(spec, fleet),
        *_by_operators(spec, fleet),
    ]


def _smaller(spec: RequestSpec, fleet: Fleet) -> list[_Change]:
    """Request less of one resource: what the roomiest host has that admits the rest. The smallest cut comes first."""
    found: list[tuple[float, _Change]] = []
    for name, amount in spec.amounts.items():
        open_hosts = allowed_hosts(replace(spec, amounts=spec.amounts.without(name)), fleet)
        most = int(largest_free(fleet, name)[open_hosts].max(initial=0))
        if 0 < most < amount:
            smaller = replace(spec, amounts=spec.amounts.with_amount(name, most))
            found.append((most / amount, _Change(f"with {_less(amount - most, name)}", smaller, fleet)))
    return [change for _, change in sorted(found, key=lambda pair: -pair[0])]


def _less(amount: int, name: str) -> str:
    match name:
        case "VCPU":
            return f"{amount} VCPU{'' if amount == 1 else 's'} less"
        case "MEMORY_MB":
            size = f"{amount} MB" if amount % _MB_IN_GB else f"{amount // _MB_IN_GB} GB"
            return f"{size} less memory"
        case "DISK_GB":
            return f"{amount} GB less disk"
        case _:
            return f"{amount} less {name}"


def _relaxed_policies(spec: RequestSpec, fleet: Fleet) -> Iterator[_Change]:
    """Relax or drop one hard policy of the group."""
    group = spec.group
    for kind, policy in sorted(hard_policies(group), key=lambda pair: group.policies.index(pair[1])):
        without = replace(group, policies=tuple(other for other in group.policies if other is not policy))
        relaxed = kind.relax(policy, group, fleet, allowed_hosts(replace(spec, group=without), fleet))
        if relaxed is not None:
            kept = (relaxed.policy if other is policy else other for other in group.policies)
            view = replace(group, policies=tuple(other for other in kept if other is not None))
            yield _Change(relaxed.words, replace(spec, group=view), fleet)


def _other_hosts(spec: RequestSpec, fleet: Fleet) -> Iterator[_Change]:
    """Drop the zone, or the hosts that the request names or excludes."""
    requirements = spec.requirements
    for words, relaxed in (
        ("in any zone", replace(requirements, zone=None)),
        ("on any host, not only the requested ones", replace(requirements, only_hosts=None)),
        ("if the hosts that the request excludes were allowed", replace(requirements, ignored_hosts=frozenset())),
    ):
        if relaxed != requirements:
            yield _Change(words, replace(spec, requirements=relaxed), fleet)


def _fewer_traits(spec: RequestSpec, fleet: Fleet) -> Iterator[_Change]:
    """Drop one of the traits that the flavor and the image require or forbid."""
    requirements = spec.requirements
    for trait in sorted(requirements.required_traits):
        relaxed = replace(requirements, required_traits=requirements.required_traits - {trait})
        yield _Change(f"if the trait {trait} were not required", replace(spec, requirements=relaxed), fleet)
    for trait in sorted(requirements.forbidden_traits):
        relaxed = replace(requirements, forbidden_traits=requirements.forbidden_traits - {trait})
        yield _Change(f"if the trait {trait} were not forbidden", replace(spec, requirements=relaxed), fleet)


def _by_operators(spec: RequestSpec, fleet: Fleet) -> Iterator[_Change]:
    """Change what only operators can: enable hosts, bring them up, open an aggregate to more requests."""
    enabled, up, shared = _variant(fleet), _variant(fleet), _variant(fleet)
    enabled.enabled = up.up = fleet.is_host
    yield from _with_state("enabled", spec, enabled, ~fleet.available)
    yield from _with_state("up", spec, up, ~fleet.available)
    if any(aggregate.projects for aggregate in fleet.restricted):
        shared.restricted = [replace(aggregate, projects=frozenset()) for aggregate in fleet.restricted]
        yield _Change("if hosts reserved for other projects were open to it", spec, shared, for_operators=True)
    for traits in dict.fromkeys(aggregate.traits for aggregate in forbidden_aggregates(spec, fleet)):
        missing = traits - spec.requirements.all_required_traits
        entitled = replace(spec.requirements, required_traits=spec.requirements.required_traits | missing)
        words = f"if it required the trait {', '.join(sorted(missing))}"
        yield _Change(words, replace(spec, requirements=entitled), fleet, for_operators=True)


def _with_state(word: str, spec: RequestSpec, variant: Fleet, unavailable: Mask) -> Iterator[_Change]:
    """Bring hosts into a better state; the words name those that would then admit the server."""
    named = [variant.names[row] for row in np.flatnonzero(allowed_hosts(spec, variant) & unavailable).tolist()]
    if named:
        yield _Change(f"if {_any_of(named)} were {word}", spec, variant, for_operators=True)


def _any_of(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    rest = len(names) - _MAX_NAMES
    listed = ", ".join(names[:_MAX_NAMES]) if rest > 0 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"one of {listed}{f' or {rest} more' if rest > 0 else ''}"


def _variant(fleet: Fleet) -> Fleet:
    """Return a copy in which static columns may be replaced."""
    other = fleet.copy()
    other.reset()
    return other
