"""Group commit: each request gets its own answer, whichever thread leads, and none waits forever."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from covey.request_slots import RequestSlots
from covey.services.group_commit import GroupCommit

THREADS = 32
REQUESTS = 10_000
TIMEOUT_S = 60


class Rejected(Exception):
    """The error of a rejected number."""


def doubled(numbers: Sequence[int]) -> Sequence[int | BaseException]:
    """Double even numbers; reject odd ones with the number as the message."""
    return [Rejected(str(number)) if number % 2 else 2 * number for number in numbers]


def outcome(group_commit: GroupCommit[int, int], number: int) -> int | str:
    try:
        return group_commit.submit(number)
    except Rejected as rejected:
        return str(rejected)


def run_concurrently(tasks: Sequence[Callable[[], object]]) -> list[object]:
    """Return the result of each task. A thread that does not end within the timeout fails the test."""
    results: list[object] = [None] * len(tasks)
    start = threading.Barrier(len(tasks))

    def run(i: int) -> None:
        start.wait(TIMEOUT_S)
        results[i] = tasks[i]()

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(tasks))]
    deadline = time.monotonic() + TIMEOUT_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not [thread for thread in threads if thread.is_alive()], "a thread still waits for an answer"
    return results


def test_ten_thousand_requests_each_get_their_own_answer() -> None:
    group_commit: GroupCommit[int, int] = GroupCommit(doubled, request_slots=RequestSlots(4))
    each = REQUESTS // THREADS

    def request_thread(first: int) -> Callable[[], object]:
        return lambda: [outcome(group_commit, number) for number in range(first, first + each)]

    answers = run_concurrently([request_thread(i * each) for i in range(THREADS)])
    for i, got in enumerate(answers):
        numbers = range(i * each, (i + 1) * each)
        assert got == [str(number) if number % 2 else 2 * number for number in numbers]


def test_one_batch_runs_at_a_time() -> None:
    running = most = 0
    lock = threading.Lock()

    def answer(numbers: Sequence[int]) -> Sequence[int]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1
        return numbers

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4), largest=4)
    for _ in range(10):
        run_concurrently([lambda: [group_commit.submit(number) for number in range(10)]] * THREADS)
    assert most == 1


def test_batch_size_is_limited() -> None:
    sizes: list[int] = []

    def answer(numbers: Sequence[int]) -> Sequence[int]:
        sizes.append(len(numbers))
        time.sleep(0.002)
        return numbers

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4), largest=5)
    run_concurrently([lambda: [group_commit.submit(number) for number in range(10)]] * THREADS)
    assert sum(sizes) == 10 * THREADS
    assert max(sizes) == 5


def test_requests_that_wait_for_the_leader_share_a_batch() -> None:
    entered, release = threading.Event(), threading.Event()
    seen: list[list[int]] = []

    def answer(numbers: Sequence[int]) -> Sequence[int]:
        seen.append(list(numbers))
        entered.set()
        release.wait(TIMEOUT_S)
        return numbers

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4))
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(group_commit.submit, 0)
        assert entered.wait(TIMEOUT_S)
        others = [pool.submit(group_commit.submit, number) for number in range(1, 6)]
        while len(group_commit._waiting) < 5:
            time.sleep(0.001)
        release.set()
        assert [first.result(TIMEOUT_S)] + [other.result(TIMEOUT_S) for other in others] == list(range(6))
    assert [sorted(batch) for batch in seen] == [[0], [1, 2, 3, 4, 5]]


def test_error_of_a_batch_reaches_each_request_and_the_next_batch_runs() -> None:
    entered, release = threading.Event(), threading.Event()

    def answer(numbers: Sequence[int]) -> Sequence[int]:
        entered.set()
        release.wait(TIMEOUT_S)
        if -1 in numbers:
            raise Rejected("a broken batch")
        return numbers

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4), largest=3)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(outcome, group_commit, 0)
        assert entered.wait(TIMEOUT_S)
        futures = []
        for waiting, number in enumerate((-1, 1, 2, 3, 4), start=1):
            futures.append(pool.submit(outcome, group_commit, number))
            while len(group_commit._waiting) < waiting:
                time.sleep(0.001)
        release.set()
        assert first.result(TIMEOUT_S) == 0
        assert [future.result(TIMEOUT_S) for future in futures] == ["a broken batch"] * 3 + [3, 4]
    assert group_commit.submit(7) == 7
