"""Policies as strings, their rules, and which of them go together."""

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
APART, TOGETHER = PolicyKind.ANTI_AFFINITY, PolicyKind.AFFINITY
SOFT_APART, SOFT_TOGETHER = PolicyKind.SOFT_ANTI_AFFINITY, PolicyKind.SOFT_AFFINITY

CANONICAL = {
    "anti-affinity": GroupPolicy(APART),
    "affinity": GroupPolicy(TOGETHER),
    "soft-anti-affinity": GroupPolicy(SOFT_APART),
    "soft-affinity": GroupPolicy(SOFT_TOGETHER),
    "anti-affinity:rack": GroupPolicy(APART, RACK),
    "soft-affinity:switch": GroupPolicy(SOFT_TOGETHER, SWITCH),
    "affinity:rack:17": GroupPolicy(TOGETHER, RACK, "17"),
    "anti-affinity:host:n1": GroupPolicy(APART, HOST, "n1"),
}


@pytest.mark.parametrize(("text", "policy"), CANONICAL.items(), ids=CANONICAL)
def test_the_canonical_string_leaves_the_host_scope_out_where_it_can(text: str, policy: GroupPolicy) -> None:
    assert str(policy) == text


def test_a_limit_is_no_part_of_the_string() -> None:
    assert str(GroupPolicy(APART, RACK, limit=3)) == "anti-affinity:rack"


@pytest.mark.parametrize("kind", PolicyKind)
def test_soft_is_what_says_so(kind: PolicyKind) -> None:
    assert kind.is_soft == kind.startswith("soft-")


RULES = {
    "no rules": ((GroupPolicy(APART), GroupPolicy(TOGETHER, RACK)), {}, [1, 1]),
    "how many a host may hold": ((GroupPolicy(APART),), {"max_server_per_host": 3}, [3]),
    "how many a rack may hold": ((GroupPolicy(APART, RACK),), {"max_server_per_rack": 2}, [2]),
    "one limit for each scope": (
        (GroupPolicy(APART), GroupPolicy(SOFT_TOGETHER), GroupPolicy(APART, RACK)),
        {"max_server_per_rack": 5, "max_server_per_host": 2},
        [2, 1, 5],
    ),
    "a policy without its rule keeps one": (
        (GroupPolicy(APART), GroupPolicy(APART, RACK)),
        {"max_server_per_rack": 4},
        [1, 4],
    ),
    "beside the same policy with an identifier": (
        (GroupPolicy(APART, RACK, "17"), GroupPolicy(APART, RACK)),
        {"max_server_per_rack": 4},
        [1, 4],
    ),
}


@pytest.mark.parametrize(("policies", "rules", "limits"), RULES.values(), ids=RULES)
def test_rules_become_limits(policies: tuple[GroupPolicy, ...], rules: dict[str, int], limits: list[int]) -> None:
    limited = with_rules(policies, rules)
    assert [policy.limit for policy in limited] == limits
    assert [str(policy) for policy in limited] == [str(policy) for policy in policies]


HOMELESS_RULES = {
    "of no policy": ((), {"max_server_per_host": 2}),
    "of another scope": ((GroupPolicy(APART, RACK),), {"max_server_per_host": 2}),
    "of affinity": ((GroupPolicy(TOGETHER),), {"max_server_per_host": 2}),
    "of a soft policy": ((GroupPolicy(SOFT_APART),), {"max_server_per_host": 2}),
    "of a policy with an identifier": ((GroupPolicy(APART, RACK, "17"),), {"max_server_per_rack": 2}),
    "that is unknown": ((GroupPolicy(APART),), {"max_servers": 2}),
    "beside one that has its place": ((GroupPolicy(APART),), {"max_server_per_host": 2, "max_server_per_rack": 2}),
}


@pytest.mark.parametrize(("policies", "rules"), HOMELESS_RULES.values(), ids=HOMELESS_RULES)
def test_a_rule_that_no_policy_can_have_is_invalid(policies: tuple[GroupPolicy, ...], rules: dict[str, int]) -> None:
    with pytest.raises(Invalid, match=r"^(Only anti-affinity policy supports rules\.$|(There is no|The) rule max_)"):
        with_rules(policies, rules)


def test_a_rule_is_named_for_its_scope() -> None:
    assert rule_name(GroupPolicy(APART)) == "max_server_per_host"
    assert rule_name(GroupPolicy(APART, RACK)) == "max_server_per_rack"


def test_a_group_shows_the_rules_that_are_not_the_usual_ones() -> None:
    policies = (GroupPolicy(APART, limit=3), GroupPolicy(APART, RACK), GroupPolicy(APART, SWITCH, limit=2))
    group = Group(GroupId("g"), "g", ProjectId("web"), UserId("alice"), policies, 1, NOW)
    assert group.rules == {"max_server_per_host": 3, "max_server_per_switch": 2}


GO_TOGETHER: dict[str, tuple[GroupPolicy, ...]] = {
    "none": (),
    "one of each scope": (GroupPolicy(APART), GroupPolicy(APART, RACK), GroupPolicy(APART, SWITCH)),
    "together in a rack and apart in its hosts": (GroupPolicy(TOGETHER, RACK), GroupPolicy(APART)),
    "a hard no and a soft yes": (GroupPolicy(APART, limit=3), GroupPolicy(SOFT_TOGETHER)),
    "a hard yes and a soft no": (GroupPolicy(TOGETHER, RACK), GroupPolicy(SOFT_APART, RACK)),
    "two soft ones that pull both ways": (GroupPolicy(SOFT_APART), GroupPolicy(SOFT_TOGETHER)),
    "two racks to avoid": (GroupPolicy(APART, RACK, "1"), GroupPolicy(APART, RACK, "2")),
    "a rack to avoid and at most one in others": (GroupPolicy(APART, RACK, "1"), GroupPolicy(APART, RACK)),
    "in one rack, apart within it": (GroupPolicy(TOGETHER, RACK, "1"), GroupPolicy(APART, RACK)),
}
SAME_THING = {
    "twice the same": (GroupPolicy(APART), GroupPolicy(APART)),
    "twice the same with other limits": (GroupPolicy(APART, RACK, limit=2), GroupPolicy(APART, RACK)),
    "hard and soft apart": (GroupPolicy(APART, RACK), GroupPolicy(SOFT_APART, RACK)),
    "soft and hard together": (GroupPolicy(SOFT_TOGETHER), GroupPolicy(TOGETHER)),
    "twice of one rack": (GroupPolicy(TOGETHER, RACK, "1"), GroupPolicy(SOFT_TOGETHER, RACK, "1")),
}
CONTRADICTIONS = {
    "together and apart": (GroupPolicy(TOGETHER), GroupPolicy(APART)),
    "apart and together": (GroupPolicy(APART, RACK), GroupPolicy(TOGETHER, RACK)),
    "apart by threes and together": (GroupPolicy(APART, RACK, limit=3), GroupPolicy(TOGETHER, RACK)),
}


@pytest.mark.parametrize("policies", GO_TOGETHER.values(), ids=GO_TOGETHER)
def test_policies_that_go_together(policies: tuple[GroupPolicy, ...]) -> None:
    check_policies(policies)


@pytest.mark.parametrize(("one", "other"), SAME_THING.values(), ids=SAME_THING)
def test_two_policies_that_say_the_same_kind_of_thing_are_both_named(one: GroupPolicy, other: GroupPolicy) -> None:
    with pytest.raises(Invalid) as refused:
        check_policies([one, GroupPolicy(SOFT_APART, SWITCH), other])
    assert f"The policies {one} and {other} repeat each other" in refused.value.message


def test_one_and_the_same_policy_listed_twice_is_listed_twice() -> None:
    policy = GroupPolicy(APART)
    with pytest.raises(Invalid, match="anti-affinity and anti-affinity"):
        check_policies([policy, policy])


@pytest.mark.parametrize(("one", "other"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_two_hard_policies_that_contradict_each_other_are_both_named(one: GroupPolicy, other: GroupPolicy) -> None:
    with pytest.raises(Invalid) as refused:
        check_policies([one, GroupPolicy(SOFT_APART, SWITCH), other])
    assert f"The policies {one} and {other} contradict each other" in refused.value.message


def test_a_state_with_more_members_counts_them_where_they_are_and_leaves_the_old_one_alone() -> None:
    before = GroupState(7, ProjectId("web"), (GroupPolicy(APART, limit=3),), {1: 1}, {UserId("alice"): 1})
    grown = before.with_members(UserId("bob"), [1, 2, 2])
    assert grown.view() == GroupView(before.policies, {1: 2, 2: 2})
    assert grown.users == {"alice": 1, "bob": 3}
    assert (before.places, before.users) == ({1: 1}, {"alice": 1})
