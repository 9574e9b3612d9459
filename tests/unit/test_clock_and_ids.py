"""Ids and seeds come from the operating system's randomness."""

import os
import random
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from covey.clock_and_ids import new_password, new_reservation_id, new_seed, new_uuid, new_version, random_uuid


@pytest.mark.parametrize("new", [new_uuid, random_uuid, new_seed, new_reservation_id, new_password, new_version])
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


def test_forked_process_makes_other_ids_than_its_parent() -> None:
    random_uuid()  # fetches more random bytes than it needs
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, random_uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() != random_uuid()


def test_threads_never_get_the_same_id() -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda _: random_uuid(), range(20_000)))
    assert len(set(ids)) == len(ids)
