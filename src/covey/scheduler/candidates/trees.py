"""Candidates that combine several providers of one tree, and the providers that share with it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.candidates.flat import (
    can_allocate,
    eligible_roots,
    has_capacity_at,
    in_tree_of,
    satisfies_group,
)
from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery, RequestGroup
from covey.scheduler.candidates.results import Candidate
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.max_flow import Budget
from covey.scheduler.provider_trees import AnchoredProviders

Choice = tuple[int, ...]
"""A provider's row for each need, or for the first few."""

Check = Callable[[Choice], bool]


@dataclass(frozen=True, slots=True)
class ResourceNeed:
    """What one provider serves: all of a suffixed group, or one resource class of the unsuffixed group."""

    suffix: str
    resources: Mapping[str, int]
    providers: AnchoredProviders  # those that may have the resources
    allowed: Mask  # which of them meet the need

    def among_all(self, anchored: AnchoredProviders) -> "ResourceNeed":
        """Return the same need with all providers."""
        allowed = np.zeros(anchored.provider.size, dtype=np.bool_)
        allowed[self.providers.places] = self.allowed
        return replace(self, providers=anchored, allowed=allowed)


def tree_choices(query: CandidateQuery, fleet: Fleet, needs: Sequence[ResourceNeed]) -> Iterator[Choice]:
    """Yield each choice of providers that meets all needs, tree by tree, once."""
    checks = _checks(query, fleet, needs)
    seen: set[Choice] = set()  # sharing providers can form the same candidate for several trees
    for number in np.flatnonzero(searchable_trees(query, fleet, needs)).tolist():
        for choice in _choices_in_tree(number, needs, checks):
            if choice not in seen:
                seen.add(choice)
                yield choice


def first_choice(
    query: CandidateQuery, fleet: Fleet, root: int, budget: Budget, servers: int = 1
) -> tuple[Choice, list[ResourceNeed]] | None:
    """Return the first choice of providers in the tree of one root that serves these many servers, and their needs.

    None if there is none, or if the budget ends the search.
    """
    return next(choices_on(query, fleet, root, budget, servers), None)


def choices_on(
    query: CandidateQuery, fleet: Fleet, root: int, budget: Budget, servers: int = 1
) -> Iterator[tuple[Choice, list[ResourceNeed]]]:
    """Yield all such choices. The budget may end the search."""
    tree = fleet.trees.anchored.tree_of(root)
    needs = needs_of(query, fleet, tree)
    return _search(query, fleet, needs, [tree.provider[need.allowed].tolist() for need in needs], budget, servers)


def has_choice(query: CandidateQuery, fleet: Fleet, needs: Sequence[ResourceNeed], number: int, budget: Budget) -> bool:
    """Return whether a tree, by number, has such a choice, given the needs for all trees. The budget may end it."""
    return next(_search(query, fleet, needs, _options_in_tree(number, needs), budget), None) is not None


def _search(
    query: CandidateQuery,
    fleet: Fleet,
    needs: Sequence[ResourceNeed],
    options: Sequence[list[int]],
    budget: Budget,
    servers: int = 1,
) -> Iterator[tuple[Choice, list[ResourceNeed]]]:
    hardest = sorted(range(len(needs)), key=lambda n: 0 if needs[n].suffix == UNSUFFIXED else 1 + len(options[n]))
    needs, options = [needs[n] for n in hardest], [options[n] for n in hardest]
    checks = _checks(query, fleet, needs)
    if servers > 1:
        options, checks, needs = options * servers, _checks_of_many(fleet, needs, checks, servers), needs * servers
    for choice in _combine(options, checks, budget):
        yield choice, needs


def _choices_in_tree(number: int, needs: Sequence[ResourceNeed], checks: Sequence[Sequence[Check]]) -> Iterator[Choice]:
    return _combine(_options_in_tree(number, needs), checks)


def _options_in_tree(number: int, needs: Sequence[ResourceNeed]) -> list[list[int]]:
    """Return the providers of a tree that meet each need."""
    parts = [(need, need.providers.part(number)) for need in needs]
    return [need.providers.provider[part][need.allowed[part]].tolist() for need, part in parts]


def needs_of(query: CandidateQuery, fleet: Fleet, tree: AnchoredProviders | None = None) -> list[ResourceNeed]:
    """Return the needs of a query, those of the unsuffixed group first, for the providers of one tree or of all."""
    needs: list[ResourceNeed] = []
    for group in sorted(query.groups, key=lambda group: group.suffix != UNSUFFIXED):
        if group.suffix != UNSUFFIXED:
            providers = tree or _fewest_providers(group, fleet)
            allowed = satisfies_group(group, fleet, providers.provider)
            needs.append(ResourceNeed(group.suffix, group.resources, providers, allowed))
            continue
        for name, amount in group.resources.items():
            providers = tree or fleet.class_providers(name)
            allowed = can_allocate(fleet, name, amount, providers.provider)
            needs.append(ResourceNeed(UNSUFFIXED, {name: amount}, providers, allowed))
        _keep_helpful(group, fleet, needs)
    if query.root_required or query.root_forbidden:
        eligible = eligible_roots(query, fleet)
        for need in needs:
            need.allowed[:] &= eligible[need.providers.roots][need.providers.tree]
    return needs


def by_providers(needs: Iterable[ResourceNeed]) -> list[tuple[AnchoredProviders, list[ResourceNeed]]]:
    """Return the needs that have the same providers together."""
    groups: dict[int, tuple[AnchoredProviders, list[ResourceNeed]]] = {}
    for need in needs:
        groups.setdefault(id(need.providers), (need.providers, []))[1].append(need)
    return [*groups.values()]


def candidate(choice: Choice, needs: Sequence[ResourceNeed], fleet: Fleet) -> Candidate:
    """Build the candidate of a choice."""
    allocations: dict[str, dict[str, int]] = {}
    mappings: dict[str, dict[str, None]] = {}
    for row, need in zip(choice, needs, strict=True):
        uuid = fleet.uuids[row]
        mappings.setdefault(need.suffix, {})[uuid] = None
        for name, amount in need.resources.items():
            given = allocations.setdefault(uuid, {})
            given[name] = given.get(name, 0) + amount
    return Candidate(allocations, {suffix: tuple(uuids) for suffix, uuids in mappings.items()})


def serving_rows(choice: Choice, needs: Sequence[ResourceNeed]) -> set[int]:
    """Return the rows that serve a resource."""
    return {row for row, need in zip(choice, needs, strict=False) if need.resources}


def _fewest_providers(group: RequestGroup, fleet: Fleet) -> AnchoredProviders:
    """Return providers, all that may serve a suffixed group among them."""
    found = [fleet.class_providers(name) for name in group.resources]
    return min(found, key=lambda each: each.provider.size, default=fleet.trees.anchored)


def _keep_helpful(group: RequestGroup, fleet: Fleet, needs: Sequence[ResourceNeed]) -> None:
    """Allow no rows that may not serve part of the unsuffixed group. A root's aggregates hold for its whole tree."""
    if not (group.forbidden or group.member_of or group.not_member_of or group.in_tree):
        return
    for rows, same in by_providers(needs):
        allowed, anchor = np.ones(rows.provider.size, dtype=np.bool_), rows.roots[rows.tree]
        if group.forbidden:
            allowed &= ~fleet.traits.any_of(group.forbidden, rows.provider)
        if group.member_of:
            inside = fleet.member_of.one_of_each(group.member_of)
            allowed &= inside[rows.provider] | (inside[anchor] & ~rows.foreign)
        if group.not_member_of:
            outside = ~fleet.member_of.any_of(group.not_member_of)
            allowed &= outside[rows.provider] & outside[anchor]
        if group.in_tree is not None:
            allowed &= in_tree_of(fleet, group.in_tree)[rows.provider] & ~rows.foreign
        for need in same:
            need.allowed[:] &= allowed


def searchable_trees(query: CandidateQuery, fleet: Fleet, needs: Sequence[ResourceNeed]) -> Mask:
    """Return the trees in which each need and each required trait has a provider: the only ones to search."""
    allowed = trees_with_traits(query, fleet, needs)
    for need in needs:
        allowed &= need.providers.any(need.allowed)
    return allowed


def trees_with_traits(query: CandidateQuery, fleet: Fleet, needs: Sequence[ResourceNeed]) -> Mask:
    """Return the trees in which each required trait of the unsuffixed group has a provider that may serve.

    One provider meets a need. So if only the providers of one need have certain traits, one of them has all of these.
    """
    anchored = fleet.trees.anchored
    allowed = np.ones(anchored.roots.size, dtype=np.bool_)
    common = [need for need in needs if need.suffix == UNSUFFIXED]
    required = [traits for group in query.groups if group.suffix == UNSUFFIXED for traits in group.required]
    if not common or not required:
        return allowed
    sources = by_providers(common)
    having = [[able & rows.traits.any_of(each) for each in required] for rows, able in map(_able, sources)]
    found = np.array([list(map(rows.any, of)) for (rows, _), of in zip(sources, having, strict=True)])
    allowed &= found.any(axis=0).all(axis=0)
    if len(required) > 1:
        alone = found & (found.sum(axis=0) == 1)  # the traits that only one source has
        for source, of, only in zip(sources, having, alone, strict=True):
            if len(source[1]) == 1 and (only.sum(axis=0) > 1).any():
                allowed &= _trees_with_all(source, of, only)
    return allowed


def _able(source: tuple[AnchoredProviders, list[ResourceNeed]]) -> tuple[AnchoredProviders, Mask]:
    """Return providers, and which of them meet one of their needs."""
    return source[0], np.logical_or.reduce([need.allowed for need in source[1]])


def _trees_with_all(
    source: tuple[AnchoredProviders, list[ResourceNeed]], having: Sequence[Mask], needed: NDArray[np.bool_]
) -> Mask:
    """Return the trees in which one provider meets the need and has all traits that its tree needs of it."""
    rows, able = _able(source)
    for has, of_tree in zip(having, needed, strict=True):
        able = able & (has | ~of_tree[rows.tree])
    return rows.any(able)


def _combine(
    options: Sequence[Sequence[int]], checks: Sequence[Sequence[Check]], budget: Budget | None = None
) -> Iterator[Choice]:
    """Yield all combinations, one provider for each need. A prefix that fails a check is not extended."""

    def extend(chosen: Choice) -> Iterator[Choice]:
        due = len(chosen)
        if due == len(options):
            yield chosen
            return
        for row in options[due]:
            if budget is not None:
                budget.left -= 1
                if budget.spent:
                    return
            longer = (*chosen, row)
            if all(check(longer) for check in checks[due]):
                yield from extend(longer)

    return extend(())


def _checks(query: CandidateQuery, fleet: Fleet, needs: Sequence[ResourceNeed]) -> list[list[Check]]:
    """Return, for each need, the checks that apply once it and all needs before it are chosen."""
    due: list[list[Check]] = [[] for _ in needs]
    places = {need.suffix: place for place, need in enumerate(needs)}  # the last need of the unsuffixed group
    for group in query.groups:
        if group.suffix == UNSUFFIXED and group.required:
            due[places[UNSUFFIXED]].append(partial(_has_traits, fleet, group))
    for suffixes in query.same_subtrees:
        members = sorted(places[suffix] for suffix in suffixes)
        due[members[-1]].append(partial(_in_one_subtree, fleet, members))
    first = sum(need.suffix == UNSUFFIXED for need in needs)
    for place, need in enumerate(needs):
        if query.isolate and place > first:
            due[place].append(partial(_apart, first))
        for name in query.contested & need.resources.keys():
            due[place].append(partial(_has_room, fleet, needs, name))
        if not query.nested and need.resources:
            due[place].append(partial(_one_for_each_tree, fleet, needs))
    return due


def _checks_of_many(
    fleet: Fleet, needs: Sequence[ResourceNeed], checks: Sequence[Sequence[Check]], servers: int
) -> list[list[Check]]:
    """Return the checks of several equal servers, which have their needs one after another."""
    length, all_needs = len(needs), [*needs] * servers
    due: list[list[Check]] = []
    for server in range(servers):
        for need, own in zip(needs, checks, strict=True):
            room: list[Check] = [partial(_is_free, fleet, all_needs, name) for name in need.resources]
            due.append([*room, *(partial(_of_server, server * length, check) for check in own)])
        due[-1].append(partial(_in_order, length))
    return due


def _is_free(fleet: Fleet, needs: Sequence[ResourceNeed], name: str, choice: Choice) -> bool:
    """Whether the last provider has room for all servers; the limit of one allocation is not theirs together."""
    return _amount_on_last(needs, name, choice) <= int(fleet.inventories.free_of(name)[choice[-1]])


def _of_server(start: int, check: Check, choice: Choice) -> bool:
    """Whether a server passes its own check."""
    return check(choice[start:])


def _in_order(length: int, choice: Choice) -> bool:
    """Whether the last server comes after the one before it: equal servers are tried in one order alone."""
    return choice[-2 * length : -length] <= choice[-length:]


def _has_traits(fleet: Fleet, group: RequestGroup, choice: Choice) -> bool:
    """Whether the providers of the unsuffixed group have the required traits between them."""
    traits_of_all = frozenset[str]().union(*(fleet.traits[row] for row in choice))
    return not any(traits.isdisjoint(traits_of_all) for traits in group.required)


def _in_one_subtree(fleet: Fleet, members: Sequence[int], choice: Choice) -> bool:
    rows = {choice[place] for place in members}
    return any(all(fleet.trees.is_above(upper, lower) for lower in rows) for upper in rows)


def _apart(first: int, choice: Choice) -> bool:
    """Whether the last provider serves no other suffixed group."""
    return choice[-1] not in choice[first:-1]


def _has_room(fleet: Fleet, needs: Sequence[ResourceNeed], name: str, choice: Choice) -> bool:
    """Whether the last provider has capacity for all needs on it."""
    return has_capacity_at(fleet, choice[-1], name, _amount_on_last(needs, name, choice))


def _amount_on_last(needs: Sequence[ResourceNeed], name: str, choice: Choice) -> int:
    """Return how much of a class the last provider serves, for all needs on it."""
    return sum(needs[place].resources.get(name, 0) for place, row in enumerate(choice) if row == choice[-1])


def _one_for_each_tree(fleet: Fleet, needs: Sequence[ResourceNeed], choice: Choice) -> bool:
    rows = serving_rows(choice, needs)
    return len({int(fleet.root[row]) for row in rows}) == len(rows)
