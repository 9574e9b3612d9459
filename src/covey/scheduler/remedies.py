"""Remedies: the smallest changes that would let a refused server fit, each found by deciding again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from covey.model.groups import GroupPolicy, PolicyKind
from covey.model.policy_words import one_place
from covey.scheduler.ask import Ask
from covey.scheduler.constraints.isolation import forbidden
from covey.scheduler.decide import allowed, decide
from covey.scheduler.fleet import NOWHERE, RESOURCES, AggregateRecord, Fleet, HostRecord, Mask, counts_by_domain

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
    ask: Ask
    fleet: Fleet
    for_operators: bool = False


def remedies(ask: Ask, fleet: Fleet) -> list[Remedy]:
    """Single changes after which a host would take the server. Give it a copy of the fleet: it asks for odd sizes."""
    tries = _smaller(ask, fleet) if ask.forced else _all(ask, fleet)
    return [Remedy(t.words, t.for_operators) for t in tries if decide(t.ask, t.fleet, 0).chosen]


def _all(ask: Ask, fleet: Fleet) -> list[_Try]:
    return [
        *_smaller(ask, fleet),
        *_looser(ask, fleet),
        *_elsewhere(ask, fleet),
        *_other_traits(ask, fleet),
        *_opened(ask, fleet),
    ]


def _smaller(ask: Ask, fleet: Fleet) -> list[_Try]:
    """With less of one resource, as much as the roomiest host that may has; what is nearest to the wish comes first."""
    found: list[tuple[float, _Try]] = []
    for kind, (free, wanted) in enumerate(zip(fleet.free, ask.amounts, strict=True)):
        most = int(free[allowed(_with(ask, kind, 0), fleet)].max(initial=0))
        if 0 < most < wanted:
            found.append((most / wanted, _Try(f"with {_less(wanted - most, kind)}", _with(ask, kind, most), fleet)))
    return [smaller for _, smaller in sorted(found, key=lambda each: -each[0])]


def _with(ask: Ask, kind: int, amount: int) -> Ask:
    vcpus, memory_mb, disk_gb = (amount if i == kind else own for i, own in enumerate(ask.amounts))
    return replace(ask, vcpus=vcpus, memory_mb=memory_mb, disk_gb=disk_gb)


def _less(amount: int, kind: int) -> str:
    match RESOURCES[kind]:
        case "VCPU":
            return f"{amount} VCPU{'' if amount == 1 else 's'} less"
        case "MEMORY_MB":
            told = f"{amount} MB" if amount % _MB_IN_GB else f"{amount // _MB_IN_GB} GB"
            return f"{told} less memory"
        case _:
            return f"{amount} GB less disk"


def _looser(ask: Ask, fleet: Fleet) -> Iterator[_Try]:
    """With one hard policy of the group that allows more, or is gone."""
    for policy in ask.group.policies:
        if policy.kind.is_soft:
            continue
        others = tuple(other for other in ask.group.policies if other is not policy)
        without = replace(ask, group=replace(ask.group, policies=others))
        if policy.kind is PolicyKind.ANTI_AFFINITY and policy.target is None:
            yield from _more_in_one(policy, ask, fleet, allowed(without, fleet))
        else:
            yield _Try(_given_up(policy), without, fleet)


def _more_in_one(policy: GroupPolicy, ask: Ask, fleet: Fleet, may: Mask) -> Iterator[_Try]:
    domains = fleet.domains(policy.scope.id)
    reached = domains.of_host[may & (domains.of_host != NOWHERE)]
    if not reached.size:
        return
    limit = int(counts_by_domain(domains, fleet, ask.group.places)[reached].min()) + 1
    if limit > policy.limit:
        looser = tuple(replace(p, limit=limit) if p is policy else p for p in ask.group.policies)
        words = f"if {limit - policy.limit} more were allowed {one_place(policy.scope.name)}"
        yield _Try(words, replace(ask, group=replace(ask.group, policies=looser)), fleet)


def _given_up(policy: GroupPolicy) -> str:
    if policy.kind is PolicyKind.ANTI_AFFINITY:
        return f"if the group did not avoid that {policy.scope.name}"
    place = one_place(policy.scope.name) if policy.target is None else f"in that {policy.scope.name}"
    return f"if the group did not have to be {place}"


def _elsewhere(ask: Ask, fleet: Fleet) -> Iterator[_Try]:
    """With another zone, or with hosts that the request did not name or ruled out."""
    standing = ask.standing
    for words, relaxed in (
        ("in any zone", replace(standing, zone=None)),
        ("on any host, not just where it was asked for", replace(standing, only_hosts=None)),
        ("if the hosts that the request excludes were allowed", replace(standing, other_hosts=frozenset())),
    ):
        if relaxed != standing:
            yield _Try(words, replace(ask, standing=relaxed), fleet)


def _other_traits(ask: Ask, fleet: Fleet) -> Iterator[_Try]:
    """Without one of the traits that flavor and image ask for."""
    standing = ask.standing
    for trait in sorted(standing.required_traits):
        relaxed = replace(standing, required_traits=standing.required_traits - {trait})
        yield _Try(f"if the trait {trait} were not required", replace(ask, standing=relaxed), fleet)
    for trait in sorted(standing.forbidden_traits):
        relaxed = replace(standing, forbidden_traits=standing.forbidden_traits - {trait})
        yield _Try(f"if the trait {trait} were not forbidden", replace(ask, standing=relaxed), fleet)


def _opened(ask: Ask, fleet: Fleet) -> Iterator[_Try]:
    """What operators can do: enable hosts, bring them up, let more requests into an aggregate."""
    yield from _mended("enabled", [h if h.enabled else replace(h, enabled=True) for h in fleet.hosts], ask, fleet)
    yield from _mended("up", [h if h.up else replace(h, up=True) for h in fleet.hosts], ask, fleet)
    shared = [replace(aggregate, projects=frozenset()) for aggregate in fleet.aggregates]
    if shared != list(fleet.aggregates):
        words = "if hosts that are kept for other projects were open to it"
        yield _Try(words, ask, _with_aggregates(fleet, shared), for_operators=True)
    for traits in dict.fromkeys(aggregate.traits for aggregate in forbidden(ask, fleet)):
        missing = sorted(traits - ask.standing.required_traits)
        entitled = replace(ask.standing, required_traits=ask.standing.required_traits | traits)
        words = f"if it required the trait {', '.join(missing)}"
        yield _Try(words, replace(ask, standing=entitled), fleet, for_operators=True)


def _mended(word: str, mended: Sequence[HostRecord], ask: Ask, fleet: Fleet) -> Iterator[_Try]:
    """With hosts in a better state, of which those are told that would then take the server."""
    other = _with_hosts(fleet, mended)
    rows = np.flatnonzero(allowed(ask, other)).tolist()
    named = [host.name for host in map(fleet.hosts.__getitem__, rows) if not (host.enabled and host.up)]
    if named:
        yield _Try(f"if {_any_of(named)} were {word}", ask, other, for_operators=True)


def _any_of(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    rest = len(names) - _TOLD
    told = ", ".join(names[:_TOLD]) if rest > 0 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"one of {told}{f' or {rest} more' if rest > 0 else ''}"


def _with_hosts(fleet: Fleet, hosts: Sequence[HostRecord]) -> Fleet:
    other = fleet.copy()
    other.hosts, other.standing_masks = hosts, {}
    return other


def _with_aggregates(fleet: Fleet, aggregates: Sequence[AggregateRecord]) -> Fleet:
    other = fleet.copy()
    other.aggregates, other.standing_masks = aggregates, {}
    return other
