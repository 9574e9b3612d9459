"""The smallest change that would let a refused server fit."""

import pytest

from covey.model.ids import HostId, ProjectId
from covey.scheduler.remedies import remedies
from covey.scheduler.request_spec import RequestSpec
from tests.plain_fleets import PlainAggregate, PlainHost
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    affinity,
    anti_affinity,
    domain,
    fleet,
    host,
    requirements,
    soft_anti_affinity,
    spec,
)

FULL = (0, 6144, 0)  # used: 2 GB are left


def remedy_texts(requested: RequestSpec, *parts: PlainHost | PlainAggregate) -> list[str]:
    return [remedy.words for remedy in remedies(requested, fleet(*parts))]


RACKS = (host(1), host(2), host(3), domain(7, 1, 2), domain(8, 3))


@pytest.mark.parametrize(
    ("requested", "parts", "words"),
    [
        (spec(memory_mb=4096), [host(1, used=FULL)], ["with 2 GB less memory"]),
        (spec(memory_mb=2148), [host(1, used=FULL)], ["with 100 MB less memory"]),
        (spec(vcpus=9), [host(1)], ["with 1 VCPU less"]),
        (spec(vcpus=10, disk_gb=101), [host(1)], []),  # no single change is enough
        (spec(vcpus=16), [host(1), host(2, (12, 8192, 100))], ["with 4 VCPUs less"]),
        (spec(disk_gb=101), [host(1)], ["with 1 GB less disk"]),
        (spec(anti_affinity(RACK), members_by_host={1: 1, 3: 2}), RACKS, ["if 1 more were allowed in one rack"]),
        (
            spec(anti_affinity(), members_by_host={1: 2, 2: 3}),
            [host(1), host(2)],
            ["if 2 more were allowed on one host"],
        ),
        (spec(anti_affinity(RACK, "7")), [host(1), domain(7, 1)], ["if the group did not avoid that rack"]),
        (
            spec(affinity(SWITCH), members_by_host={1: 1}),
            [host(1, enabled=False), host(2), domain(9, 1, scope=SWITCH), domain(10, 2, scope=SWITCH)],
            ["if the group did not have to be behind one switch", "if n1 were enabled"],
        ),
        (spec(soft_anti_affinity(), members_by_host={1: 1}, vcpus=9), [host(1)], ["with 1 VCPU less"]),
        (requirements(zone="a"), [host(1, zone="b")], ["in any zone"]),
        (
            requirements(only_hosts=frozenset({HostId(2)})),
            [host(1), host(2, up=False)],
            ["on any host, not only the requested ones", "if n2 were up"],
        ),
        (
            requirements(ignored_hosts=frozenset({HostId(1)})),
            [host(1)],
            ["if the hosts that the request excludes were allowed"],
        ),
        (requirements(required_traits=frozenset({"T"})), [host(1)], ["if the trait T were not required"]),
        (
            requirements(forbidden_traits=frozenset({"T"})),
            [host(1, traits=frozenset({"T"}))],
            ["if the trait T were not forbidden"],
        ),
        (spec(), [host(n, enabled=False) for n in range(1, 6)], ["if one of n1, n2, n3 or 2 more were enabled"]),
        (
            requirements(project_id=ProjectId("web")),
            [host(1), domain(7, 1, scope=None, projects=frozenset({ProjectId("db")}))],
            ["if hosts reserved for other projects were open to it"],
        ),
        (
            requirements(),
            [host(1, traits=frozenset({"T"})), domain(7, 1, scope=None, traits=frozenset({"T"}))],
            ["if it required the trait T"],
        ),
        (
            requirements(granular_traits=frozenset({"S"})),
            [host(1, traits=frozenset({"T"})), domain(7, 1, scope=None, traits=frozenset({"S", "T"}))],
            ["if it required the trait T"],
        ),
    ],
)
def test_remedy_is_one_single_change(
    requested: RequestSpec, parts: list[PlainHost | PlainAggregate], words: list[str]
) -> None:
    assert remedy_texts(requested, *parts) == words


def test_smallest_change_comes_first() -> None:
    hosts = [host(1, (4, 8192, 100)), host(2, (8, 7168, 100))]
    assert remedy_texts(spec(vcpus=8, memory_mb=8192), *hosts) == ["with 1 GB less memory", "with 4 VCPUs less"]


def test_remedy_that_needs_an_operator_is_marked() -> None:
    parts = host(1, enabled=False), host(2, zone="b")
    suggested = remedies(requirements(zone="nova"), fleet(*parts))
    assert [(remedy.words, remedy.for_operators) for remedy in suggested] == [
        ("in any zone", False),
        ("if n1 were enabled", True),
    ]


def test_forced_request_has_only_remedies_of_size() -> None:
    forced = spec(vcpus=9, requirements=requirements(only_hosts=frozenset({HostId(1)})).requirements, forced=True)
    assert remedy_texts(forced, host(1), host(2, (16, 8192, 100))) == ["with 1 VCPU less"]


def test_remedies_leave_the_fleet_unchanged() -> None:
    unchanged = fleet(host(1, enabled=False))
    before = unchanged.free.copy()
    remedies(spec(), unchanged)
    assert (unchanged.free == before).all()
    assert not unchanged.hosts[0].enabled
