"""Host classes of a batch: hosts in the same domains are interchangeable, so their sums show how many servers fit.

A *home* is a choice of affinity domains: all servers of a batch are in one home. Without affinity there is one home.
A *chain* is a set of anti-affinity limits whose scopes nest, such as rack and row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.batch_state import BatchState, PolicyDomains
from covey.scheduler.columns import number_combinations

Numbers = NDArray[np.intp]
Amounts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of one anti-affinity policy. A domain that several homes share counts as one part in each."""

    part: Numbers  # of each class
    left: Amounts  # of each part: how many more servers fit
    first: Numbers  # of each part: one of its classes

    def nests_in(self, other: "Limit") -> bool:
        """Return whether each part is inside one part of the other."""
        return bool((other.part[self.first][self.part] == other.part).all())

    def only(self, classes: Numbers) -> "Limit":
        """Return the limits of these classes."""
        part = number_combinations([self.part[classes]], len(classes))
        first = _first(part)
        return Limit(part, self.left[self.part[classes[first]]], first)


@dataclass(frozen=True, slots=True)
class HostClasses:
    """Candidates in the same home and in the same domain of each limit form a class."""

    of: Numbers  # the class of each candidate
    home: Numbers  # of each class
    room: Amounts  # servers that the hosts of each class take together, by what is theirs alone
    chains: list[list[Limit]]  # each from the narrowest scope to the widest; the chain that admits fewest comes first

    def bounds(self, count: int) -> Amounts:
        """Return for each home how many of `count` servers fit at most.

        With one chain as many do fit, in any order: limits on nested sets form a laminar matroid,
        in which every placement that cannot grow is a largest one. Crossing chains may admit fewer.
        """
        by_chain = [_admitted(self.room, self.home, chain) for chain in self.chains or [[]]]
        bounds: Amounts = np.min(by_chain, axis=0, initial=count)
        return bounds

    def only(self, classes: Numbers) -> "HostClasses":
        """Return these classes; `of` keeps its numbers."""
        chains = [[limit.only(classes) for limit in chain] for chain in self.chains]
        return HostClasses(self.of, self.home[classes], self.room[classes], chains)


def classify(state: BatchState, count: int) -> HostClasses:
    """Return the classes of the candidates, for a batch of `count` servers."""
    home_of = number_combinations(state.affinity_domains, state.rows.size)
    of = number_combinations([home_of, *(limit.of for limit in state.limits)], state.rows.size)
    first = _first(of)
    home, room = home_of[first], sum_by_key(of, np.minimum(state.fits, count))
    limits = [_limit(policy, policy.of[first], home) for policy in state.limits]
    return HostClasses(of, home, room, _chains(limits, room, home))


def sum_by_key(keys: Numbers, amounts: Amounts) -> Amounts:
    """Return the sum of the amounts of each key; keys are numbers from zero."""
    sums = np.zeros(int(keys.max()) + 1, dtype=np.int64)
    np.add.at(sums, keys, amounts)
    return sums


def _first(numbers: Numbers) -> Numbers:
    """Return the first position of each number; every number from zero occurs."""
    first = np.empty(int(numbers.max()) + 1, dtype=np.intp)
    first[numbers[::-1]] = np.arange(numbers.size)[::-1]  # the last assignment wins
    return first


def _limit(policy: PolicyDomains, domain: Numbers, home: Numbers) -> Limit:
    part = number_combinations([home, domain], home.size)
    first = _first(part)
    left = np.array([policy.domains[number].left for number in domain[first].tolist()], dtype=np.int64)
    return Limit(part, left, first)


def _chains(limits: list[Limit], room: Amounts, home: Numbers) -> list[list[Limit]]:
    chains: list[list[Limit]] = []
    for limit in sorted(limits, key=lambda limit: int(_admitted(room, home, [limit]).sum())):
        for chain in chains:
            if all(limit.nests_in(other) or other.nests_in(limit) for other in chain):
                chain.append(limit)
                chain.sort(key=lambda limit: -len(limit.left))
                break
        else:
            chains.append([limit])
    return chains


def _admitted(room: Amounts, home: Numbers, chain: list[Limit]) -> Amounts:
    """Return for each home how many servers fit within the limits of one chain."""
    amounts = room
    for limit in chain:
        amounts = np.minimum(sum_by_key(limit.part, amounts), limit.left)
        rest = np.zeros_like(room)
        rest[limit.first] = amounts  # one class of each part stands for the part
        amounts = rest
    return sum_by_key(home, amounts)
