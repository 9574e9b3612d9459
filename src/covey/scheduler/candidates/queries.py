"""Queries for allocation candidates: request groups, and the conditions that span them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

UNSUFFIXED = ""  # the request group whose resources may come from several providers

AnyOf = tuple[frozenset[str], ...]
"""At least one of each set."""


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """A request group of the Placement API. One provider serves all of a suffixed group."""

    suffix: str = UNSUFFIXED
    resources: Mapping[str, int] = field(default_factory=dict)
    required: AnyOf = ()
    forbidden: frozenset[str] = frozenset()
    member_of: AnyOf = ()
    not_member_of: frozenset[str] = frozenset()
    in_tree: str | None = None

    @property
    def traits(self) -> frozenset[str]:
        """Every trait that the group names, required or forbidden."""
        return self.forbidden.union(*self.required)


@dataclass(frozen=True)
class CandidateQuery:
    """A whole query. Unless it is `nested`, a candidate uses at most one provider of a tree."""

    groups: tuple[RequestGroup, ...]
    isolate: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtrees: tuple[frozenset[str], ...] = ()
    nested: bool = True

    @cached_property
    def amounts(self) -> Mapping[str, int]:
        """The amount of each resource class over all groups."""
        total: Counter[str] = Counter()
        for group in self.groups:
            total.update(group.resources)
        return total

    @cached_property
    def contested(self) -> frozenset[str]:
        """The classes that several groups request, so that one provider may serve several of them."""
        times = Counter(name for group in self.groups for name in group.resources)
        return frozenset(name for name, count in times.items() if count > 1)

    @property
    def traits(self) -> frozenset[str]:
        """Every trait that the query names."""
        return (self.root_required | self.root_forbidden).union(*(group.traits for group in self.groups))
