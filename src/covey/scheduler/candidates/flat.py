"""Masks of the providers that satisfy a request group alone, and the candidates of trees with one provider."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from covey.model.providers import MAX_INT
from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery, RequestGroup
from covey.scheduler.candidates.results import Candidate
from covey.scheduler.fleet import Fleet, Mask, Rows


def can_allocate(fleet: Fleet, name: str, amount: int) -> Mask:
    """Return the providers that can serve one allocation of this amount of a class."""
    mask, units = has_capacity_for(fleet, name, amount), _units(fleet, name)
    if units is not None:
        mask &= (units[0] <= amount) & (amount % units[2] == 0)
    return mask


def has_capacity_for(fleet: Fleet, name: str, amount: int) -> Mask:
    """Return the providers with capacity for the sum of several groups, each of which `can_allocate` checks."""
    if amount > MAX_INT:
        return np.zeros(len(fleet), dtype=np.bool_)
    mask, units = fleet.inventories.free_of(name) >= amount, _units(fleet, name)
    return mask if units is None else mask & (units[1] >= amount)


def has_capacity_at(fleet: Fleet, row: int, name: str, amount: int) -> bool:
    """Return `has_capacity_for` for one provider."""
    most = fleet.inventories.units_at(name, row).max_unit
    return amount <= most and amount <= int(fleet.inventories.free_of(name)[row])


def in_tree_of(fleet: Fleet, uuid: str) -> Mask:
    """Return the tree of the provider with this uuid; all False for an unknown one."""
    row = fleet.row_of_uuid.get(uuid)
    mask: Mask = np.zeros(len(fleet), dtype=np.bool_) if row is None else fleet.root == fleet.root[row]
    return mask


def _units(fleet: Fleet, name: str) -> NDArray[np.int64] | None:
    """Return min_unit, max_unit and step_size of each provider; None where all have the default."""
    return fleet.inventories.units.get(fleet.inventories.classes.get(name, -1))


def satisfies_group(group: RequestGroup, fleet: Fleet) -> Mask:
    """Return the providers that satisfy a request group alone, without the rest of their tree."""
    allowed = np.ones(len(fleet), dtype=np.bool_)
    for name, amount in group.resources.items():
        allowed &= can_allocate(fleet, name, amount)
    if group.required:
        allowed &= fleet.traits.one_of_each(group.required)
    if group.forbidden:
        allowed &= ~fleet.traits.any_of(group.forbidden)
    if group.member_of:
        allowed &= fleet.member_of.one_of_each(group.member_of)
    if group.not_member_of:
        allowed &= ~fleet.member_of.any_of(group.not_member_of)
    if group.in_tree is not None:
        allowed &= in_tree_of(fleet, group.in_tree)
    return allowed


def eligible_roots(query: CandidateQuery, fleet: Fleet) -> Mask:
    """Return the providers that may be the root of a candidate's tree."""
    allowed = fleet.traits.one_of_each({trait} for trait in query.root_required)
    if query.root_forbidden:
        allowed &= ~fleet.traits.any_of(query.root_forbidden)
    return allowed


def flat_rows(query: CandidateQuery, fleet: Fleet) -> Rows:
    """Return the standalone providers that satisfy all groups at once, in row order."""
    return np.flatnonzero(fleet.trees.standalone & serves_alone(query, fleet))


def serves_alone(query: CandidateQuery, fleet: Fleet) -> Mask:
    """Return the providers that satisfy all groups at once, without others of their tree."""
    if query.isolate and sum(group.suffix != UNSUFFIXED for group in query.groups) > 1:
        return np.zeros(len(fleet), dtype=np.bool_)
    allowed = eligible_roots(query, fleet)
    for group in query.groups:
        allowed &= satisfies_group(group, fleet)
    amounts = query.amounts
    for name in query.contested:
        allowed &= has_capacity_for(fleet, name, amounts[name])
    return allowed


def flat_candidates(query: CandidateQuery, fleet: Fleet, rows: Sequence[int]) -> list[Candidate]:
    """Return a candidate for each row."""
    amounts, suffixes = dict(query.amounts), [group.suffix for group in query.groups]
    uuids = [fleet.uuids[row] for row in rows]
    return [Candidate({uuid: amounts}, dict.fromkeys(suffixes, (uuid,))) for uuid in uuids]
