"""Masks of the providers that satisfy a request group alone, and the candidates of trees with one provider."""

from collections.abc import Sequence

import numpy as np

from covey.scheduler.candidates.providers import Providers
from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery, RequestGroup
from covey.scheduler.candidates.results import Candidate
from covey.scheduler.fleet import Mask, Rows


def satisfies_group(group: RequestGroup, providers: Providers) -> Mask:
    """Return the providers that satisfy a request group alone, without the rest of their tree."""
    allowed = np.ones(len(providers), dtype=np.bool_)
    for name, amount in group.resources.items():
        allowed &= providers.can_allocate(name, amount)
    if group.required:
        allowed &= providers.traits.one_of_each(group.required)
    if group.forbidden:
        allowed &= ~providers.traits.any_of(group.forbidden)
    if group.member_of:
        allowed &= providers.aggregates.one_of_each(group.member_of)
    if group.not_member_of:
        allowed &= ~providers.aggregates.any_of(group.not_member_of)
    if group.in_tree is not None:
        allowed &= providers.in_tree_of(group.in_tree)
    return allowed


def eligible_roots(query: CandidateQuery, providers: Providers) -> Mask:
    """Return the providers that may be the root of a candidate's tree."""
    allowed = providers.traits.one_of_each({trait} for trait in query.root_required)
    if query.root_forbidden:
        allowed &= ~providers.traits.any_of(query.root_forbidden)
    return allowed


def flat_rows(query: CandidateQuery, providers: Providers) -> Rows:
    """Return the standalone providers that satisfy all groups at once, in row order."""
    if query.isolate and sum(group.suffix != UNSUFFIXED for group in query.groups) > 1:
        return np.empty(0, dtype=np.intp)
    allowed = providers.standalone & eligible_roots(query, providers)
    for group in query.groups:
        allowed &= satisfies_group(group, providers)
    amounts = query.amounts
    for name in query.contested:
        allowed &= providers.has_capacity_for(name, amounts[name])
    return np.flatnonzero(allowed)


def flat_candidates(query: CandidateQuery, providers: Providers, rows: Sequence[int]) -> list[Candidate]:
    """Return a candidate for each row."""
    amounts, suffixes = dict(query.amounts), [group.suffix for group in query.groups]
    uuids = [providers.uuids[row] for row in rows]
    return [Candidate({uuid: amounts}, dict.fromkeys(suffixes, (uuid,))) for uuid in uuids]
