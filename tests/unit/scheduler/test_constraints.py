"""Each constraint: the hosts that it allows, the counted reasons of the others, and the reason of a single host."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from covey.model.groups import GroupPolicy
from covey.model.ids import HostId
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits
from covey.scheduler.constraints import DYNAMIC, STATIC, Constraint
from covey.scheduler.constraints.static import (
    Enabled,
    ForbiddenAggregates,
    NamedHosts,
    TenantIsolation,
    Traits,
    Up,
    Zone,
)
from covey.scheduler.decide import allowed_hosts
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.policies import GroupPolicies
from covey.scheduler.policies.anti_affinity import AntiAffinity
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import Room
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    affinity,
    anti_affinity,
    domain,
    fleet,
    host,
    hosts,
    hosts_in,
    requirements,
    spec,
)


@dataclass(frozen=True)
class Case:
    """The allowed hosts of hosts 1, 2, 3...; the counted reasons of the others; sentences for some of them."""

    constraint: Constraint
    spec: RequestSpec
    fleet: Fleet
    allowed: set[int]
    reasons: list[str] = field(default_factory=list)
    sentences: dict[int, str] = field(default_factory=dict)


THREE = fleet(*hosts(3))
OFF = fleet(host(1), host(2, enabled=False), host(3, enabled=False))
DOWN = fleet(host(1, up=False), host(2), host(3))
ZONES = fleet(host(1, zone="az-1"), host(2), host(3, zone="az-2"))
A, B = frozenset({"A"}), frozenset({"B"})
TRAITS = fleet(host(1), host(2, traits=A), host(3, traits=B), host(4, traits=A | B))
LICENSED = fleet(*hosts(4), domain(1, 1, 2, scope=None, traits=A), domain(2, 2, 3, traits=A | B), domain(3, 4))
RESERVED = fleet(
    *hosts(4), domain(1, 1, 2, scope=None, projects=frozenset({"web"})), domain(2, 2, 3, projects={"shop"})
)
RACKS = fleet(*hosts(6), domain(1, 1, 2), domain(2, 3, 4), domain(3, 5))
AMBIGUOUS = fleet(*hosts(3), domain(1, 1, 3), domain(2, 2, 3))
NO_ROOM = fleet(
    host(1),
    host(2, used=(8, 0, 0)),
    host(3, used=(0, 8000, 0)),
    host(4, used=(0, 0, 200)),
    host(5, used=(9, 9000, 0)),
)
LACKING = "in an aggregate that requires traits the request does not ask for"

CASES = {
    "hosts that are enabled": Case(
        Enabled(), spec(), OFF, {1}, ["2 are disabled"], {2: "it is disabled", 3: "it is disabled"}
    ),
    "hosts that are up": Case(Up(), spec(), DOWN, {2, 3}, ["1 is down"], {1: "it is down"}),
    "requested hosts": Case(
        NamedHosts(),
        requirements(only_hosts=frozenset({1, 99})),
        THREE,
        {1},
        ["2 are not the ones asked for"],
        {2: "the request asks for another host"},
    ),
    "one host that is not requested": Case(
        NamedHosts(), requirements(only_hosts=frozenset({1, 2})), THREE, {1, 2}, ["1 is not the one asked for"]
    ),
    "hosts that are not excluded": Case(
        NamedHosts(),
        requirements(ignored_hosts=frozenset({1, 2})),
        THREE,
        {3},
        ["2 are excluded by the request"],
        {1: "the request excludes it"},
    ),
    "a requested and excluded host is excluded": Case(
        NamedHosts(),
        requirements(only_hosts=frozenset({1, 2}), ignored_hosts=frozenset({2})),
        THREE,
        {1},
        ["1 is excluded by the request", "1 is not the one asked for"],
        {2: "the request excludes it", 3: "the request asks for another host"},
    ),
    "hosts of the zone": Case(
        Zone(),
        requirements(zone="az-1"),
        ZONES,
        {1},
        ["2 are not in zone az-1"],
        {2: "it is in zone nova, not az-1", 3: "it is in zone az-2, not az-1"},
    ),
    "hosts without a zone are in the default zone": Case(Zone(), requirements(zone="nova"), ZONES, {2}),
    "no host is in an unknown zone": Case(
        Zone(), requirements(zone="az-9"), fleet(host(1)), set(), ["1 is not in zone az-9"]
    ),
    "hosts with the required traits": Case(
        Traits(),
        requirements(required_traits=A),
        TRAITS,
        {2, 4},
        ["2 lack a required trait"],
        {1: "it lacks the required trait A"},
    ),
    "hosts with all required traits": Case(
        Traits(),
        requirements(required_traits=A | B),
        TRAITS,
        {4},
        ["3 lack a required trait"],
        {1: "it lacks the required trait A, B", 2: "it lacks the required trait B"},
    ),
    "hosts without the forbidden traits": Case(
        Traits(),
        requirements(required_traits=A, forbidden_traits=B),
        TRAITS,
        {2},
        ["2 lack a required trait", "1 has a forbidden trait"],
        {4: "it has the forbidden trait B"},
    ),
    "two hosts with a forbidden trait": Case(
        Traits(), requirements(forbidden_traits=B), TRAITS, {1, 2}, ["2 have a forbidden trait"]
    ),
    "hosts reserved for the project or for several projects": Case(
        TenantIsolation(),
        requirements(project_id="web"),
        RESERVED,
        {1, 2, 4},
        ["1 is reserved for other projects"],
        {3: "an aggregate reserves it for other projects"},
    ),
    "hosts reserved for other projects": Case(
        TenantIsolation(), requirements(project_id="bank"), RESERVED, {4}, ["3 are reserved for other projects"]
    ),
    "hosts in no aggregate that requires an unrequested trait": Case(
        ForbiddenAggregates(),
        requirements(required_traits=A),
        LICENSED,
        {1, 4},
        [f"2 are {LACKING}"],
        {3: f"it is {LACKING}"},
    ),
    "hosts of an aggregate that requires the trait of a granular group": Case(
        ForbiddenAggregates(), requirements(granular_traits=A), LICENSED, {1, 4}, [f"2 are {LACKING}"]
    ),
    "hosts in no aggregate that requires a trait": Case(
        ForbiddenAggregates(), requirements(), LICENSED, {4}, [f"3 are {LACKING}"]
    ),
    "hosts with free capacity": Case(
        Room(),
        spec(),
        NO_ROOM,
        {1},
        ["2 lack VCPUs", "1 lacks memory", "1 lacks disk"],
        {
            2: "0 VCPUs are free, 1 requested",
            3: "192 MB of memory are free, 1024 requested",
            4: "0 GB of disk are free, 10 requested",
            5: "0 VCPUs are free, 1 requested; 0 MB of memory are free, 1024 requested",
        },
    ),
    "a server without a disk fits on an overcommitted disk": Case(
        Room(), spec(vcpus=9, disk_gb=0), fleet(host(1, (9, 8192, 100), (0, 0, 200)), *hosts(3)[1:]), {1}
    ),
    "an overcommitted disk is no reason for a server without a disk": Case(
        Room(),
        spec(disk_gb=0),
        fleet(host(1), host(2, used=(8, 0, 200))),
        {1},
        ["1 lacks VCPUs"],
        {2: "0 VCPUs are free, 1 requested"},
    ),
    "hosts that allow this allocation size": Case(
        Room(),
        spec(vcpus=3, disk_gb=0),
        fleet(
            host(1, units=(AllocationUnits(3, 6, 3), NO_UNIT_LIMITS, AllocationUnits(50))),
            host(2, units=(AllocationUnits(max_unit=2), NO_UNIT_LIMITS, NO_UNIT_LIMITS)),
            host(3, units=(AllocationUnits(step_size=2), AllocationUnits(min_unit=2048), NO_UNIT_LIMITS)),
            host(4, used=(6, 0, 0), units=(AllocationUnits(min_unit=4), NO_UNIT_LIMITS, NO_UNIT_LIMITS)),
        ),
        {1},
        ["1 lacks VCPUs", "2 do not allow this allocation size"],
        {
            2: "VCPUs are allocated from 1 to 2 in steps of 1, 3 requested",
            4: "2 VCPUs are free, 3 requested; VCPUs are allocated from 4 to 2147483647 in steps of 1, 3 requested",
        },
    ),
    "a request for the whole capacity": Case(Room(), spec(vcpus=8, memory_mb=8192, disk_gb=100), fleet(host(1)), {1}),
    "anti-affinity by host": Case(
        GroupPolicies(),
        spec(anti_affinity(), members_by_host={1: 1, 99: 5}),
        THREE,
        {2, 3},
        ["1 already holds 1 of the group"],
        {1: "the host n1 holds 1 of the group; the limit is 1"},
    ),
    "anti-affinity with a limit of three": Case(
        GroupPolicies(),
        spec(anti_affinity(limit=3), members_by_host={1: 3, 2: 4, 3: 2}),
        THREE,
        {3},
        ["1 already holds 3 of the group", "1 already holds 4 of the group"],
        {2: "the host n2 holds 4 of the group; the limit is 3"},
    ),
    "anti-affinity by rack": Case(
        GroupPolicies(),
        spec(anti_affinity(RACK), members_by_host={1: 1, 5: 1}),
        RACKS,
        {3, 4},
        ["1 is in no rack", "3 already hold 1 of the group in their rack"],
        {2: "the rack 1 holds 1 of the group; the limit is 1", 6: "it is in no rack"},
    ),
    "anti-affinity by rack with a limit of two": Case(
        GroupPolicies(),
        spec(anti_affinity(RACK, limit=2), members_by_host={1: 1, 2: 1, 3: 1, 5: 2}),
        fleet(*hosts(6), domain(2, 3, 4), domain(3, 5)),
        {3, 4},
        ["3 are in no rack", "1 already holds 2 of the group in its rack"],
    ),
    "avoided rack, or no rack": Case(
        GroupPolicies(),
        spec(anti_affinity(RACK, "2"), members_by_host={1: 4}),
        RACKS,
        {1, 2, 5, 6},
        ["2 are in the rack that the group avoids"],
        {3: "the group avoids the rack 2"},
    ),
    "avoided host": Case(
        GroupPolicies(),
        spec(anti_affinity(target="n2")),
        THREE,
        {1, 3},
        ["1 is in the host that the group avoids"],
        {2: "the group avoids the host n2"},
    ),
    "avoided rack that does not exist": Case(
        GroupPolicies(), spec(anti_affinity(RACK, "99")), RACKS, {1, 2, 3, 4, 5, 6}
    ),
    "two anti-affinity policies count each rejected host once": Case(
        GroupPolicies(),
        spec(anti_affinity(), anti_affinity(RACK, limit=2), members_by_host={1: 1, 3: 1, 4: 1}),
        RACKS,
        {2, 5},
        ["3 already hold 1 of the group", "1 is in no rack"],
        {3: "the host n3 holds 1 of the group; the limit is 1", 6: "it is in no rack"},
    ),
    "anti-affinity counts what each host holds, whatever the limit": Case(
        GroupPolicies(),
        spec(anti_affinity(), members_by_host={1: 3, 2: 1}),
        THREE,
        {3},
        ["1 already holds 1 of the group", "1 already holds 3 of the group"],
        {1: "the host n1 holds 3 of the group; the limit is 1"},
    ),
    "affinity allows the first member in any rack": Case(
        GroupPolicies(), spec(affinity(RACK)), RACKS, {1, 2, 3, 4, 5}, ["1 is in no rack"], {6: "it is in no rack"}
    ),
    "affinity is unsatisfiable while a member is in no rack": Case(
        GroupPolicies(),
        spec(affinity(RACK), members_by_host={6: 1, 3: 1}),
        RACKS,
        set(),
        ["1 is in no rack", "5 are excluded because 1 member of the group is in no rack"],
        {3: "1 member of the group is in no rack", 6: "it is in no rack"},
    ),
    "affinity is unsatisfiable while all members are in no rack": Case(
        GroupPolicies(),
        spec(affinity(RACK), members_by_host={6: 2}),
        RACKS,
        set(),
        ["1 is in no rack", "5 are excluded because 2 members of the group are in no rack"],
        {1: "2 members of the group are in no rack"},
    ),
    "affinity ignores members on unknown hosts": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={99: 1}), RACKS, {1, 2, 3, 4, 5}
    ),
    "a member in no rack may move to the rack of the others": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={6: 1, 3: 1}, source_host=6), RACKS, {3, 4}
    ),
    "the first of the members in no rack may move to any rack": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={6: 1}, source_host=6), RACKS, {1, 2, 3, 4, 5}
    ),
    "a member in a rack stays there while another is in no rack": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={6: 1}, source_host=1), RACKS, set()
    ),
    "affinity counts a member on a host in two racks in both": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={3: 1}), AMBIGUOUS, {1, 2}
    ),
    "anti-affinity counts a member on a host in two racks in both": Case(
        GroupPolicies(), spec(anti_affinity(RACK), members_by_host={3: 1}), AMBIGUOUS, set()
    ),
    "affinity while a member moves from a host in two racks to one of them": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={3: 1, 1: 1}, migrating=((3, 1),)), AMBIGUOUS, {1}
    ),
    "affinity requires the rack of the group": Case(
        GroupPolicies(),
        spec(affinity(RACK), members_by_host={3: 1}),
        RACKS,
        {3, 4},
        ["1 is in no rack", "3 are not in the rack of the group"],
        {1: "the group is in the rack 2", 6: "it is in no rack"},
    ),
    "affinity requires one of the racks of the group": Case(
        GroupPolicies(),
        spec(affinity(RACK), members_by_host={1: 1, 3: 1}),
        RACKS,
        {1, 2, 3, 4},
        ["1 is in no rack", "1 is not in the rack of the group"],
        {5: "the group is in the rack 1, 2"},
    ),
    "affinity requires the host of the group": Case(
        GroupPolicies(),
        spec(affinity(), members_by_host={2: 1}),
        THREE,
        {2},
        ["2 are not the group's host"],
        {1: "the group is in the host n2"},
    ),
    "affinity rejects the only other host": Case(
        GroupPolicies(), spec(affinity(), members_by_host={2: 1}), fleet(*hosts(2)), {2}, ["1 is not the group's host"]
    ),
    "affinity while the only member moves to another rack": Case(
        GroupPolicies(),
        spec(affinity(RACK), members_by_host={1: 1, 3: 1}, migrating=((1, 3),)),
        RACKS,
        set(),
        [
            "1 is in no rack",
            "1 is not in the rack of the group",
            "4 are in a rack that holds only members of the group that are moving",
        ],
        {1: "the rack 1 holds only members of the group that are moving", 5: "the group is in the rack 1, 2"},
    ),
    "affinity while the only member moves within its rack": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={1: 1, 2: 1}, migrating=((1, 2),)), RACKS, {1, 2}
    ),
    "affinity while the only member moves out of no rack": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={6: 1, 3: 1}, migrating=((6, 3),)), RACKS, set()
    ),
    "affinity while one of two members moves": Case(
        GroupPolicies(), spec(affinity(RACK), members_by_host={1: 2, 3: 1}, migrating=((1, 3),)), RACKS, {1, 2}
    ),
    "affinity while two members swap hosts": Case(
        GroupPolicies(), spec(affinity(), members_by_host={1: 2, 2: 2}, migrating=((1, 2), (2, 1))), THREE, set()
    ),
    "affinity by host while the only member moves": Case(
        GroupPolicies(),
        spec(affinity(), members_by_host={1: 1, 2: 1}, migrating=((2, 1),)),
        THREE,
        set(),
        ["1 is not the group's host", "2 hold only members of the group that are moving"],
        {2: "the host n2 holds only members of the group that are moving"},
    ),
    "required rack": Case(
        GroupPolicies(),
        spec(affinity(RACK, "2"), members_by_host={1: 1}),
        RACKS,
        {3, 4},
        ["1 is in no rack", "3 are outside the rack that the group requires"],
        {1: "the group requires the rack 2", 6: "it is in no rack"},
    ),
    "required host": Case(
        GroupPolicies(),
        spec(affinity(target="n1")),
        fleet(*hosts(2)),
        {1},
        ["1 is outside the host that the group requires"],
    ),
    "anti-affinity rejects a host in two racks": Case(GroupPolicies(), spec(anti_affinity(RACK)), AMBIGUOUS, {1, 2}),
    "affinity rejects a host in two racks": Case(GroupPolicies(), spec(affinity(RACK)), AMBIGUOUS, {1, 2}),
    "a host in two racks is not in the required rack": Case(GroupPolicies(), spec(affinity(RACK, "1")), AMBIGUOUS, {1}),
    "a host in two racks is not outside the avoided rack": Case(
        GroupPolicies(), spec(anti_affinity(RACK, "1")), AMBIGUOUS, {2}
    ),
    "a host in two racks is allowed by other scopes": Case(
        GroupPolicies(),
        spec(anti_affinity()),
        fleet(*hosts(3), domain(1, 1, 3), domain(2, 2, 3), domain(7, 1, scope=SWITCH)),
        {1, 2, 3},
    ),
}


COUNTED = {name: case for name, case in CASES.items() if case.reasons}
EXPLAINED = {name: case for name, case in CASES.items() if case.sentences}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_constraint_allows_exactly_the_expected_hosts(case: Case) -> None:
    column = case.constraint.allows(case.spec, case.fleet)
    assert column is not None
    assert hosts_in(case.fleet, column) == case.allowed
    assert hosts_in(case.fleet, allowed_hosts(case.spec, case.fleet)) <= case.allowed


@pytest.mark.parametrize("case", COUNTED.values(), ids=COUNTED)
def test_rejected_hosts_are_counted_by_reason(case: Case) -> None:
    rejected = ~case.fleet.mask_of(map(HostId, case.allowed))
    reasons = [reason for reason in case.constraint.reasons(case.spec, case.fleet, rejected) if reason.count]
    assert [str(reason) for reason in reasons] == case.reasons
    assert np.array_equal(sum(reason.rejected.astype(int) for reason in reasons), rejected)


@pytest.mark.parametrize("case", EXPLAINED.values(), ids=EXPLAINED)
def test_rejected_host_has_its_reason(case: Case) -> None:
    rows = np.array([number - 1 for number in case.sentences], dtype=np.intp)
    found = case.constraint.explain_hosts(case.spec, case.fleet, rows)
    sentences = {row + 1: sentence for same, sentence in found for row in same.tolist()}
    assert sentences == case.sentences


def test_reasons_of_many_hosts_look_at_each_policy_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, mask = [], AntiAffinity.mask

    def count(*given: Any) -> Mask:
        looks.append(given)
        return mask(*given)

    monkeypatch.setattr(AntiAffinity, "mask", count)
    racks = [domain(1000 + n, *range(10 * n + 1, 10 * n + 11)) for n in range(30)]
    found = host_reasons(
        spec(anti_affinity(RACK), members_by_host=dict.fromkeys(range(1, 301, 10), 1)), fleet(*hosts(300), *racks)
    )
    assert found["n300"] == "the rack 1029 holds 1 of the group; the limit is 1"
    assert len(set(found.values())) == 30
    assert len(looks) == 2


@pytest.mark.parametrize("case", COUNTED.values(), ids=COUNTED)
def test_reasons_count_only_rejected_hosts(case: Case) -> None:
    none_lost = np.zeros(len(case.fleet), dtype=np.bool_)
    assert all(reason.count == 0 for reason in case.constraint.reasons(case.spec, case.fleet, none_lost))


@pytest.mark.parametrize("constraint", [*STATIC, *DYNAMIC])
def test_plain_request_is_admitted_by_every_constraint(constraint: Constraint) -> None:
    column = constraint.allows(spec(), THREE)
    assert column is None or column.all()


@pytest.mark.parametrize("policy", [anti_affinity(RACK), affinity(RACK), anti_affinity(RACK, "1")], ids=str)
def test_host_in_two_racks_is_not_reported_as_being_in_no_rack(policy: GroupPolicy) -> None:
    assert "no rack" not in explain(spec(policy), AMBIGUOUS).sentence()
    assert "no rack" not in (host_reasons(spec(policy), AMBIGUOUS)["n3"] or "")
