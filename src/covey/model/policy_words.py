"""A group's policies in words, for people: at most 2 in one rack; behind one switch if possible."""

from collections.abc import Iterable

from covey.model.groups import GroupPolicy, PolicyKind

_WHERE = {"host": "on", "switch": "behind"}  # all other places one is in


def one_place(scope: str) -> str:
    """Where those are who share a place of a scope: on one host, in one rack."""
    return f"{_WHERE.get(scope, 'in')} one {scope}"


def in_words(policies: Iterable[GroupPolicy]) -> str:
    """All of them, in their order, which is that of their weight."""
    return "; ".join(map(_words, policies))


def _words(policy: GroupPolicy) -> str:
    if policy.target is not None:
        return _about_one(policy, f"{_WHERE.get(policy.scope.name, 'in')} {policy.scope.name} {policy.target}")
    place = one_place(policy.scope.name)
    match policy.kind:
        case PolicyKind.ANTI_AFFINITY:
            return f"at most {policy.limit} {place}"
        case PolicyKind.AFFINITY:
            return f"all {place}"
        case PolicyKind.SOFT_ANTI_AFFINITY:
            return f"as few as possible {place}"
        case PolicyKind.SOFT_AFFINITY:
            return f"{place} if possible"


def _about_one(policy: GroupPolicy, there: str) -> str:
    match policy.kind:
        case PolicyKind.ANTI_AFFINITY:
            return f"not {there}"
        case PolicyKind.AFFINITY:
            return f"only {there}"
        case PolicyKind.SOFT_ANTI_AFFINITY:
            return f"not {there} if possible"
        case PolicyKind.SOFT_AFFINITY:
            return f"{there} if possible"
