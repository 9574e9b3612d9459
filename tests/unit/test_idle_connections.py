"""Which connections have stalled."""

import pytest

from covey.idle_connections import Sample, Traffic, connections_to_close, is_stalled

TIMEOUT_S = 30.0
CASES = {
    "a response was sent within the timeout": (Traffic(29, 29, 500), Traffic(24, 24, 500), False),
    "an idle connection": (Traffic(30, 30, 500), Traffic(25, 25, 500), True),
    "half a body, and then nothing": (Traffic(31, 31, 90), Traffic(26, 26, 90), True),
    "a request that came just now, after a long pause": (Traffic(33, 0.1, 900), Traffic(28, 28, 500), False),
    "a body byte by byte": (Traffic(60, 0.5, 120), Traffic(55, 0.5, 110), True),
    "a body byte by byte, for a while": (Traffic(59, 0.5, 120), Traffic(54, 0.5, 110), False),
    "a long upload": (Traffic(300, 0.1, 9_000_000), Traffic(295, 0.1, 8_000_000), False),
    "a connection that is seen for the first time": (Traffic(90, 0.1, 9_000_000), None, False),
}


@pytest.mark.parametrize(("now", "before", "stalled"), CASES.values(), ids=CASES)
def test_connection_is_stalled(now: Traffic, before: Traffic | None, stalled: bool) -> None:
    assert is_stalled(now, before, TIMEOUT_S) is stalled


def looks(*traffic: Traffic) -> int:
    seen = Sample(traffic[0])
    for now in traffic[1:]:
        seen = seen.next(now, 5)
    return seen.slow_samples


def sending(taken_bytes: int, waiting_bytes: int) -> Traffic:
    return Traffic(0, 9, 500, taken_bytes, waiting_bytes)


def test_response_that_is_not_read_is_slow_and_one_that_is_read_is_not() -> None:
    assert looks(sending(0, 9000), sending(10, 9000), sending(20, 9000)) == 2
    assert looks(sending(0, 9000), sending(0, 9000), sending(100_000, 9000)) == 0
    assert looks(sending(0, 0), sending(90, 0), sending(180, 90), sending(270, 0)) == 0, "events, which are read"


def test_oldest_connections_without_a_request_are_closed_when_there_are_many() -> None:
    silent = {("silent", age): Traffic(age, age, 0) for age in range(2, 8)}
    asking = {("asking", age): Traffic(age, age, 300) for age in range(2, 8)}
    answered = {("answered", age): Traffic(age, age, 300, taken_bytes=400) for age in range(2, 8)}
    new = {("new", 0): Traffic(0, 0, 0)}
    seen = asking | silent | answered | new
    assert connections_to_close(seen, 30) == [("silent", 7), ("silent", 6), ("silent", 5), ("silent", 4)]
    assert connections_to_close(seen, 24)[6:] == [("asking", 7)]
    assert connections_to_close(seen, 2)[12:] == [("answered", age) for age in range(7, 1, -1)], (
        "the longest idle first"
    )
    assert connections_to_close(seen, 40) == []


def test_answered_connection_with_a_request_or_a_response_in_progress_stays_open() -> None:
    asking = Traffic(sent_s_ago=9, received_s_ago=3, received_bytes=600, taken_bytes=400)
    receiving = Traffic(sent_s_ago=5, received_s_ago=9, received_bytes=300, taken_bytes=400, waiting_bytes=50)
    answered_now = Traffic(sent_s_ago=0.1, received_s_ago=0.2, received_bytes=300, taken_bytes=400)
    seen = {("asking", 1): asking, ("receiving", 2): receiving, ("answered now", 3): answered_now}
    assert connections_to_close(seen, 1) == []
