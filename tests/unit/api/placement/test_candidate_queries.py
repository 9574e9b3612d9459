"""The query grammar of the Placement API, by microversion."""

from urllib.parse import parse_qs

import pytest

from covey.api.placement.candidate_queries import read_filters, read_query
from covey.api.versions import Version
from covey.model.errors import Invalid
from covey.scheduler.candidates import CandidateQuery, RequestGroup

LATEST = Version(1, 39)
A, B, C = (f"00000000-0000-0000-0000-00000000000{letter}" for letter in "abc")


def read(text: str, minor: int = 39) -> CandidateQuery:
    return read_query(parse_qs(text, keep_blank_values=True), Version(1, minor))[0]


def group(text: str, minor: int = 39) -> RequestGroup:
    (only,) = read(text, minor).groups
    return only


def refused(text: str, minor: int = 39) -> str:
    with pytest.raises(Invalid) as caught:
        read(text, minor)
    return caught.value.message


def sets(*words: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(word.split()) for word in words)


def test_group_without_a_suffix() -> None:
    text = f"resources=VCPU:2,MEMORY_MB:512&required=T1,!T2&member_of=in:{A},{B}&member_of=!{C}&in_tree={A}"
    assert group(text) == RequestGroup(
        "", {"VCPU": 2, "MEMORY_MB": 512}, sets("T1"), frozenset({"T2"}), sets(f"{A} {B}"), frozenset({C}), A
    )


def test_groups_keep_their_order() -> None:
    query = read("resources_B=VCPU:1&resources=DISK_GB:1&resources_A=VF:1&required_B=T&group_policy=isolate")
    assert [one.suffix for one in query.groups] == ["_B", "", "_A"]
    assert query.isolate


def test_parameters_of_the_whole_query() -> None:
    query = read("resources1=VCPU:1&resources2=VF:1&group_policy=none&root_required=T,!U&same_subtree=1,2")
    assert (query.root_required, query.root_forbidden) == sets("T", "U")
    assert query.same_subtrees == (frozenset({"1", "2"}),)
    assert not query.isolate


@pytest.mark.parametrize(("minor", "nested"), [(28, False), (29, True)])
def test_old_versions_do_not_support_trees(minor: int, *, nested: bool) -> None:
    assert read("resources=VCPU:1", minor).nested is nested


def test_first_group_policy_wins() -> None:
    assert read("resources=VCPU:1&group_policy=isolate&group_policy=none").isolate
    assert "'bogus' is not one of" in refused("resources=VCPU:1&group_policy=bogus&group_policy=none")


@pytest.mark.parametrize(
    ("text", "limit"), [("", None), ("&limit=7", 7), ("&limit=7&limit=8", 7), ("&limit=9" + "0" * 5000, None)]
)
def test_limit_is_parsed(text: str, limit: int | None) -> None:
    assert read_query(parse_qs(f"resources=VCPU:1{text}"), LATEST)[1] == limit


@pytest.mark.parametrize(
    ("text", "required", "forbidden"),
    [
        ("required=T1&required=T2", sets("T1", "T2"), frozenset[str]()),
        ("required=in:T1,T2&required=T3,!T4", sets("T1 T2", "T3"), frozenset({"T4"})),
        ("required=in:T1", sets("T1"), frozenset()),
        ("required=in:T1,T2&required=!T1", sets("T1 T2"), frozenset({"T1"})),
    ],
)
def test_traits_are_parsed(text: str, required: object, forbidden: object) -> None:
    found = group(f"resources=VCPU:1&{text}")
    assert (found.required, found.forbidden) == (required, forbidden)


def test_last_required_parameter_wins_before_1_39() -> None:
    assert group("resources=VCPU:1&required=T1&required=T2", 38).required == sets("T2")


@pytest.mark.parametrize(
    ("text", "minor", "message"),
    [
        ("", 24, "'resources' is a required property"),
        ("", 25, "At least one request group (`resources` or `resources{$S}`) is required."),
        ("", 36, "There must be at least one resources or resources[$S] parameter."),
        ("resources=", 10, "Got: empty string."),
        ("resources=VCPU", 10, "Got: VCPU."),
        ("resources=VCPU:1:2", 10, "Badly formed resources parameter"),
        ("resources=VCPU:1,", 10, "Badly formed resources parameter"),
        ("resources=VCPU:fred", 10, "Requested resource VCPU expected positive integer amount. Got: fred."),
        ("resources=VCPU:" + "9" * 5000, 10, "expected positive integer amount"),
        ("resources=VCPU:0", 10, "requires amount >= 1. Got: 0."),
        ("resources=VCPU:1&limit=5", 15, "'limit' was unexpected"),
        ("resources=VCPU:1&limit=0", 16, "Failed validating 'pattern'"),
        ("resources=VCPU:1&required=T", 16, "'required' was unexpected"),
        ("resources=VCPU:1&required=", 17, "Got an empty trait in"),
        ("resources=VCPU:1&required=T,!", 22, "Got an empty trait in"),
        ("resources=VCPU:1&required=!T", 21, "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC."),
        ("resources=VCPU:1&required=T,!T", 22, "following traits keys: required: (T)"),
        ("resources=VCPU:1&required=in:T", 38, "only supported since microversion 1.39."),
        ("resources=VCPU:1&required=in:T,", 39, "Got an empty trait in"),
        ("resources=VCPU:1&required=in:T,!U", 39, "does not support forbidden traits"),
        ("resources=VCPU:1&required=in:T,U&required=!T,!U", 39, "required: (T, U)"),
        ("resources=VCPU:1&member_of=x", 20, "'member_of' was unexpected"),
        ("resources=VCPU:1&member_of=x", 21, "to contain valid UUID(s). Got: x"),
        (f"resources=VCPU:1&member_of={A},{B}", 21, "must be prefixed with the 'in:' or '!in:' keyword"),
        (f"resources=VCPU:1&member_of=in:{A},!{B}", 32, "to contain valid UUID(s)."),
        (f"resources=VCPU:1&member_of={A}&member_of={B}", 23, "Multiple member_of parameters are not supported"),
        (f"resources=VCPU:1&member_of=!{A}", 31, "Forbidden member_of parameters are not supported"),
        ("resources=VCPU:1&resources1=VCPU:1", 24, "'resources1' was unexpected"),
        ("resources01=VCPU:1", 32, "'resources01' does not match any of the regexes"),
        ("resources1@=VCPU:1", 39, "'resources1@' does not match any of the regexes"),
        ("resources1=VCPU:1&resources2=VF:1", 25, 'The "group_policy" parameter is required'),
        ("resources=VCPU:1&group_policy=bogus", 25, "'bogus' is not one of ['none', 'isolate']"),
        ("resources=VCPU:1&required1=T", 25, "orphaned traits keys: required1"),
        (f"resources=VCPU:1&member_of3={A}", 25, "orphaned member_of keys: member_of3"),
        ("resources=VCPU:1&required3=!T", 25, "All request groups must specify resources."),
        (f"resources=VCPU:1&in_tree={A}", 30, "'in_tree' does not match any of the regexes"),
        ("resources=VCPU:1&in_tree=life", 31, "Expected 'in_tree' parameter to be a format of uuid"),
        ("resources=VCPU:1&root_required=T", 34, "'root_required' does not match any of the regexes"),
        ("resources=VCPU:1&root_required=in:T,U", 39, "only supported since"),
    ],
)
def test_invalid_query_has_the_message_of_placement(text: str, minor: int, message: str) -> None:
    assert message in refused(text, minor)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("resources=VCPU:1&root_required=T&root_required=U", "duplicate_key"),
        ("resources=VCPU:1&root_required=T,!T", "bad_value"),
        ("resources1=VCPU:1&same_subtree=1,,", "bad_value"),
        ("resources1=VCPU:1&same_subtree=1,2", "bad_value"),
        ("resources=VCPU:1&required1=T", "bad_value"),
        ("required=T&resources1=VCPU:1", "bad_value"),
        ("required1=T&same_subtree=1", "missing_value"),
    ],
)
def test_some_errors_have_their_own_code(text: str, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(text)
    assert caught.value.code == code


def test_provider_list_accepts_the_same_filters() -> None:
    given = {"name": ["x"], "resources": ["VCPU:1"], "required": ["T"], "member_of": [A], "in_tree": [B]}
    assert read_filters(given, LATEST) == RequestGroup("", {"VCPU": 1}, sets("T"), frozenset(), sets(A), in_tree=B)
