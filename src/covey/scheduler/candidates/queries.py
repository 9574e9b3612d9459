"""What is asked of the providers: groups of resources and what holds for all of them together."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

NAMELESS = ""  # the suffix of the group whose resources may come from several providers

AnyOf = tuple[frozenset[str], ...]
"""One of the first set, and one of the second, and so on."""


@dataclass(frozen=True, slots=True)
class Group:
    """Resources that belong together. With a suffix, one provider gives them all."""

    suffix: str = NAMELESS
    resources: Mapping[str, int] = field(default_factory=dict)
    required: AnyOf = ()
    forbidden: frozenset[str] = frozenset()
    member_of: AnyOf = ()
    not_member_of: frozenset[str] = frozenset()
    in_tree: str | None = None

    @property
    def traits(self) -> frozenset[str]:
        """Every trait that it names, wanted or not."""
        return self.forbidden.union(*self.required)


@dataclass(frozen=True, slots=True)
class Query:
    """A whole question. Not `nested`, a candidate takes from one provider of a tree at the most."""

    groups: tuple[Group, ...]
    isolate: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtrees: tuple[frozenset[str], ...] = ()
    nested: bool = True

    @property
    def amounts(self) -> Mapping[str, int]:
        """How much of each class is wanted in all."""
        total: Counter[str] = Counter()
        for group in self.groups:
            total.update(group.resources)
        return total

    @property
    def contested(self) -> frozenset[str]:
        """The classes that more than one group wants, so that one provider may have to give twice."""
        times = Counter(name for group in self.groups for name in group.resources)
        return frozenset(name for name, count in times.items() if count > 1)

    @property
    def traits(self) -> frozenset[str]:
        """Every trait that it names."""
        return (self.root_required | self.root_forbidden).union(*(group.traits for group in self.groups))
