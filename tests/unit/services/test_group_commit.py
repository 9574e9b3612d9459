"""Group commit: each request gets its own answer, whichever thread leads, and none waits forever."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from covey.request_slots import RequestSlots
from covey.services.group_commit import GroupCommit

ASKERS = 32
ASKS = 10_000
PATIENCE_S = 60


class Refused(Exception):
    """What a question may be answered with."""


def doubled(questions: Sequence[int]) -> Sequence[int | BaseException]:
    """Odd numbers are refused, each by its own name."""
    return [Refused(str(number)) if number % 2 else 2 * number for number in questions]


def outcome(group_commit: GroupCommit[int, int], question: int) -> int | str:
    try:
        return group_commit.ask(question)
    except Refused as refused:
        return str(refused)


def at_once(tasks: Sequence[Callable[[], object]]) -> list[object]:
    """What each came to; a thread that waits forever fails the test instead of holding it up."""
    results: list[object] = [None] * len(tasks)
    start = threading.Barrier(len(tasks))

    def run(i: int) -> None:
        start.wait(PATIENCE_S)
        results[i] = tasks[i]()

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(tasks))]
    deadline = time.monotonic() + PATIENCE_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not [thread for thread in threads if thread.is_alive()], "a thread still waits for an answer"
    return results


def test_ten_thousand_requests_each_get_their_own_answer() -> None:
    group_commit: GroupCommit[int, int] = GroupCommit(doubled, request_slots=RequestSlots(4))
    each = ASKS // ASKERS

    def asker(first: int) -> Callable[[], object]:
        return lambda: [outcome(group_commit, number) for number in range(first, first + each)]

    answers = at_once([asker(i * each) for i in range(ASKERS)])
    for i, got in enumerate(answers):
        numbers = range(i * each, (i + 1) * each)
        assert got == [str(number) if number % 2 else 2 * number for number in numbers]


def test_one_batch_runs_at_a_time() -> None:
    running = most = 0
    lock = threading.Lock()

    def answer(questions: Sequence[int]) -> Sequence[int]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1
        return questions

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4), largest=4)
    for _ in range(10):
        at_once([lambda: [group_commit.ask(number) for number in range(10)]] * ASKERS)
    assert most == 1


def test_batch_size_is_limited() -> None:
    sizes: list[int] = []

    def answer(questions: Sequence[int]) -> Sequence[int]:
        sizes.append(len(questions))
        time.sleep(0.002)
        return questions

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4), largest=5)
    at_once([lambda: [group_commit.ask(number) for number in range(10)]] * ASKERS)
    assert sum(sizes) == 10 * ASKERS
    assert max(sizes) == 5


def test_requests_that_wait_for_the_leader_share_a_batch() -> None:
    entered, go_on = threading.Event(), threading.Event()
    seen: list[list[int]] = []

    def answer(questions: Sequence[int]) -> Sequence[int]:
        seen.append(list(questions))
        entered.set()
        go_on.wait(PATIENCE_S)
        return questions

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4))
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(group_commit.ask, 0)
        assert entered.wait(PATIENCE_S)
        others = [pool.submit(group_commit.ask, number) for number in range(1, 6)]
        while len(group_commit._waiting) < 5:
            time.sleep(0.001)
        go_on.set()
        assert [first.result(PATIENCE_S)] + [other.result(PATIENCE_S) for other in others] == list(range(6))
    assert [sorted(batch) for batch in seen] == [[0], [1, 2, 3, 4, 5]]


def test_error_of_a_batch_reaches_each_request_and_the_next_batch_runs() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def answer(questions: Sequence[int]) -> Sequence[int]:
        entered.set()
        go_on.wait(PATIENCE_S)
        if -1 in questions:
            raise Refused("a broken batch")
        return questions

    group_commit: GroupCommit[int, int] = GroupCommit(answer, request_slots=RequestSlots(4), largest=3)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(outcome, group_commit, 0)
        assert entered.wait(PATIENCE_S)
        later = []
        for waiting, number in enumerate((-1, 1, 2, 3, 4), start=1):
            later.append(pool.submit(outcome, group_commit, number))
            while len(group_commit._waiting) < waiting:
                time.sleep(0.001)
        go_on.set()
        assert first.result(PATIENCE_S) == 0
        assert [each.result(PATIENCE_S) for each in later] == ["a broken batch"] * 3 + [3, 4]
    assert group_commit.ask(7) == 7
