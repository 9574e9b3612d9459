"""Descriptions of policies."""

import pytest

from covey.model.groups import GroupPolicy, PolicyKind, ScopeRef
from covey.model.ids import ScopeId
from covey.scheduler.policies import describe


def a_policy(text: str, limit: int = 1) -> GroupPolicy:
    kind, scope, target = (*text.split(":"), "host", None)[:3] if ":" not in text else (*text.split(":"), None)[:3]
    where = ScopeRef() if scope == "host" else ScopeRef(ScopeId(f"id-of-{scope}"), str(scope))
    return GroupPolicy(PolicyKind(str(kind)), where, target, limit)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("anti-affinity", "at most 1 on one host"),
        ("anti-affinity:rack", "at most 1 in one rack"),
        ("affinity", "all on one host"),
        ("affinity:switch", "all behind one switch"),
        ("soft-affinity:switch", "behind one switch if possible"),
        ("soft-anti-affinity:zone", "as few as possible in one zone"),
        ("affinity:zone:7", "only in zone 7"),
        ("anti-affinity:switch:7", "not behind switch 7"),
        ("soft-affinity:zone:7", "in zone 7 if possible"),
        ("soft-anti-affinity:zone:7", "not in zone 7 if possible"),
    ],
)
def test_each_kind_has_its_description(policy: str, words: str) -> None:
    assert describe([a_policy(policy)]) == words


def test_several_policies_are_described_in_order_with_limits() -> None:
    policies = [a_policy("anti-affinity:rack", 2), a_policy("soft-affinity:switch")]
    assert describe(policies) == "at most 2 in one rack; behind one switch if possible"
    assert describe([]) == ""
