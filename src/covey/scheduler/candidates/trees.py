"""The long way: candidates that combine providers of one tree, and those that share with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from covey.scheduler.candidates.found import Candidate
from covey.scheduler.candidates.masks import root_suits, suits_alone
from covey.scheduler.candidates.providers import Providers, Reach
from covey.scheduler.candidates.queries import NAMELESS, Group, Query
from covey.scheduler.fleet import Mask

Choice = tuple[int, ...]
"""A provider's row for each need, or for the first few."""

Check = Callable[[Choice], bool]


@dataclass(frozen=True, slots=True)
class Need:
    """What one provider has to give: all of a group with a suffix, or one class of the group without."""

    suffix: str
    resources: Mapping[str, int]
    may: Mask  # a row for each row of Reach


def tree_choices(query: Query, providers: Providers, needs: Sequence[Need]) -> Iterator[Choice]:
    """Every way to meet all the needs, tree by tree, each once; made as they are asked for."""
    reach = providers.reach
    checks = _checks(query, providers, needs)
    seen: set[Choice] = set()  # providers that share can make up the same candidate for several trees
    for number in np.flatnonzero(_promising(query, providers, needs)).tolist():
        begin = reach.starts[number]
        end = reach.starts[number + 1] if number + 1 < reach.starts.size else reach.anchor.size
        here = reach.provider[begin:end]
        options = [here[need.may[begin:end]].tolist() for need in needs]
        for choice in _combine(options, checks):
            if choice not in seen:
                seen.add(choice)
                yield choice


def needs_of(query: Query, providers: Providers) -> list[Need]:
    """What has to be given, the group without a suffix first."""
    reach = providers.reach
    root = root_suits(query, providers)[reach.anchor]
    needs: list[Need] = []
    for group in sorted(query.groups, key=lambda group: group.suffix != NAMELESS):
        if group.suffix != NAMELESS:
            may = suits_alone(group, providers)[reach.provider] & root
            needs.append(Need(group.suffix, group.resources, may))
            continue
        helps = _may_help(group, providers, reach) & root
        for name, amount in group.resources.items():
            may = helps & providers.can_give(name, amount)[reach.provider]
            needs.append(Need(NAMELESS, {name: amount}, may))
    return needs


def candidate(choice: Choice, needs: Sequence[Need], providers: Providers) -> Candidate:
    """A choice in the words of its reader."""
    allocations: dict[str, dict[str, int]] = {}
    mappings: dict[str, dict[str, None]] = {}
    for row, need in zip(choice, needs, strict=True):
        uuid = providers.uuids[row]
        mappings.setdefault(need.suffix, {})[uuid] = None
        for name, amount in need.resources.items():
            given = allocations.setdefault(uuid, {})
            given[name] = given.get(name, 0) + amount
    return Candidate(allocations, {suffix: tuple(uuids) for suffix, uuids in mappings.items()})


def givers(choice: Choice, needs: Sequence[Need]) -> set[int]:
    """The providers that give something."""
    return {row for row, need in zip(choice, needs, strict=False) if need.resources}


def _may_help(group: Group, providers: Providers, reach: Reach) -> Mask:
    """Who may give a part of the group without a suffix. A root's aggregates hold for its whole tree."""
    may = ~providers.traits.any_of(group.forbidden)[reach.provider]
    if group.member_of:
        inside = providers.aggregates.one_of_each(group.member_of)
        may &= inside[reach.provider] | (inside[reach.anchor] & ~reach.foreign)
    if group.not_member_of:
        outside = ~providers.aggregates.any_of(group.not_member_of)
        may &= outside[reach.provider] & outside[reach.anchor]
    if group.in_tree is not None:
        may &= providers.in_tree_of(group.in_tree)[reach.provider] & ~reach.foreign
    return may


def _promising(query: Query, providers: Providers, needs: Sequence[Need]) -> Mask:
    """The trees where each need, and each required trait, has somebody: worth a closer look."""
    reach = providers.reach
    may = np.ones(reach.starts.size, dtype=np.bool_)
    if not reach.starts.size:
        return may
    for need in needs:
        may &= np.logical_or.reduceat(need.may, reach.starts)
    for group in query.groups:
        helps = [need.may for need in needs if need.suffix == NAMELESS]
        if group.suffix == NAMELESS and helps:
            for traits in group.required:
                has = np.logical_or.reduce(helps) & providers.traits.any_of(traits)[reach.provider]
                may &= np.logical_or.reduceat(has, reach.starts)
    return may


def _combine(options: Sequence[Sequence[int]], checks: Sequence[Sequence[Check]]) -> Iterator[Choice]:
    """All combinations, one provider for each need; what fails a check is not carried further."""

    def extend(chosen: Choice) -> Iterator[Choice]:
        due = len(chosen)
        if due == len(options):
            yield chosen
            return
        for row in options[due]:
            longer = (*chosen, row)
            if all(check(longer) for check in checks[due]):
                yield from extend(longer)

    return extend(())


def _checks(query: Query, providers: Providers, needs: Sequence[Need]) -> list[list[Check]]:
    """For each need what has to hold once it, and all before it, are chosen."""
    due: list[list[Check]] = [[] for _ in needs]
    places = {need.suffix: place for place, need in enumerate(needs)}  # the last one without a suffix
    for group in query.groups:
        if group.suffix == NAMELESS and group.required:
            due[places[NAMELESS]].append(partial(_has_traits, providers, group))
    for suffixes in query.same_subtrees:
        members = sorted(places[suffix] for suffix in suffixes)
        due[members[-1]].append(partial(_in_one_subtree, providers, members))
    first = sum(need.suffix == NAMELESS for need in needs)
    for place, need in enumerate(needs):
        if query.isolate and place > first:
            due[place].append(partial(_apart, first))
        for name in query.contested & need.resources.keys():
            due[place].append(partial(_has_room, providers, needs, name))
        if not query.nested and need.resources:
            due[place].append(partial(_one_for_each_tree, providers, needs))
    return due


def _has_traits(providers: Providers, group: Group, choice: Choice) -> bool:
    """Those who give to the group without a suffix have the required traits between them."""
    together = frozenset[str]().union(*(providers.records[row].traits for row in choice))
    return not any(traits.isdisjoint(together) for traits in group.required)


def _in_one_subtree(providers: Providers, members: Sequence[int], choice: Choice) -> bool:
    rows = {choice[place] for place in members}
    return any(all(providers.is_above(upper, lower) for lower in rows) for upper in rows)


def _apart(first: int, choice: Choice) -> bool:
    """The last provider serves no other group with a suffix."""
    return choice[-1] not in choice[first:-1]


def _has_room(providers: Providers, needs: Sequence[Need], name: str, choice: Choice) -> bool:
    """The last provider can give of the class what all the needs on it want."""
    row = choice[-1]
    amount = sum(needs[place].resources.get(name, 0) for place, chosen in enumerate(choice) if chosen == row)
    return providers.stocks[name].has_room_at(row, amount)


def _one_for_each_tree(providers: Providers, needs: Sequence[Need], choice: Choice) -> bool:
    rows = givers(choice, needs)
    return len({int(providers.root[row]) for row in rows}) == len(rows)
