"""Violations of a group's placement, by policy, domain and members; and objections to another member."""

from collections.abc import Sequence

import pytest

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.fleet import Fleet
from covey.scheduler.violations import Violation, objections, violations
from tests.plain_fleets import PlainAggregate, PlainHost
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    affinity,
    anti_affinity,
    domain,
    fleet,
    host,
    hosts,
    soft_affinity,
    soft_anti_affinity,
)

# Six hosts, two per rack; the last two are in no rack.
RACKS: list[PlainHost | PlainAggregate] = [*hosts(6), domain(71, 1, 2), domain(72, 3, 4), domain(73)]


def violations_of(
    policies: Sequence[GroupPolicy], places: Sequence[int], within: Fleet | None = None, exempt: Sequence[int] = ()
) -> list[Violation]:
    """Return the violations of members a, b, c ... on these hosts."""
    named = {"abcdefgh"[number]: HostId(place) for number, place in enumerate(places)}
    return violations(policies, named, within or fleet(*RACKS), frozenset(map(HostId, exempt)))


def domains_and_members(policy: GroupPolicy, *places: int) -> list[tuple[str | None, str]]:
    """Return the domain and the members of each violation of one policy."""
    found = violations_of([policy], places)
    assert all(violation.policy == policy for violation in found)
    assert all(violation.soft == policy.kind.is_soft for violation in found)
    return [(violation.domain, "".join(violation.members)) for violation in found]


@pytest.mark.parametrize(
    ("policy", "places", "broken"),
    [
        pytest.param(anti_affinity(), (1, 2, 3), [], id="each on its own host"),
        pytest.param(anti_affinity(), (1, 1, 3), [("n1", "ab")], id="two on a host"),
        pytest.param(anti_affinity(), (1, 1, 3, 3, 3), [("n1", "ab"), ("n3", "cde")], id="two hosts above the limit"),
        pytest.param(anti_affinity(limit=2), (1, 1, 3), [], id="the limit is reached"),
        pytest.param(anti_affinity(limit=2), (1, 1, 3, 1), [("n1", "abd")], id="the limit is exceeded"),
        pytest.param(anti_affinity(RACK), (1, 3), [], id="each in its own rack"),
        pytest.param(anti_affinity(RACK), (1, 2), [("71", "ab")], id="two hosts of one rack"),
        pytest.param(anti_affinity(RACK, limit=2), (1, 2, 3), [], id="two per rack within the limit"),
        pytest.param(anti_affinity(RACK), (1, 5, 6), [(None, "bc")], id="two in no rack"),
        pytest.param(
            anti_affinity(RACK),
            (1, 2, 5),
            [(None, "c"), ("71", "ab")],
            id="one in no rack, and one rack above the limit",
        ),
        pytest.param(anti_affinity(SWITCH), (1, 2), [(None, "ab")], id="a scope without domains"),
        pytest.param(anti_affinity(target="n1"), (1, 2), [("n1", "a")], id="on the avoided host"),
        pytest.param(anti_affinity(RACK, "71"), (3, 5), [], id="outside the avoided rack, or in no rack"),
        pytest.param(anti_affinity(RACK, "71"), (1, 2, 3), [("71", "ab")], id="in the avoided rack"),
        pytest.param(anti_affinity(RACK, "99"), (1, 2, 3), [], id="the avoided rack does not exist"),
        pytest.param(affinity(), (2, 2), [], id="one host"),
        pytest.param(affinity(), (2, 2, 3), [("n2", "c")], id="one on another host"),
        pytest.param(affinity(RACK), (1, 2, 1), [], id="one rack"),
        pytest.param(affinity(RACK), (1, 3, 4), [("72", "a")], id="the minority is misplaced"),
        pytest.param(affinity(RACK), (3, 1), [("71", "a")], id="the first of two equally full racks is the main one"),
        pytest.param(affinity(RACK), (1, 5), [(None, "b")], id="one in a rack, one in no rack"),
        pytest.param(affinity(RACK), (1, 3, 5), [(None, "c"), ("71", "b")], id="two racks, and one in no rack"),
        pytest.param(affinity(RACK, "72"), (3, 4), [], id="in the required rack"),
        pytest.param(affinity(RACK, "72"), (1, 3, 5), [("72", "ac")], id="outside the required rack"),
        pytest.param(affinity(RACK, "99"), (1, 3), [("99", "ab")], id="the required rack does not exist"),
        pytest.param(soft_anti_affinity(), (1, 2, 3), [], id="soft: each on its own host"),
        pytest.param(soft_anti_affinity(), (1, 1), [("n1", "ab")], id="soft: two on a host while others are empty"),
        pytest.param(soft_anti_affinity(RACK), (1, 2, 3), [], id="soft: as even as possible"),
        pytest.param(soft_anti_affinity(RACK), (1, 2, 2, 3), [("71", "abc")], id="soft: three to one"),
        pytest.param(soft_anti_affinity(RACK), (1, 5), [(None, "b")], id="soft anti-affinity: one in no rack"),
        pytest.param(
            soft_anti_affinity(SWITCH), (1, 1), [(None, "ab")], id="soft anti-affinity: a scope without domains"
        ),
        pytest.param(
            soft_anti_affinity(RACK, "71"), (1, 3), [("71", "a")], id="soft anti-affinity: in the avoided rack"
        ),
        pytest.param(soft_affinity(), (4, 4), [], id="soft affinity: one host"),
        pytest.param(soft_affinity(RACK), (1, 3, 4), [("72", "a")], id="soft affinity: one in another rack"),
        pytest.param(soft_affinity(SWITCH), (1, 1), [(None, "ab")], id="soft affinity: a scope without domains"),
        pytest.param(soft_affinity(RACK, "71"), (1, 3), [("71", "b")], id="soft affinity: outside the preferred rack"),
    ],
)
def test_violation_names_the_domain_and_the_members(
    policy: GroupPolicy, places: tuple[int, ...], broken: list[tuple[str | None, str]]
) -> None:
    assert domains_and_members(policy, *places) == broken


@pytest.mark.parametrize("kind", PolicyKind)
@pytest.mark.parametrize("target", [None, "71", "99"])
def test_group_without_placed_members_has_no_violation(kind: PolicyKind, target: str | None) -> None:
    policy = GroupPolicy(kind, RACK, target)
    assert violations_of([policy], []) == []
    assert violations_of([policy], [77]) == [], "a deleted host"
    assert violations([policy], {"a": HostId(1)}, fleet()) == [], "an empty fleet"


def test_unavailable_rack_does_not_make_a_spread_uneven() -> None:
    full: list[PlainHost | PlainAggregate] = [host(1), host(2), domain(71, 1)]
    off, down = fleet(*full, host(3, enabled=False), domain(72, 3)), fleet(*full, host(3, up=False), domain(72, 3))
    on = fleet(*full, host(3), domain(72, 3))
    policy = soft_anti_affinity(RACK)
    assert (
        violations_of([policy], [1, 1], off)
        == violations_of([policy], [1, 1], down)
        == violations_of([policy], [1, 1], fleet(*full))
        == []
    )
    assert [violation.domain for violation in violations_of([policy], [1, 1], on)] == ["71"]


@pytest.mark.parametrize(
    ("policy", "places", "exempt", "broken"),
    [
        pytest.param(anti_affinity(), (1, 1, 2, 2), [1], [("n2", "cd")], id="anti-affinity: the others count"),
        pytest.param(anti_affinity(), (1, 1, 2, 2), [1, 2], [], id="anti-affinity: all are exempt"),
        pytest.param(anti_affinity(target="n1"), (1, 2), [1], [("n1", "a")], id="the exempt host is to be avoided"),
        pytest.param(anti_affinity(RACK), (1, 1), [1], [("71", "ab")], id="other scopes count"),
        pytest.param(affinity(), (1, 1), [1], [], id="affinity: all on the exempt host"),
        pytest.param(affinity(), (1, 1, 2), [1], [("n1", "c")], id="affinity: one is elsewhere"),
        pytest.param(affinity(), (1, 2, 2), [1], [("n2", "a")], id="affinity: most are elsewhere"),
        pytest.param(soft_affinity(), (1, 1, 2), [1], [("n1", "c")], id="soft affinity: one is elsewhere"),
        pytest.param(soft_anti_affinity(), (1, 1, 1, 2), [1], [], id="soft: the others are spread"),
        pytest.param(soft_anti_affinity(), (1, 1, 1, 2, 2), [1], [("n2", "de")], id="soft: the others are not spread"),
    ],
)
def test_exempt_host_hides_only_its_own_members_from_policies_that_spread(
    policy: GroupPolicy, places: Sequence[int], exempt: Sequence[int], broken: list[tuple[str | None, str]]
) -> None:
    found = violations_of([policy], places, exempt=exempt)
    assert [(violation.domain, "".join(violation.members)) for violation in found] == broken


def test_exempt_host_is_not_the_emptiest_of_a_spread() -> None:
    two = fleet(host(1), host(2))
    assert violations_of([soft_anti_affinity()], [1, 2, 2, 2], two, exempt=[1]) == []


@pytest.mark.parametrize(
    ("policy", "places", "broken"),
    [
        pytest.param(anti_affinity(RACK), (3,), [(None, "a")], id="it alone"),
        pytest.param(anti_affinity(RACK), (1, 3, 5), [(None, "b"), ("71", "ab")], id="one more in the first rack"),
        pytest.param(anti_affinity(RACK), (1, 3, 4), [(None, "b"), ("71", "ab"), ("72", "bc")], id="in each rack"),
        pytest.param(anti_affinity(RACK, limit=2), (1, 2, 3), [(None, "c"), ("71", "abc")], id="above a limit of two"),
        pytest.param(anti_affinity(RACK, limit=2), (1, 3, 4), [(None, "b")], id="within a limit of two"),
        pytest.param(anti_affinity(RACK, "72"), (3, 4), [("72", "ab")], id="in the rack to avoid"),
        pytest.param(anti_affinity(RACK, "73"), (3, 4), [(None, "a")], id="in two other racks"),
        pytest.param(anti_affinity(RACK, "99"), (3, 4), [], id="the avoided rack does not exist"),
        pytest.param(affinity(RACK), (1, 3), [(None, "b")], id="affinity"),
        pytest.param(affinity(RACK), (1, 3, 4, 4), [(None, "b"), ("72", "a")], id="affinity, and one elsewhere"),
        pytest.param(affinity(RACK, "71"), (1, 3, 4), [("71", "c"), (None, "b")], id="outside the required rack"),
        pytest.param(soft_anti_affinity(RACK), (1, 3, 5), [(None, "b")], id="soft anti-affinity: even"),
        pytest.param(
            soft_anti_affinity(RACK), (1, 3, 4), [(None, "b"), ("71", "abc")], id="soft anti-affinity: uneven"
        ),
        pytest.param(soft_affinity(RACK), (3, 3), [(None, "ab")], id="soft affinity"),
    ],
)
def test_member_in_two_domains_counts_in_both_and_is_reported_apart(
    policy: GroupPolicy, places: Sequence[int], broken: list[tuple[str | None, str]]
) -> None:
    found = violations_of([policy], places, fleet(*hosts(5), domain(71, 1, 2, 3), domain(72, 3, 4), domain(73, 5)))
    assert [(violation.domain, "".join(violation.members)) for violation in found] == broken
    apart = [violation.sentence for violation in found if violation.domain is None]
    assert apart in ([], ["1 member is in two rack domains"], ["2 members are in two rack domains"])


def test_violations_follow_the_order_of_the_policies() -> None:
    policies = [soft_anti_affinity(RACK), anti_affinity(), affinity(RACK), anti_affinity(RACK, "72")]
    found = violations_of(policies, [1, 1, 3])
    assert [(str(v.policy), v.domain, v.members, v.soft) for v in found] == [
        ("anti-affinity", "n1", ("a", "b"), False),
        ("affinity:rack", "71", ("c",), False),
        ("anti-affinity:rack:72", "72", ("c",), False),
    ]


@pytest.mark.parametrize(
    ("policy", "places", "sentence"),
    [
        (anti_affinity(limit=2), (1, 1, 1), "3 members are on one host; the limit is 2"),
        (anti_affinity(RACK), (5,), "1 member is in no rack"),
        (affinity(RACK), (1, 2, 3), "1 member is outside the rack that holds most of the group"),
        (affinity(RACK, "71"), (3, 4), "2 members are outside the rack that the group requires"),
        (anti_affinity(RACK, "71"), (1,), "1 member is in the rack that the group avoids"),
        (
            soft_anti_affinity(RACK),
            (1, 1),
            "the fullest rack holds 2 of the group; the emptiest usable one holds 0",
        ),
    ],
)
def test_sentence_counts_members_without_naming_a_domain(
    policy: GroupPolicy, places: tuple[int, ...], sentence: str
) -> None:
    assert [violation.sentence for violation in violations_of([policy], places)] == [sentence]


@pytest.mark.parametrize(
    ("policies", "places", "at", "expected"),
    [
        ([anti_affinity()], {1: 1}, 2, []),
        ([anti_affinity()], {1: 1}, 1, ["its host already holds 1 of the group"]),
        ([anti_affinity(RACK, limit=2)], {1: 1, 2: 1}, 2, ["its host already holds 2 of the group in its rack"]),
        ([anti_affinity(RACK)], {}, 5, ["its host is in no rack"]),
        ([anti_affinity(RACK, "71")], {}, 1, ["its host is in the rack that the group avoids"]),
        ([affinity(RACK)], {3: 1}, 1, ["its host is not in the rack of the group"]),
        ([affinity(RACK)], {1: 1}, 3, ["its host is not in the rack of the group"]),
        ([affinity(RACK)], {1: 1, 3: 1}, 4, []),
        ([affinity(RACK, "72")], {}, 1, ["its host is outside the rack that the group requires"]),
        ([soft_anti_affinity(), soft_affinity(RACK, "72")], {1: 5}, 1, []),
        (
            [affinity(RACK), anti_affinity()],
            {3: 1, 1: 1, 4: 1},
            1,
            ["its host already holds 1 of the group"],
        ),
        (
            [anti_affinity(), anti_affinity(RACK, "71"), affinity(SWITCH)],
            {1: 1},
            1,
            ["its host already holds 1 of the group", "its host is in no switch"],
        ),
    ],
)
def test_objections_to_another_member(
    policies: list[GroupPolicy], places: dict[int, int], at: int, expected: list[str]
) -> None:
    assert objections(GroupView(tuple(policies), places), HostId(at), fleet(*RACKS)) == expected
