"""The smallest change that would let a refused server fit."""

import pytest

from covey.model.ids import HostId, ProjectId
from covey.scheduler.fleet import AggregateRecord, HostRecord
from covey.scheduler.remedies import remedies
from covey.scheduler.request_spec import RequestSpec
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    apart,
    domain,
    fleet,
    host,
    rather_apart,
    requirements,
    spec,
    together,
)

FULL = (0, 6144, 0)  # used: 2 GB are left


def told(question: RequestSpec, *parts: HostRecord | AggregateRecord) -> list[str]:
    return [remedy.words for remedy in remedies(question, fleet(*parts))]


RACKS = (host(1), host(2), host(3), domain(7, 1, 2), domain(8, 3))


@pytest.mark.parametrize(
    ("question", "parts", "words"),
    [
        (spec(memory_mb=4096), [host(1, used=FULL)], ["with 2 GB less memory"]),
        (spec(memory_mb=2148), [host(1, used=FULL)], ["with 100 MB less memory"]),
        (spec(vcpus=9), [host(1)], ["with 1 VCPU less"]),
        (spec(vcpus=10, disk_gb=101), [host(1)], []),  # no single change is enough
        (spec(vcpus=16), [host(1), host(2, (12, 8192, 100))], ["with 4 VCPUs less"]),
        (spec(disk_gb=101), [host(1)], ["with 1 GB less disk"]),
        (spec(apart(RACK), places={1: 1, 3: 2}), RACKS, ["if 1 more were allowed in one rack"]),
        (spec(apart(), places={1: 2, 2: 3}), [host(1), host(2)], ["if 2 more were allowed on one host"]),
        (spec(apart(RACK, "7")), [host(1), domain(7, 1)], ["if the group did not avoid that rack"]),
        (
            spec(together(SWITCH), places={1: 1}),
            [host(1, enabled=False), host(2), domain(9, 1, scope=SWITCH), domain(10, 2, scope=SWITCH)],
            ["if the group did not have to be behind one switch", "if n1 were enabled"],
        ),
        (spec(rather_apart(), places={1: 1}, vcpus=9), [host(1)], ["with 1 VCPU less"]),
        (requirements(zone="a"), [host(1, zone="b")], ["in any zone"]),
        (
            requirements(only_hosts=frozenset({HostId(2)})),
            [host(1), host(2, up=False)],
            ["on any host, not only the requested ones", "if n2 were up"],
        ),
        (
            requirements(other_hosts=frozenset({HostId(1)})),
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
    ],
)
def test_one_change_at_a_time(
    question: RequestSpec, parts: list[HostRecord | AggregateRecord], words: list[str]
) -> None:
    assert told(question, *parts) == words


def test_what_is_nearest_to_the_wish_comes_first() -> None:
    room = [host(1, (4, 8192, 100)), host(2, (8, 7168, 100))]
    assert told(spec(vcpus=8, memory_mb=8192), *room) == ["with 1 GB less memory", "with 4 VCPUs less"]


def test_what_only_operators_can_do_is_for_them() -> None:
    parts = host(1, enabled=False), host(2, zone="b")
    found = remedies(requirements(zone="nova"), fleet(*parts))
    assert [(remedy.words, remedy.for_operators) for remedy in found] == [
        ("in any zone", False),
        ("if n1 were enabled", True),
    ]


def test_a_forced_host_needs_room_and_nothing_else() -> None:
    forced = spec(vcpus=9, requirements=requirements(only_hosts=frozenset({HostId(1)})).requirements, forced=True)
    assert told(forced, host(1), host(2, (16, 8192, 100))) == ["with 1 VCPU less"]


def test_remedies_change_neither_room_nor_hosts() -> None:
    there = fleet(host(1, enabled=False))
    before = there.free.copy()
    remedies(spec(), there)
    assert (there.free == before).all()
    assert not there.hosts[0].enabled
