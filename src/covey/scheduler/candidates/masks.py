"""Which providers may: a boolean column for each thing that a group or a whole question asks."""

import numpy as np

from covey.scheduler.candidates.providers import Providers
from covey.scheduler.candidates.queries import Group, Query
from covey.scheduler.fleet import Mask


def suits_alone(group: Group, providers: Providers) -> Mask:
    """Who meets all of a group by itself, without help of its tree."""
    may = everybody(providers)
    for name, amount in group.resources.items():
        may &= providers.can_give(name, amount)
    if group.required:
        may &= providers.traits.one_of_each(group.required)
    if group.forbidden:
        may &= ~providers.traits.any_of(group.forbidden)
    if group.member_of:
        may &= providers.aggregates.one_of_each(group.member_of)
    if group.not_member_of:
        may &= ~providers.aggregates.any_of(group.not_member_of)
    if group.in_tree is not None:
        may &= providers.in_tree_of(group.in_tree)
    return may


def root_suits(query: Query, providers: Providers) -> Mask:
    """Who may be the root of a candidate's tree."""
    may = providers.traits.one_of_each({trait} for trait in query.root_required)
    if query.root_forbidden:
        may &= ~providers.traits.any_of(query.root_forbidden)
    return may


def everybody(providers: Providers) -> Mask:
    """A column that is true throughout."""
    return np.ones(len(providers), dtype=np.bool_)
