"""Many equal servers in one decision: each sees the ones before it, and none costs a full pass.

The outcome is that of deciding one after another, except that a batch which has to be together begins where most of
it fits. What makes it quick is that a placement changes little: one host's room and weight, and one domain's count
for each policy.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, PolicyKind
from covey.scheduler import preferences
from covey.scheduler.ask import Ask
from covey.scheduler.batch_state import Draw, Limit, Luck, State, Taste
from covey.scheduler.constraints.room import times_it_fits
from covey.scheduler.fleet import NOWHERE, Fleet, Mask, Rows, counts_by_domain
from covey.scheduler.lines import ManyLines, OneLine
from covey.scheduler.preferences.soft_policies import SoftPolicy


class _Picker(Protocol):
    """Finds the best candidate, step by step; each answer is placed before the next question."""

    def next(self, step: int) -> int | None: ...


def choose(ask: Ask, fleet: Fleet, rows: Rows, lucky: Luck, draw: Draw) -> list[int]:
    """The rows for as many servers as fit, up to the ask's count."""
    state = _begin(ask, fleet, rows, lucky)
    best = _picker(state, draw)
    chosen: list[int] = []
    while len(chosen) < ask.count:
        candidate = best.next(len(chosen))
        if candidate is None:
            break
        chosen.append(int(rows[candidate]))
        state.place(candidate)
    return chosen


def _picker(state: State, draw: Draw) -> _Picker:
    """The quickest way that is exact.

    A taste of the host scope changes with the host itself, so a line of hosts can be kept in order. One of a
    wider scope changes for all hosts of a domain at once, so each domain has a line of its own, as long as
    the wider tastes come first. Whatever is left is looked at stage by stage, every time.
    """
    wide = [taste.is_wide for taste in state.tastes]
    if draw.subset > 1 and state.tastes:
        return _Stages(state, draw)  # a lot is drawn among those that the soft policies leave
    if not any(wide):
        return OneLine(state, draw)
    return ManyLines(state) if wide == sorted(wide, reverse=True) else _Stages(state, draw)


def _begin(ask: Ask, fleet: Fleet, rows: Rows, lucky: Luck) -> State:
    fits = times_it_fits(ask, fleet)[rows]
    state = State(ask, fleet, rows, fleet.weight[rows], lucky, fits, np.zeros(rows.size, dtype=np.int64))
    if ask.forced:
        return state
    for policy in ask.group.policies:
        if policy.target is not None and not policy.kind.is_soft:
            continue  # the constraint ruled out what it rules out, for good
        domains = fleet.domains(policy.scope.id)
        counts = counts_by_domain(domains, fleet, ask.group.places)
        if policy.kind is PolicyKind.ANTI_AFFINITY:
            state.limits.append(Limit(domains.of_host[rows], policy.limit - counts, is_wide=policy.scope != HOST))
        elif policy.kind is PolicyKind.AFFINITY and not counts[:NOWHERE].any():
            state.together.append(domains.of_host[rows])
    state.tastes += [_taste(soft, ask, fleet, rows) for soft in preferences.of(ask)]
    if state.together and ask.count > 1:
        state.fits[~_takes_most(state)] = 0
    return state


def _takes_most(state: State) -> Mask:
    """Candidates in the domains that take the most of the batch, if all of it has to be in one.

    Exact unless the group stays apart by several scopes wider than a host, which may get in each other's way.
    """
    _, home = np.unique(np.stack(state.together), axis=1, return_inverse=True)
    home = home.reshape(-1)
    fits = np.minimum(state.fits, state.ask.count)
    for limit in state.limits:
        if not limit.is_wide:
            fits = np.minimum(fits, limit.left[limit.domain])
    most = np.minimum(_sums(home, fits), state.ask.count)
    for limit in state.limits:
        if limit.is_wide:
            parts, part = np.unique(np.stack([home, limit.domain]), axis=1, return_inverse=True)
            room = np.minimum(_sums(part.reshape(-1), fits), limit.left[parts[1]])
            most = np.minimum(most, _sums(parts[0], room))
    chosen: Mask = (most == most.max())[home]
    return chosen


def _sums(keys: NDArray[np.intp], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The amounts of each key, which are numbers from zero, together."""
    found = np.zeros(int(keys.max()) + 1, dtype=np.int64)
    np.add.at(found, keys, amounts)
    return found


def _taste(soft: SoftPolicy, ask: Ask, fleet: Fleet, rows: Rows) -> Taste:
    if soft.policy.target is not None:
        return Taste(np.arange(rows.size, dtype=np.intp), soft.scores(ask, fleet)[rows], 0.0)
    domains = fleet.domains(soft.policy.scope.id)
    scores = soft.of_counts(counts_by_domain(domains, fleet, ask.group.places))
    together = soft.policy.kind is PolicyKind.SOFT_AFFINITY
    return Taste(domains.of_host[rows], scores, 1.0 if together else -1.0, is_wide=soft.policy.scope != HOST)


class _Stages:
    """The best candidate when soft policies rank them: stage by stage, over those that are left."""

    def __init__(self, state: State, draw: Draw) -> None:
        self._state, self._draw = state, draw
        self._alive = state.fits > 0
        self._last: int | None = None

    def next(self, step: int) -> int | None:
        state = self._state
        if self._last is not None:
            self._retire(self._last)
        left = np.flatnonzero(self._alive)
        if not left.size:
            return None
        for taste in state.tastes:
            scores = taste.score[taste.domain[left]]
            left = left[scores == scores.max()]
        self._last = _draw(state, left, self._draw, step)
        return self._last

    def _retire(self, placed: int) -> None:
        """Who may no longer, because of the last placement."""
        state = self._state
        state.reweigh(placed)
        self._alive[placed] = state.fits[placed] > 0
        for limit in state.limits:
            if limit.left[limit.domain[placed]] <= 0:
                self._alive &= limit.domain != limit.domain[placed]
        if placed == state.home:
            for domain in state.together:
                self._alive &= domain == domain[placed]


def _draw(state: State, left: Rows, draw: Draw, step: int) -> int:
    """By weight, then by luck; or any of the first few."""
    if draw.subset == 1:
        weight = state.weight[left]
        left = left[weight == weight.max()]
        return int(left[state.luck[left].argmax()])
    order = np.lexsort((state.luck[left], state.weight[left]))[::-1][: draw.subset]
    return int(left[order[draw.index(step, order.size)]])
