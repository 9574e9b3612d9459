"""Calls of other services end at the deadline of the request, whatever the server sends."""

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from keystoneauth1.exceptions import ClientException

from covey import config, remote_api
from covey.model.errors import Unavailable
from covey.request_slots import wait_limit
from covey.timed_session import TimedSession

TIMEOUT_S = 30
DEADLINE_S = 0.5
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


@contextmanager
def server(first: bytes, piece: bytes) -> Iterator[str]:
    """Yield the address of a server that answers a first part, and then a piece each tenth of a second."""
    ended = threading.Event()

    def answer(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(4096)
            client.sendall(first)
            while not ended.wait(0.1):
                client.sendall(piece)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)


def until_it_ends(url: str) -> float:
    """Return how many seconds a call takes, at most TIMEOUT_S."""
    seconds: list[float] = []

    def call() -> None:
        began = time.monotonic()
        with wait_limit(DEADLINE_S), suppress(ClientException):
            TimedSession(timeout=10.0).get(url)
        seconds.append(time.monotonic() - began)

    calling = threading.Thread(target=call, daemon=True)
    calling.start()
    calling.join(TIMEOUT_S)
    return seconds[0] if seconds else math.inf


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        pytest.param(b"", b"", id="a server that is silent"),
        pytest.param(HEAD, b" ", id="a body byte by byte"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", b"a", id="a header byte by byte"),
    ],
)
def test_call_ends_at_the_deadline(first: bytes, piece: bytes) -> None:
    with server(first, piece) as url:
        assert DEADLINE_S / 2 < until_it_ends(url) < TIMEOUT_S


def test_callers_calls_of_nova_end_at_the_deadline() -> None:
    """As [nova] has them: 10 seconds for each part would be too long."""
    with server(HEAD, b" ") as url:
        api = remote_api.connect_by_token("compute", config.load([]), "nova", url=url, token="t", timeout_s=10.0)
        began = time.monotonic()
        with wait_limit(DEADLINE_S), pytest.raises(Unavailable):
            api.get("os-server-groups")
        assert time.monotonic() - began < TIMEOUT_S


def test_call_in_time_is_answered_and_its_connection_used_again() -> None:
    with server(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"
    ) as url:
        session = TimedSession()
        with wait_limit(TIMEOUT_S):
            assert session.get(url).json() == {}
        assert session.get(url).status_code == 200


def test_deadline_that_has_passed_leaves_a_moment() -> None:
    with server(HEAD, b"") as url, wait_limit(-1), pytest.raises(ClientException):
        TimedSession().get(url)
