"""Ids and seeds come from the operating system's randomness."""

import random
import uuid
from collections.abc import Callable

import pytest

from covey.clock_and_ids import new_reservation_id, new_seed, new_uuid, random_uuid


@pytest.mark.parametrize("new", [new_uuid, random_uuid, new_seed, new_reservation_id])
def test_ids_do_not_follow_from_the_state_of_a_generator(new: Callable[[], object]) -> None:
    ends = set()
    for _ in range(2):
        random.seed(1)
        ends.add(str(new())[-12:])  # the last 12 digits of a UUID are random in every version
    assert len(ends) == 2


def test_new_uuid_is_of_version_7_and_ordered_by_time() -> None:
    ids = [new_uuid() for _ in range(1000)]
    assert {uuid.UUID(one).version for one in ids} == {7}
    assert {uuid.UUID(one).variant for one in ids} == {uuid.RFC_4122}
    assert [one[:13] for one in ids] == sorted(one[:13] for one in ids)
    assert len(set(ids)) == 1000
