"""The columns of a fleet: domains, members, free capacity and weights."""

import pytest

from covey.model.ids import HostId
from covey.model.resources import server_resources
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Weights, counts_by_domain
from tests.unit.scheduler.fleets import RACK, SWITCH, domain, fleet, host, hosts

RACKS = fleet(*hosts(5), domain(11, 1, 2, 99), domain(12, 3), domain(13, 1, 4, scope=SWITCH), domain(14, 5, scope=None))


def domain_name(number: int, example: Fleet = RACKS) -> str | None:
    domains = example.domains(RACK.id)
    found = int(domains.of_host[example.row_of[HostId(number)]])
    return None if found == NO_DOMAIN else domains.names[found]


def test_domain_is_an_aggregate_of_the_scope() -> None:
    assert [domain_name(number) for number in range(1, 6)] == ["11", "11", "12", None, None]


def test_every_host_is_its_own_domain_of_the_host_scope() -> None:
    domains = RACKS.domains(None)
    assert tuple(domains.names) == ("n1", "n2", "n3", "n4", "n5")
    assert domains.of_host.tolist() == [0, 1, 2, 3, 4]


def test_host_in_several_domains_is_in_none() -> None:
    ambiguous = fleet(*hosts(3), domain(1, 1, 2), domain(2, 2, 3), domain(3, 2))
    assert [domain_name(number, ambiguous) for number in (1, 2, 3)] == ["1", None, "2"]


def test_scope_without_hosts_has_no_domains() -> None:
    assert fleet(*hosts(2)).domains(RACK.id).of_host.tolist() == [NO_DOMAIN, NO_DOMAIN]


def test_members_are_counted_by_domain_without_unknown_hosts() -> None:
    counts = counts_by_domain(RACKS.domains(RACK.id), RACKS, {1: 2, 2: 1, 5: 4, 99: 7})
    assert counts.tolist()[:NO_DOMAIN] == [3, 0]
    assert counts_by_domain(RACKS.domains(RACK.id), RACKS, {99: 7}).tolist() == [0, 0, 0]
    assert counts_by_domain(RACKS.domains(None), RACKS, {}).tolist() == [0] * 6


def test_host_without_a_zone_is_in_the_default_zone() -> None:
    assert fleet(host(1), host(2, zone="az-1")).zones == {"nova", "az-1"}
    assert fleet().zones == frozenset()


WEIGHS = {
    "free capacity as a share of the largest host": (Weights(), [3.0, 1.5]),
    "positive weight": (Weights(2.0, 0.0, 0.0), [2.0, 1.0]),
    "negative weight": (Weights(0.0, -1.0, 0.0), [-1.0, -0.25]),
}


@pytest.mark.parametrize(("weights", "expected"), WEIGHS.values(), ids=WEIGHS)
def test_weight_follows_the_multipliers(weights: Weights, expected: list[float]) -> None:
    example = fleet(host(1, (8, 64, 100)), host(2, (4, 32, 100), (0, 16, 25)), weights=weights)
    assert example.weight.tolist() == expected


def test_resource_without_capacity_has_no_weight() -> None:
    assert fleet(host(1, (8, 64, 0)), host(2, (8, 64, 0))).weight.tolist() == [2.0, 2.0]
    assert fleet().weight.tolist() == []


def test_equal_hosts_have_exactly_equal_weights_whatever_their_history() -> None:
    """Otherwise, tie keys would not decide between them."""
    example = fleet(*(host(n, (3, 7, 11)) for n in range(1, 40)))
    for row in range(0, 39, 2):
        example.take(row, server_resources(1, 2, 3))
    example.take_all((row + 1, server_resources(1, 2, 3)) for row in range(1, 39, 2))
    assert len(set(example.weight.tolist())) == 1
    assert (
        example.weight_after(server_resources(1, 1, 1))(0, 1)
        == fleet(*(host(n, (3, 7, 11), (2, 3, 4)) for n in (1, 2))).weight[0]
    )


def test_amounts_are_taken_and_returned() -> None:
    example = fleet(*hosts(3))
    example.take(0, server_resources(1, 1024, 10))
    example.take_for([HostId(2), HostId(2), HostId(3)], server_resources(2, 2048, 20))
    example.take_for([], server_resources(9, 9, 9))
    assert example.free.T.tolist() == [[7, 7168, 90], [4, 4096, 60], [6, 6144, 80]]
    example.take(0, server_resources(-1, -1024, -10))
    example.take_all((host, server_resources(-2, -2048, -20)) for host in (2, 3, 2, 99))
    assert example.free.T.tolist() == [[8, 8192, 100]] * 3
    assert example.weight.tolist() == [3.0] * 3


def test_free_capacity_of_an_overcommitted_host_is_negative() -> None:
    example = fleet(host(1, used=(10, 0, 0)))
    assert example.free[0].tolist() == [-2]


def test_copy_changes_independently() -> None:
    example = fleet(*hosts(2))
    other = example.copy()
    other.take(0, server_resources(1, 1, 1))
    example.take(1, server_resources(2, 2, 2))
    assert example.free[0].tolist() == [8, 6]
    assert other.free[0].tolist() == [7, 8]


def test_rows_and_masks_ignore_unknown_hosts() -> None:
    assert RACKS.rows([HostId(3), HostId(99), HostId(1)]).tolist() == [2, 0]
    assert RACKS.mask_of([HostId(3), HostId(99)]).tolist() == [False, False, True, False, False]
