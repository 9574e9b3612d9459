"""Remedies: the smallest changes that would let a refused server fit, each found by deciding again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from covey.model.groups import GroupPolicy, PolicyKind
from covey.model.policy_words import one_place
from covey.scheduler.constraints.isolation import forbidden
from covey.scheduler.decide import allowed, decide
from covey.scheduler.fleet import NO_DOMAIN, RESOURCES, AggregateRecord, Fleet, HostRecord, Mask, counts_by_domain
from covey.scheduler.request_spec import RequestSpec

_TOLD = 3  # hosts by name
_MB_IN_GB = 1024


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that would have to be otherwise. What only operators could change is told to nobody else."""

    words: str
    for_operators: bool = False


@dataclass(frozen=True, slots=True)
class _Try:
    words: str
    spec: RequestSpec
    fleet: Fleet
    for_operators: bool = False


def remedies(spec: RequestSpec, fleet: Fleet) -> list[Remedy]:
    """Single changes after which a host would take the server. Give it a copy of the fleet: it asks for odd sizes."""
    tries = _smaller(spec, fleet) if spec.forced else _all(spec, fleet)
    return [Remedy(t.words, t.for_operators) for t in tries if decide(t.spec, t.fleet, 0).chosen]


def _all(spec: RequestSpec, fleet: Fleet) -> list[_Try]:
    return [
        *_smaller(spec, fleet),
        *_looser(spec, fleet),
        *_elsewhere(spec, fleet),
        *_other_traits(spec, fleet),
        *_opened(spec, fleet),
    ]


def _smaller(spec: RequestSpec, fleet: Fleet) -> list[_Try]:
    """With less of one resource, as much as the roomiest host that may has; what is nearest to the wish comes first."""
    found: list[tuple[float, _Try]] = []
    for kind, (free, wanted) in enumerate(zip(fleet.free, spec.amounts, strict=True)):
        most = int(free[allowed(_with(spec, kind, 0), fleet)].max(initial=0))
        if 0 < most < wanted:
            found.append((most / wanted, _Try(f"with {_less(wanted - most, kind)}", _with(spec, kind, most), fleet)))
    return [smaller for _, smaller in sorted(found, key=lambda each: -each[0])]


def _with(spec: RequestSpec, kind: int, amount: int) -> RequestSpec:
    vcpus, memory_mb, disk_gb = (amount if i == kind else own for i, own in enumerate(spec.amounts))
    return replace(spec, vcpus=vcpus, memory_mb=memory_mb, disk_gb=disk_gb)


def _less(amount: int, kind: int) -> str:
    match RESOURCES[kind]:
        case "VCPU":
            return f"{amount} VCPU{'' if amount == 1 else 's'} less"
        case "MEMORY_MB":
            told = f"{amount} MB" if amount % _MB_IN_GB else f"{amount // _MB_IN_GB} GB"
            return f"{told} less memory"
        case _:
            return f"{amount} GB less disk"


def _looser(spec: RequestSpec, fleet: Fleet) -> Iterator[_Try]:
    """With one hard policy of the group that allows more, or is gone."""
    for policy in spec.group.policies:
        if policy.kind.is_soft:
            continue
        others = tuple(other for other in spec.group.policies if other is not policy)
        without = replace(spec, group=replace(spec.group, policies=others))
        if policy.kind is PolicyKind.ANTI_AFFINITY and policy.target is None:
            yield from _more_in_one(policy, spec, fleet, allowed(without, fleet))
        else:
            yield _Try(_given_up(policy), without, fleet)


def _more_in_one(policy: GroupPolicy, spec: RequestSpec, fleet: Fleet, may: Mask) -> Iterator[_Try]:
    domains = fleet.domains(policy.scope.id)
    reached = domains.of_host[may & (domains.of_host != NO_DOMAIN)]
    if not reached.size:
        return
    limit = int(counts_by_domain(domains, fleet, spec.group.places)[reached].min()) + 1
    if limit > policy.limit:
        looser = tuple(replace(p, limit=limit) if p is policy else p for p in spec.group.policies)
        words = f"if {limit - policy.limit} more were allowed {one_place(policy.scope.name)}"
        yield _Try(words, replace(spec, group=replace(spec.group, policies=looser)), fleet)


def _given_up(policy: GroupPolicy) -> str:
    if policy.kind is PolicyKind.ANTI_AFFINITY:
        return f"if the group did not avoid that {policy.scope.name}"
    place = one_place(policy.scope.name) if policy.target is None else f"in that {policy.scope.name}"
    return f"if the group did not have to be {place}"


def _elsewhere(spec: RequestSpec, fleet: Fleet) -> Iterator[_Try]:
    """With another zone, or with hosts that the request did not name or ruled out."""
    requirements = spec.requirements
    for words, relaxed in (
        ("in any zone", replace(requirements, zone=None)),
        ("on any host, not just where it was asked for", replace(requirements, only_hosts=None)),
        ("if the hosts that the request excludes were allowed", replace(requirements, other_hosts=frozenset())),
    ):
        if relaxed != requirements:
            yield _Try(words, replace(spec, requirements=relaxed), fleet)


def _other_traits(spec: RequestSpec, fleet: Fleet) -> Iterator[_Try]:
    """Without one of the traits that flavor and image ask for."""
    requirements = spec.requirements
    for trait in sorted(requirements.required_traits):
        relaxed = replace(requirements, required_traits=requirements.required_traits - {trait})
        yield _Try(f"if the trait {trait} were not required", replace(spec, requirements=relaxed), fleet)
    for trait in sorted(requirements.forbidden_traits):
        relaxed = replace(requirements, forbidden_traits=requirements.forbidden_traits - {trait})
        yield _Try(f"if the trait {trait} were not forbidden", replace(spec, requirements=relaxed), fleet)


def _opened(spec: RequestSpec, fleet: Fleet) -> Iterator[_Try]:
    """What operators can do: enable hosts, bring them up, let more requests into an aggregate."""
    yield from _mended("enabled", [h if h.enabled else replace(h, enabled=True) for h in fleet.hosts], spec, fleet)
    yield from _mended("up", [h if h.up else replace(h, up=True) for h in fleet.hosts], spec, fleet)
    shared = [replace(aggregate, projects=frozenset()) for aggregate in fleet.aggregates]
    if shared != list(fleet.aggregates):
        words = "if hosts that are kept for other projects were open to it"
        yield _Try(words, spec, _with_aggregates(fleet, shared), for_operators=True)
    for traits in dict.fromkeys(aggregate.traits for aggregate in forbidden(spec, fleet)):
        missing = sorted(traits - spec.requirements.required_traits)
        entitled = replace(spec.requirements, required_traits=spec.requirements.required_traits | traits)
        words = f"if it required the trait {', '.join(missing)}"
        yield _Try(words, replace(spec, requirements=entitled), fleet, for_operators=True)


def _mended(word: str, mended: Sequence[HostRecord], spec: RequestSpec, fleet: Fleet) -> Iterator[_Try]:
    """With hosts in a better state, of which those are told that would then take the server."""
    other = _with_hosts(fleet, mended)
    rows = np.flatnonzero(allowed(spec, other)).tolist()
    named = [host.name for host in map(fleet.hosts.__getitem__, rows) if not (host.enabled and host.up)]
    if named:
        yield _Try(f"if {_any_of(named)} were {word}", spec, other, for_operators=True)


def _any_of(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    rest = len(names) - _TOLD
    told = ", ".join(names[:_TOLD]) if rest > 0 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"one of {told}{f' or {rest} more' if rest > 0 else ''}"


def _with_hosts(fleet: Fleet, hosts: Sequence[HostRecord]) -> Fleet:
    other = fleet.copy()
    other.hosts, other.static_masks = hosts, {}
    return other


def _with_aggregates(fleet: Fleet, aggregates: Sequence[AggregateRecord]) -> Fleet:
    other = fleet.copy()
    other.aggregates, other.static_masks = aggregates, {}
    return other
