"""Tie keys: uniform over seeds, repeatable, and independent of other hosts."""

from collections import Counter

import numpy as np
import pytest

from covey.scheduler.decide import decide
from covey.scheduler.tie_breaking import hash_ids
from tests.unit.scheduler.fleets import fleet, host, hosts, spec

IDS = np.arange(1, 101, dtype=np.int64)


def test_equal_seeds_give_equal_keys_and_different_seeds_do_not() -> None:
    assert np.array_equal(hash_ids(IDS, 5), hash_ids(IDS, 5))
    assert not np.array_equal(hash_ids(IDS, 5), hash_ids(IDS, 6))


def test_no_two_hosts_share_a_key() -> None:
    assert len(set(hash_ids(IDS, 5).tolist())) == IDS.size


def test_key_of_a_host_depends_on_no_other_host() -> None:
    assert np.array_equal(hash_ids(IDS[::-1], 5)[::-1], hash_ids(IDS, 5))
    assert np.array_equal(hash_ids(IDS[10:20], 5), hash_ids(IDS, 5)[10:20])


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 + 5, -1])
def test_any_number_is_a_seed(seed: int) -> None:
    assert hash_ids(IDS, seed).dtype == np.uint64
    assert np.array_equal(hash_ids(IDS, seed), hash_ids(IDS, seed % 2**64))


@pytest.mark.parametrize("size", [2, 3, 7])
def test_every_host_has_the_highest_key_equally_often(size: int) -> None:
    winners = Counter(int(hash_ids(IDS[:size], seed).argmax()) for seed in range(3000))
    assert all(abs(winners[row] - 3000 / size) < 200 for row in range(size))


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("count", [1, 2])
def test_equal_hosts_are_chosen_equally_often(size: int, count: int) -> None:
    candidates = fleet(*hosts(size))
    firsts: Counter[int] = Counter(decide(spec(count=count), candidates, seed).chosen[0] for seed in range(3000))
    assert all(abs(firsts[number] - 3000 / size) < 200 for number in range(1, size + 1))


def test_tie_keys_decide_only_between_equal_hosts() -> None:
    candidates = fleet(*hosts(5), host(6, (9, 8192, 100)))
    assert {decide(spec(), candidates, seed).chosen for seed in range(100)} == {(6,)}
