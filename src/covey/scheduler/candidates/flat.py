"""The quick way: trees of one provider that share with nobody, all of them by columns."""

from collections.abc import Sequence

import numpy as np

from covey.scheduler.candidates.found import Candidate
from covey.scheduler.candidates.masks import root_suits, suits_alone
from covey.scheduler.candidates.providers import Providers
from covey.scheduler.candidates.queries import NAMELESS, Query
from covey.scheduler.fleet import Rows


def flat_rows(query: Query, providers: Providers) -> Rows:
    """The providers that meet all groups at once, in the order of their rows."""
    if query.isolate and sum(group.suffix != NAMELESS for group in query.groups) > 1:
        return np.empty(0, dtype=np.intp)
    may = providers.alone & root_suits(query, providers)
    for group in query.groups:
        may &= suits_alone(group, providers)
    amounts = query.amounts
    for name in query.contested:
        may &= providers.can_give_together(name, amounts[name])
    return np.flatnonzero(may)


def flat_candidates(query: Query, providers: Providers, rows: Sequence[int]) -> list[Candidate]:
    """One candidate for each of them."""
    amounts, suffixes = dict(query.amounts), [group.suffix for group in query.groups]
    uuids = [providers.uuids[row] for row in rows]
    return [Candidate({uuid: amounts}, dict.fromkeys(suffixes, (uuid,))) for uuid in uuids]
