"""The page of metrics, which anyone may request at any rate."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from covey.api.health import MAX_PAGE_WAITS, SharedPage
from covey.model.errors import Busy

TIMEOUT_S = 10


class Builder:
    """Builds numbered pages. It waits while it is held."""

    def __init__(self) -> None:
        self.pages = 0
        self.started, self.let = threading.Event(), threading.Event()

    def __call__(self) -> bytes:
        self.started.set()
        assert self.let.wait(TIMEOUT_S)
        self.pages += 1
        return str(self.pages).encode()


def held(builder: Builder, page: Callable[[], bytes], pool: ThreadPoolExecutor) -> list[Future[bytes]]:
    """Return requests that wait for the page, as many as may."""
    first = pool.submit(page)
    assert builder.started.wait(TIMEOUT_S)
    return [first, *(pool.submit(page) for _ in range(MAX_PAGE_WAITS - 1))]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_page_is_built_once_a_second() -> None:
    builder, now = Builder(), [100.0]
    builder.let.set()
    page = SharedPage(builder, lambda: now[0])
    seen = []
    for now[0] in (100.0, 100.9, 101.0, 101.5, 102.5):
        seen.append(page())
    assert seen == [b"1", b"1", b"2", b"2", b"3"]


def test_one_request_builds_the_page_for_those_that_wait() -> None:
    builder = Builder()
    page = SharedPage(builder, lambda: 0.0)
    with ThreadPoolExecutor(MAX_PAGE_WAITS) as pool:
        waiting = held(builder, page, pool)
        builder.let.set()
        assert [each.result(TIMEOUT_S) for each in waiting] == [b"1"] * MAX_PAGE_WAITS


def test_request_beyond_those_that_wait_gets_the_last_page() -> None:
    builder, now = Builder(), [100.0]
    builder.let.set()
    page = SharedPage(builder, lambda: now[0])
    assert page() == b"1"
    now[0] = 200.0
    builder.let.clear()
    builder.started.clear()
    with ThreadPoolExecutor(MAX_PAGE_WAITS) as pool:
        waiting = held(builder, page, pool)
        wait_for(lambda: page.waiting == MAX_PAGE_WAITS)
        assert page() == b"1"
        builder.let.set()
        assert {each.result(TIMEOUT_S) for each in waiting} == {b"2"}


def test_request_without_any_page_is_refused_beyond_those_that_wait() -> None:
    builder = Builder()
    page = SharedPage(builder, lambda: 0.0)
    with ThreadPoolExecutor(MAX_PAGE_WAITS) as pool:
        waiting = held(builder, page, pool)
        wait_for(lambda: page.waiting == MAX_PAGE_WAITS)
        with pytest.raises(Busy):
            page()
        builder.let.set()
        assert {each.result(TIMEOUT_S) for each in waiting} == {b"1"}
    assert page.waiting == 0


def test_failed_build_is_repeated() -> None:
    calls: list[int] = []

    def build() -> bytes:
        calls.append(1)
        if len(calls) == 1:
            raise OSError
        return b"page"

    page = SharedPage(build, lambda: 0.0)
    with pytest.raises(OSError):  # noqa: PT011
        page()
    assert page() == b"page"
