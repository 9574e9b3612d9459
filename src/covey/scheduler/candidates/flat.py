"""Masks of the providers that satisfy a request group alone, and the candidates of trees with one provider."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from covey.model.providers import MAX_INT
from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery, RequestGroup
from covey.scheduler.candidates.results import Candidate
from covey.scheduler.columns import ALL
from covey.scheduler.fleet import Fleet, Mask, Rows


def can_allocate(fleet: Fleet, name: str, amount: int, rows: Rows | slice = ALL) -> Mask:
    """Return which of the providers can serve one allocation of this amount of a class."""
    mask, units = has_capacity_for(fleet, name, amount, rows), _units(fleet, name)
    if units is not None:
        least, _, step = units[:, rows]
        mask &= (least <= amount) & (amount % step == 0)
    return mask


def has_capacity_for(fleet: Fleet, name: str, amount: int, rows: Rows | slice = ALL) -> Mask:
    """Return which of the providers have capacity for the sum of groups, each of which `can_allocate` checks."""
    free = fleet.inventories.free_of(name)[rows]
    if amount > MAX_INT:
        return np.zeros(free.size, dtype=np.bool_)
    mask, units = free >= amount, _units(fleet, name)
    return mask if units is None else mask & (units[1, rows] >= amount)


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


def satisfies_group(group: RequestGroup, fleet: Fleet, rows: Rows | slice = ALL) -> Mask:
    """Return which of the providers satisfy a request group alone, without the rest of their tree."""
    allowed = fleet.traits.one_of_each(group.required, rows)
    for name, amount in group.resources.items():
        allowed &= can_allocate(fleet, name, amount, rows)
    if group.forbidden:
        allowed &= ~fleet.traits.any_of(group.forbidden, rows)
    if group.member_of:
        allowed &= fleet.member_of.one_of_each(group.member_of, rows)
    if group.not_member_of:
        allowed &= ~fleet.member_of.any_of(group.not_member_of, rows)
    if group.in_tree is not None:
        allowed &= in_tree_of(fleet, group.in_tree)[rows]
    return allowed


def eligible_roots(query: CandidateQuery, fleet: Fleet, rows: Rows | slice = ALL) -> Mask:
    """Return which of the providers may be the root of a candidate's tree."""
    allowed = fleet.traits.one_of_each(({trait} for trait in query.root_required), rows)
    if query.root_forbidden:
        allowed &= ~fleet.traits.any_of(query.root_forbidden, rows)
    return allowed


def flat_rows(query: CandidateQuery, fleet: Fleet) -> Rows:
    """Return the standalone providers that satisfy all groups at once, in row order."""
    return np.flatnonzero(fleet.trees.standalone & serves_alone(query, fleet))


def serves_alone(query: CandidateQuery, fleet: Fleet, rows: Rows | slice = ALL) -> Mask:
    """Return which of the providers satisfy all groups at once, without others of their tree."""
    allowed = eligible_roots(query, fleet, rows)
    if query.isolate and sum(group.suffix != UNSUFFIXED for group in query.groups) > 1:
        return np.zeros_like(allowed)
    for group in query.groups:
        if not allowed.any():  # often none has the classes of the groups before
            return allowed
        allowed &= satisfies_group(group, fleet, rows)
    amounts = query.amounts
    for name in query.contested:
        allowed &= has_capacity_for(fleet, name, amounts[name], rows)
    return allowed


def flat_candidates(query: CandidateQuery, fleet: Fleet, rows: Sequence[int]) -> list[Candidate]:
    """Return a candidate for each row."""
    amounts, suffixes = dict(query.amounts), [group.suffix for group in query.groups]
    uuids = [fleet.uuids[row] for row in rows]
    return [Candidate({uuid: amounts}, dict.fromkeys(suffixes, (uuid,))) for uuid in uuids]
