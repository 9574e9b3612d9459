"""The columns: who is where, and what room is left."""

import numpy as np
import pytest

from covey.model.ids import HostId
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Weights, counts_by_domain
from tests.unit.scheduler.fleets import RACK, SWITCH, domain, fleet, host, hosts

RACKS = fleet(*hosts(5), domain(11, 1, 2, 99), domain(12, 3), domain(13, 1, 4, scope=SWITCH), domain(14, 5, scope=None))


def names_of(number: int, among: Fleet = RACKS) -> str | None:
    domains = among.domains(RACK.id)
    found = int(domains.of_host[among.row_of[HostId(number)]])
    return None if found == NO_DOMAIN else domains.names[found]


def test_a_domain_is_an_aggregate_of_the_scope() -> None:
    assert [names_of(number) for number in range(1, 6)] == ["11", "11", "12", None, None]


def test_every_host_is_its_own_domain_of_the_host_scope() -> None:
    domains = RACKS.domains(None)
    assert domains.names == ("n1", "n2", "n3", "n4", "n5")
    assert domains.of_host.tolist() == [0, 1, 2, 3, 4]


def test_a_host_in_two_or_three_domains_is_in_none() -> None:
    ambiguous = fleet(*hosts(3), domain(1, 1, 2), domain(2, 2, 3), domain(3, 2))
    assert [names_of(number, ambiguous) for number in (1, 2, 3)] == ["1", None, "2"]


def test_scope_without_hosts_has_no_domains() -> None:
    assert fleet(*hosts(2)).domains(RACK.id).of_host.tolist() == [NO_DOMAIN, NO_DOMAIN]


def test_members_are_counted_by_domain_and_strangers_nowhere() -> None:
    counts = counts_by_domain(RACKS.domains(RACK.id), RACKS, {1: 2, 2: 1, 5: 4, 99: 7})
    assert counts.tolist()[:NO_DOMAIN] == [3, 0]
    assert counts_by_domain(RACKS.domains(RACK.id), RACKS, {99: 7}).tolist() == [0, 0, 0]
    assert counts_by_domain(RACKS.domains(None), RACKS, {}).tolist() == [0] * 6


def test_hosts_of_no_zone_are_in_the_default_one() -> None:
    assert fleet(host(1), host(2, zone="az-1")).zones == {"nova", "az-1"}
    assert fleet().zones == frozenset()


WEIGHS = {
    "free room as a share of the largest": (Weights(), [3.0, 1.5]),
    "what the operator likes": (Weights(2.0, 0.0, 0.0), [2.0, 1.0]),
    "what the operator does not like": (Weights(0.0, -1.0, 0.0), [-1.0, -0.25]),
}


@pytest.mark.parametrize(("weights", "weighs"), WEIGHS.values(), ids=WEIGHS)
def test_weight(weights: Weights, weighs: list[float]) -> None:
    among = fleet(host(1, (8, 64, 100)), host(2, (4, 32, 100), (0, 16, 25)), weights=weights)
    assert among.weight.tolist() == weighs


def test_resource_without_capacity_weighs_nothing() -> None:
    assert fleet(host(1, (8, 64, 0)), host(2, (8, 64, 0))).weight.tolist() == [2.0, 2.0]
    assert fleet().weight.tolist() == []


def test_hosts_that_are_equal_weigh_the_same_to_the_last_bit_whatever_happened_before() -> None:
    """Else luck would not choose between them."""
    among = fleet(*(host(n, (3, 7, 11)) for n in range(1, 40)))
    for row in range(0, 39, 2):
        among.take(row, (1, 2, 3))
    among.take_many(np.arange(1, 39, 2), np.tile(np.array([[1], [2], [3]]), 19))
    assert len(set(among.weight.tolist())) == 1
    assert among.weight_after((1, 1, 1))(0, 1) == fleet(*(host(n, (3, 7, 11), (2, 3, 4)) for n in (1, 2))).weight[0]


def test_room_is_taken_and_given_back() -> None:
    among = fleet(*hosts(3))
    among.take(0, (1, 1024, 10))
    among.take_for([HostId(2), HostId(2), HostId(3)], (2, 2048, 20))
    among.take_for([], (9, 9, 9))
    assert among.free.T.tolist() == [[7, 7168, 90], [4, 4096, 60], [6, 6144, 80]]
    among.take(0, (-1, -1024, -10))
    among.take_many(np.array([1, 2, 1]), np.array([[-2] * 3, [-2048] * 3, [-20] * 3]))
    assert among.free.T.tolist() == [[8, 8192, 100]] * 3
    assert among.weight.tolist() == [3.0] * 3


def test_more_than_there_is_leaves_less_than_nothing() -> None:
    among = fleet(host(1, used=(10, 0, 0)))
    assert among.free[0].tolist() == [-2]


def test_copy_changes_independently() -> None:
    among = fleet(*hosts(2))
    other = among.copy()
    other.take(0, (1, 1, 1))
    among.take(1, (2, 2, 2))
    assert among.free[0].tolist() == [8, 6]
    assert other.free[0].tolist() == [7, 8]


def test_rows_and_masks_leave_strangers_out() -> None:
    assert RACKS.rows([HostId(3), HostId(99), HostId(1)]).tolist() == [2, 0]
    assert RACKS.mask_of([HostId(3), HostId(99)]).tolist() == [False, False, True, False, False]
