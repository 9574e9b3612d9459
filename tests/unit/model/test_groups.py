"""Policies: their strings, their rules, and their valid combinations."""

import pytest

from covey.model.errors import Invalid
from covey.model.groups import (
    HOST,
    Group,
    GroupPolicy,
    GroupState,
    GroupView,
    PolicyKind,
    ScopeRef,
    check_policies,
    rule_name,
    with_rules,
)
from covey.model.ids import GroupId, ProjectId, ScopeId, UserId
from tests.build import NOW

RACK, SWITCH = ScopeRef(ScopeId("id-of-rack"), "rack"), ScopeRef(ScopeId("id-of-switch"), "switch")
ANTI_AFFINITY, AFFINITY = PolicyKind.ANTI_AFFINITY, PolicyKind.AFFINITY
SOFT_ANTI_AFFINITY, SOFT_AFFINITY = PolicyKind.SOFT_ANTI_AFFINITY, PolicyKind.SOFT_AFFINITY

CANONICAL = {
    "anti-affinity": GroupPolicy(ANTI_AFFINITY),
    "affinity": GroupPolicy(AFFINITY),
    "soft-anti-affinity": GroupPolicy(SOFT_ANTI_AFFINITY),
    "soft-affinity": GroupPolicy(SOFT_AFFINITY),
    "anti-affinity:rack": GroupPolicy(ANTI_AFFINITY, RACK),
    "soft-affinity:switch": GroupPolicy(SOFT_AFFINITY, SWITCH),
    "affinity:rack:17": GroupPolicy(AFFINITY, RACK, "17"),
    "anti-affinity:host:n1": GroupPolicy(ANTI_AFFINITY, HOST, "n1"),
}


@pytest.mark.parametrize(("text", "policy"), CANONICAL.items(), ids=CANONICAL)
def test_canonical_string_omits_the_host_scope_without_a_target(text: str, policy: GroupPolicy) -> None:
    assert str(policy) == text


def test_canonical_string_omits_the_limit() -> None:
    assert str(GroupPolicy(ANTI_AFFINITY, RACK, limit=3)) == "anti-affinity:rack"


@pytest.mark.parametrize("kind", PolicyKind)
def test_kind_is_soft_exactly_when_its_name_starts_with_soft(kind: PolicyKind) -> None:
    assert kind.is_soft == kind.startswith("soft-")


RULES = {
    "no rules": ((GroupPolicy(ANTI_AFFINITY), GroupPolicy(AFFINITY, RACK)), {}, [1, 1]),
    "limit per host": ((GroupPolicy(ANTI_AFFINITY),), {"max_server_per_host": 3}, [3]),
    "limit per rack": ((GroupPolicy(ANTI_AFFINITY, RACK),), {"max_server_per_rack": 2}, [2]),
    "one limit for each scope": (
        (GroupPolicy(ANTI_AFFINITY), GroupPolicy(SOFT_AFFINITY), GroupPolicy(ANTI_AFFINITY, RACK)),
        {"max_server_per_rack": 5, "max_server_per_host": 2},
        [2, 1, 5],
    ),
    "default limit without a rule": (
        (GroupPolicy(ANTI_AFFINITY), GroupPolicy(ANTI_AFFINITY, RACK)),
        {"max_server_per_rack": 4},
        [1, 4],
    ),
    "a policy with a target keeps the default limit": (
        (GroupPolicy(ANTI_AFFINITY, RACK, "17"), GroupPolicy(ANTI_AFFINITY, RACK)),
        {"max_server_per_rack": 4},
        [1, 4],
    ),
}


@pytest.mark.parametrize(("policies", "rules", "limits"), RULES.values(), ids=RULES)
def test_rules_become_limits(policies: tuple[GroupPolicy, ...], rules: dict[str, int], limits: list[int]) -> None:
    limited = with_rules(policies, rules)
    assert [policy.limit for policy in limited] == limits
    assert [str(policy) for policy in limited] == [str(policy) for policy in policies]


INVALID_RULES = {
    "no policy": ((), {"max_server_per_host": 2}),
    "another scope": ((GroupPolicy(ANTI_AFFINITY, RACK),), {"max_server_per_host": 2}),
    "affinity": ((GroupPolicy(AFFINITY),), {"max_server_per_host": 2}),
    "a soft policy": ((GroupPolicy(SOFT_ANTI_AFFINITY),), {"max_server_per_host": 2}),
    "a policy with a target": ((GroupPolicy(ANTI_AFFINITY, RACK, "17"),), {"max_server_per_rack": 2}),
    "an unknown rule": ((GroupPolicy(ANTI_AFFINITY),), {"max_servers": 2}),
    "one of two rules": ((GroupPolicy(ANTI_AFFINITY),), {"max_server_per_host": 2, "max_server_per_rack": 2}),
}


@pytest.mark.parametrize(("policies", "rules"), INVALID_RULES.values(), ids=INVALID_RULES)
def test_rule_without_a_matching_policy_is_invalid(policies: tuple[GroupPolicy, ...], rules: dict[str, int]) -> None:
    with pytest.raises(Invalid, match=r"^(Only anti-affinity policy supports rules\.$|(There is no|The) rule max_)"):
        with_rules(policies, rules)


def test_rule_is_named_after_its_scope() -> None:
    assert rule_name(GroupPolicy(ANTI_AFFINITY)) == "max_server_per_host"
    assert rule_name(GroupPolicy(ANTI_AFFINITY, RACK)) == "max_server_per_rack"


def test_group_shows_only_rules_that_differ_from_the_default() -> None:
    policies = (
        GroupPolicy(ANTI_AFFINITY, limit=3),
        GroupPolicy(ANTI_AFFINITY, RACK),
        GroupPolicy(ANTI_AFFINITY, SWITCH, limit=2),
    )
    group = Group(GroupId("g"), "g", ProjectId("web"), UserId("alice"), policies, 1, NOW)
    assert group.rules == {"max_server_per_host": 3, "max_server_per_switch": 2}


VALID_COMBINATIONS: dict[str, tuple[GroupPolicy, ...]] = {
    "none": (),
    "one policy per scope": (
        GroupPolicy(ANTI_AFFINITY),
        GroupPolicy(ANTI_AFFINITY, RACK),
        GroupPolicy(ANTI_AFFINITY, SWITCH),
    ),
    "affinity by rack, anti-affinity by host": (GroupPolicy(AFFINITY, RACK), GroupPolicy(ANTI_AFFINITY)),
    "hard anti-affinity, soft affinity": (GroupPolicy(ANTI_AFFINITY, limit=3), GroupPolicy(SOFT_AFFINITY)),
    "hard affinity, soft anti-affinity": (GroupPolicy(AFFINITY, RACK), GroupPolicy(SOFT_ANTI_AFFINITY, RACK)),
    "soft anti-affinity, soft affinity": (GroupPolicy(SOFT_ANTI_AFFINITY), GroupPolicy(SOFT_AFFINITY)),
    "two avoided racks": (GroupPolicy(ANTI_AFFINITY, RACK, "1"), GroupPolicy(ANTI_AFFINITY, RACK, "2")),
    "an avoided rack, and anti-affinity by rack": (
        GroupPolicy(ANTI_AFFINITY, RACK, "1"),
        GroupPolicy(ANTI_AFFINITY, RACK),
    ),
    "a limit of two, and an even spread": (
        GroupPolicy(ANTI_AFFINITY, RACK, limit=2),
        GroupPolicy(SOFT_ANTI_AFFINITY, RACK),
    ),
    "an even spread, and a limit of two": (GroupPolicy(SOFT_ANTI_AFFINITY), GroupPolicy(ANTI_AFFINITY, limit=2)),
    "a required rack, and another avoided rack": (
        GroupPolicy(AFFINITY, RACK, "1"),
        GroupPolicy(ANTI_AFFINITY, RACK, "3"),
    ),
    "two preferred racks": (GroupPolicy(SOFT_AFFINITY, RACK, "1"), GroupPolicy(SOFT_AFFINITY, RACK, "3")),
    "a required rack, and anti-affinity by rack": (GroupPolicy(AFFINITY, RACK, "1"), GroupPolicy(ANTI_AFFINITY, RACK)),
}
REPEATED = {
    "the same policy twice": (GroupPolicy(ANTI_AFFINITY), GroupPolicy(ANTI_AFFINITY)),
    "the same policy twice with different limits": (
        GroupPolicy(ANTI_AFFINITY, RACK, limit=2),
        GroupPolicy(ANTI_AFFINITY, RACK),
    ),
    "hard and soft anti-affinity": (GroupPolicy(ANTI_AFFINITY, RACK), GroupPolicy(SOFT_ANTI_AFFINITY, RACK)),
    "soft and hard affinity": (GroupPolicy(SOFT_AFFINITY), GroupPolicy(AFFINITY)),
    "hard and soft affinity of one rack": (GroupPolicy(AFFINITY, RACK, "1"), GroupPolicy(SOFT_AFFINITY, RACK, "1")),
}
CONTRADICTIONS = {
    "a rack that is required and avoided": (GroupPolicy(AFFINITY, RACK, "1"), GroupPolicy(ANTI_AFFINITY, RACK, "1")),
    "two required racks": (GroupPolicy(AFFINITY, RACK, "1"), GroupPolicy(AFFINITY, RACK, "3")),
    "affinity and anti-affinity": (GroupPolicy(AFFINITY), GroupPolicy(ANTI_AFFINITY)),
    "anti-affinity and affinity by rack": (GroupPolicy(ANTI_AFFINITY, RACK), GroupPolicy(AFFINITY, RACK)),
    "anti-affinity with a limit of three and affinity": (
        GroupPolicy(ANTI_AFFINITY, RACK, limit=3),
        GroupPolicy(AFFINITY, RACK),
    ),
}


@pytest.mark.parametrize("policies", VALID_COMBINATIONS.values(), ids=VALID_COMBINATIONS)
def test_valid_combination_is_accepted(policies: tuple[GroupPolicy, ...]) -> None:
    check_policies(policies)


@pytest.mark.parametrize(("one", "other"), REPEATED.values(), ids=REPEATED)
def test_repeated_policies_are_both_named(one: GroupPolicy, other: GroupPolicy) -> None:
    with pytest.raises(Invalid) as refused:
        check_policies([one, GroupPolicy(SOFT_ANTI_AFFINITY, SWITCH), other])
    assert f"The policies {one} and {other} repeat each other" in refused.value.message


def test_policy_listed_twice_is_named_twice() -> None:
    policy = GroupPolicy(ANTI_AFFINITY)
    with pytest.raises(Invalid, match="anti-affinity and anti-affinity"):
        check_policies([policy, policy])


@pytest.mark.parametrize(("one", "other"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradicting_hard_policies_are_both_named(one: GroupPolicy, other: GroupPolicy) -> None:
    with pytest.raises(Invalid) as refused:
        check_policies([one, GroupPolicy(SOFT_ANTI_AFFINITY, SWITCH), other])
    assert f"The policies {one} and {other} contradict each other" in refused.value.message


@pytest.mark.parametrize("limit", [0, -1])
def test_rule_below_one_is_rejected(limit: int) -> None:
    with pytest.raises(Invalid) as refused:
        with_rules((GroupPolicy(ANTI_AFFINITY),), {"max_server_per_host": limit})
    assert refused.value.message == f"The rule max_server_per_host is {limit}; it must be at least 1."


def test_with_members_counts_new_members_and_leaves_the_old_state_unchanged() -> None:
    before = GroupState(7, ProjectId("web"), (GroupPolicy(ANTI_AFFINITY, limit=3),), {1: 1}, {UserId("alice"): 1})
    grown = before.with_members(UserId("bob"), [1, 2, 2])
    assert grown.view() == GroupView(before.policies, {1: 2, 2: 2})
    assert grown.users == {"alice": 1, "bob": 3}
    assert (before.members_by_host, before.users) == ({1: 1}, {"alice": 1})
