"""Verdicts: which policies a group's places break, where, by whom; and what speaks against one more member."""

from collections.abc import Sequence

import pytest

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.fleet import AggregateRecord, Fleet, HostRecord
from covey.scheduler.violations import Violation, objections, violations
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    apart,
    domain,
    fleet,
    host,
    hosts,
    rather_apart,
    rather_together,
    together,
)

# Six hosts, two a rack; the last two are in none.
RACKS: list[HostRecord | AggregateRecord] = [*hosts(6), domain(71, 1, 2), domain(72, 3, 4), domain(73)]


def judged(policies: Sequence[GroupPolicy], places: Sequence[int], within: Fleet | None = None) -> list[Violation]:
    """What members a, b, c ... on those hosts break."""
    named = {"abcdefgh"[number]: HostId(place) for number, place in enumerate(places)}
    return violations(policies, named, within or fleet(*RACKS))


def told(policy: GroupPolicy, *places: int) -> list[tuple[str | None, str]]:
    """Where, and by whom, one policy is broken."""
    found = judged([policy], places)
    assert all(violation.policy == policy for violation in found)
    assert all(violation.soft == policy.kind.is_soft for violation in found)
    return [(violation.domain, "".join(violation.members)) for violation in found]


@pytest.mark.parametrize(
    ("policy", "places", "broken"),
    [
        pytest.param(apart(), (1, 2, 3), [], id="each on its own host"),
        pytest.param(apart(), (1, 1, 3), [("n1", "ab")], id="two on a host"),
        pytest.param(apart(), (1, 1, 3, 3, 3), [("n1", "ab"), ("n3", "cde")], id="two hosts, each too full"),
        pytest.param(apart(limit=2), (1, 1, 3), [], id="a limit that is reached"),
        pytest.param(apart(limit=2), (1, 1, 3, 1), [("n1", "abd")], id="a limit that is passed"),
        pytest.param(apart(RACK), (1, 3), [], id="a rack each"),
        pytest.param(apart(RACK), (1, 2), [("71", "ab")], id="two hosts of one rack"),
        pytest.param(apart(RACK, limit=2), (1, 2, 3), [], id="two a rack"),
        pytest.param(apart(RACK), (1, 5, 6), [(None, "bc")], id="in no rack at all"),
        pytest.param(apart(RACK), (1, 2, 5), [(None, "c"), ("71", "ab")], id="in no rack, and too many in one"),
        pytest.param(apart(SWITCH), (1, 2), [(None, "ab")], id="a scope without domains"),
        pytest.param(apart(target="n1"), (1, 2), [("n1", "a")], id="on the host to be avoided"),
        pytest.param(apart(RACK, "71"), (3, 5), [], id="outside of the rack, or in none"),
        pytest.param(apart(RACK, "71"), (1, 2, 3), [("71", "ab")], id="in the rack to be avoided"),
        pytest.param(apart(RACK, "99"), (1, 2, 3), [], id="avoiding a rack that is gone"),
        pytest.param(together(), (2, 2), [], id="one host"),
        pytest.param(together(), (2, 2, 3), [("n2", "c")], id="one elsewhere"),
        pytest.param(together(RACK), (1, 2, 1), [], id="one rack"),
        pytest.param(together(RACK), (1, 3, 4), [("72", "a")], id="the fewer are the ones elsewhere"),
        pytest.param(together(RACK), (3, 1), [("71", "a")], id="of as many in two racks, the first is theirs"),
        pytest.param(together(RACK), (1, 5), [(None, "b")], id="one in a rack, one in none"),
        pytest.param(together(RACK), (1, 3, 5), [(None, "c"), ("71", "b")], id="two racks, and none"),
        pytest.param(together(RACK, "72"), (3, 4), [], id="in the rack that was asked for"),
        pytest.param(together(RACK, "72"), (1, 3, 5), [("72", "ac")], id="outside of it"),
        pytest.param(together(RACK, "99"), (1, 3), [("99", "ab")], id="asking for a rack that is gone"),
        pytest.param(rather_apart(), (1, 2, 3), [], id="softly spread"),
        pytest.param(rather_apart(), (1, 1), [("n1", "ab")], id="two on a host while others are empty"),
        pytest.param(rather_apart(RACK), (1, 2, 3), [], id="as even as it gets"),
        pytest.param(rather_apart(RACK), (1, 2, 2, 3), [("71", "abc")], id="three to one"),
        pytest.param(rather_apart(RACK), (1, 5), [(None, "b")], id="softly apart, in no rack"),
        pytest.param(rather_apart(SWITCH), (1, 1), [(None, "ab")], id="softly apart in a scope without domains"),
        pytest.param(rather_apart(RACK, "71"), (1, 3), [("71", "a")], id="in the rack to be avoided if possible"),
        pytest.param(rather_together(), (4, 4), [], id="softly together"),
        pytest.param(rather_together(RACK), (1, 3, 4), [("72", "a")], id="softly together, one elsewhere"),
        pytest.param(rather_together(SWITCH), (1, 1), [(None, "ab")], id="softly together where there is no domain"),
        pytest.param(rather_together(RACK, "71"), (1, 3), [("71", "b")], id="outside of the rack that is better"),
    ],
)
def test_each_policy_is_broken_by_whom_and_where(
    policy: GroupPolicy, places: tuple[int, ...], broken: list[tuple[str | None, str]]
) -> None:
    assert told(policy, *places) == broken


@pytest.mark.parametrize("kind", PolicyKind)
@pytest.mark.parametrize("target", [None, "71", "99"])
def test_a_group_without_places_breaks_nothing(kind: PolicyKind, target: str | None) -> None:
    policy = GroupPolicy(kind, RACK, target)
    assert judged([policy], []) == []
    assert judged([policy], [77]) == [], "a host that is no more"
    assert violations([policy], {"a": HostId(1)}, fleet()) == [], "no hosts at all"


def test_an_empty_rack_that_takes_nothing_makes_no_spread_uneven() -> None:
    full: list[HostRecord | AggregateRecord] = [host(1), host(2), domain(71, 1)]
    off, down = fleet(*full, host(3, enabled=False), domain(72, 3)), fleet(*full, host(3, up=False), domain(72, 3))
    on = fleet(*full, host(3), domain(72, 3))
    policy = rather_apart(RACK)
    assert (
        judged([policy], [1, 1], off) == judged([policy], [1, 1], down) == judged([policy], [1, 1], fleet(*full)) == []
    )
    assert [violation.domain for violation in judged([policy], [1, 1], on)] == ["71"]


def test_a_member_in_two_domains_at_once_is_sure_of_neither() -> None:
    ambiguous = fleet(host(1), host(2), domain(71, 1, 2), domain(72, 1))
    for policy, domain_shown in ((apart(RACK), None), (together(RACK), None), (apart(RACK, "72"), "72")):
        assert [(v.domain, v.members) for v in judged([policy], [1, 2], ambiguous)] == [(domain_shown, ("a",))]
    assert [v.members for v in judged([together(RACK, "71")], [1, 2], ambiguous)] == [("a",)]


def test_every_policy_is_judged_in_the_order_of_the_list() -> None:
    policies = [rather_apart(RACK), apart(), together(RACK), apart(RACK, "72")]
    found = judged(policies, [1, 1, 3])
    assert [(str(v.policy), v.domain, v.members, v.soft) for v in found] == [
        ("anti-affinity", "n1", ("a", "b"), False),
        ("affinity:rack", "71", ("c",), False),
        ("anti-affinity:rack:72", "72", ("c",), False),
    ]


@pytest.mark.parametrize(
    ("policy", "places", "sentence"),
    [
        (apart(limit=2), (1, 1, 1), "3 members are on one host; the limit is 2"),
        (apart(RACK), (5,), "1 member is in no rack"),
        (together(RACK), (1, 2, 3), "1 member is outside the rack that holds most of the group"),
        (together(RACK, "71"), (3, 4), "2 members are outside the rack that the group requires"),
        (apart(RACK, "71"), (1,), "1 member is in the rack that the group avoids"),
        (
            rather_apart(RACK),
            (1, 1),
            "the fullest rack holds 2 of the group; the emptiest usable one holds 0",
        ),
    ],
)
def test_sentences_count_and_name_no_place(policy: GroupPolicy, places: tuple[int, ...], sentence: str) -> None:
    assert [violation.sentence for violation in judged([policy], places)] == [sentence]


@pytest.mark.parametrize(
    ("policies", "places", "at", "said"),
    [
        ([apart()], {1: 1}, 2, []),
        ([apart()], {1: 1}, 1, ["its host already holds 1 of the group"]),
        ([apart(RACK, limit=2)], {1: 1, 2: 1}, 2, ["its host already holds 2 of the group in its rack"]),
        ([apart(RACK)], {}, 5, ["its host is in no rack"]),
        ([apart(RACK, "71")], {}, 1, ["its host is in the rack that the group avoids"]),
        ([together(RACK)], {3: 1}, 1, ["its host is not in the rack of the group"]),
        ([together(RACK)], {1: 1}, 3, ["its host is not in the rack of the group"]),
        ([together(RACK)], {1: 1, 3: 1}, 4, []),
        ([together(RACK, "72")], {}, 1, ["its host is outside the rack that the group requires"]),
        ([rather_apart(), rather_together(RACK, "72")], {1: 5}, 1, []),
        (
            [together(RACK), apart()],
            {3: 1, 1: 1, 4: 1},
            1,
            ["its host already holds 1 of the group"],
        ),
        (
            [apart(), apart(RACK, "71"), together(SWITCH)],
            {1: 1},
            1,
            ["its host already holds 1 of the group", "its host is in no switch"],
        ),
    ],
)
def test_what_speaks_against_one_more_member(
    policies: list[GroupPolicy], places: dict[int, int], at: int, said: list[str]
) -> None:
    assert objections(GroupView(tuple(policies), places), HostId(at), fleet(*RACKS)) == said
