"""Closes connections of clients that have stalled, and at many connections the oldest without a complete request.

The HTTP server has no time limit for the body of a request, and none for a client to take the response: a thread that
reads or streams waits for the client, until its connection ends. At its limit it accepts no more connections. So each
serving process checks its own connections by the kernel's TCP statistics.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import structlog

log = structlog.get_logger()

Peer = tuple[Any, ...]  # the address of the other side

_FILES = Path("/proc/self/fd")
_INTERNET = {socket.AF_INET, socket.AF_INET6}
_SAMPLES = 6  # at each connection, during the timeout
_FEW_BYTES = 4096  # received between two samples: less is not an upload
_SLOW_BYTES_S = 16 << 10  # taken of a response
_OVERLOAD_CHECK_S = 1.0
_SHORT_REQUEST_BYTES = 64  # one with a method, a path, a host and the headers of any client is longer
_TCP_INFO = struct.Struct("=24xI16xI4xI64xQQ8xI")  # of Linux, in the order of Traffic; times in ms


@dataclass(frozen=True, slots=True)
class Traffic:
    """What has gone over a connection."""

    sent_s_ago: float
    received_s_ago: float
    received_bytes: int
    taken_bytes: int = 0  # of what was sent
    waiting_bytes: int = 0  # of responses, that the client has not taken


@dataclass(frozen=True, slots=True)
class Sample:
    """The traffic of a connection at one moment."""

    traffic: Traffic
    slow_samples: int = 0  # in a row, in which a response waited for a slow client

    def next(self, now: Traffic, interval_s: float) -> Self:
        """Return the next sample of the same connection."""
        taken = now.taken_bytes - self.traffic.taken_bytes
        waits = now.waiting_bytes > 0 and self.traffic.waiting_bytes > 0
        is_slow = waits and taken < _SLOW_BYTES_S * interval_s
        return replace(self, traffic=now, slow_samples=self.slow_samples + 1 if is_slow else 0)


def is_stalled(now: Traffic, before: Traffic | None, timeout_s: float) -> bool:
    """Return whether a connection has no request in progress, or its client sends the request too slowly.

    A connection to which something was sent within the timeout is in use. On an older one, a request may just have
    come; it has the timeout once more, unless it is an upload.
    """
    if now.sent_s_ago < timeout_s:
        return False
    if now.received_s_ago >= timeout_s / _SAMPLES:
        return True
    uploads = before is None or now.received_bytes - before.received_bytes >= _FEW_BYTES
    return now.sent_s_ago >= 2 * timeout_s and not uploads


def connections_to_close(connections: Mapping[Peer, Traffic], most: int) -> list[Peer]:
    """Return connections to close so that no more than half of the most remain, of those without a request in progress.

    Those that have sent too little for a request come first, then others that were never answered, then answered ones;
    of each the oldest, or longest idle, first.
    """
    order = {  # nothing was sent since the connection was accepted, or since its last response
        peer: (bool(now.taken_bytes), now.received_bytes >= _SHORT_REQUEST_BYTES, -now.sent_s_ago)
        for peer, now in connections.items()
        if not now.waiting_bytes and now.sent_s_ago >= _OVERLOAD_CHECK_S and (not now.taken_bytes or _is_idle(now))
    }
    return sorted(order, key=lambda peer: order[peer])[: max(0, len(connections) - most // 2)]


def _is_idle(now: Traffic) -> bool:
    """Return whether nothing came since the last response."""
    return now.received_s_ago >= now.sent_s_ago


def watch(port: int, timeout_s: float, most: int) -> None:
    """Close stalled connections to the port, in a thread of this process, and others at three quarters of the most.

    Only Linux has the statistics.
    """
    if hasattr(socket, "TCP_INFO") and _FILES.is_dir():
        watching = threading.Thread(target=_watch, args=(port, timeout_s, most), name="covey-connections", daemon=True)
        watching.start()


def _watch(port: int, timeout_s: float, most: int) -> None:
    before: dict[Peer, Sample] = {}
    interval_s = timeout_s / _SAMPLES
    next_sample = time.monotonic() + interval_s
    while True:
        time.sleep(min(_OVERLOAD_CHECK_S, interval_s))
        if len(os.listdir(_FILES)) > most * 3 // 4:  # noqa: PTH208 -- it only counts
            _close_oldest(port, most)
        if time.monotonic() >= next_sample:
            before = _close_stalled(port, timeout_s, before)
            next_sample = time.monotonic() + interval_s


def _close_stalled(port: int, timeout_s: float, before: Mapping[Peer, Sample]) -> dict[Peer, Sample]:
    seen: dict[Peer, Sample] = {}
    for peer, connection in _connections(port):
        with suppress(OSError):  # it may just have closed
            now, last = _traffic(connection), before.get(peer)
            seen[peer] = Sample(now) if last is None else last.next(now, timeout_s / _SAMPLES)
            if seen[peer].slow_samples >= _SAMPLES:
                connection.shutdown(socket.SHUT_RDWR)
                log.info("http.response_not_read", peer=str(peer), taken_bytes=now.taken_bytes)
            elif is_stalled(now, None if last is None else last.traffic, timeout_s):
                connection.shutdown(socket.SHUT_RD)  # the server sees the end of the request, and may still answer
                log.info("http.stalled", peer=str(peer), received_bytes=now.received_bytes)
    return seen


def _close_oldest(port: int, most: int) -> None:
    seen: dict[Peer, Traffic] = {}
    for peer, connection in _connections(port):
        with suppress(OSError):
            seen[peer] = _traffic(connection)
    closed = set(connections_to_close(seen, most)) if len(seen) > most * 3 // 4 else set()
    for peer, connection in _connections(port) if closed else ():
        if peer in closed:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
    if closed:
        log.warning("http.too_many_connections", connections=len(seen), closed=len(closed))


def _connections(port: int) -> Iterator[tuple[Peer, socket.socket]]:
    """Yield the accepted connections to the port, each as a duplicate."""
    for path in _FILES.iterdir():
        with suppress(OSError):  # a file may just have closed; a listening socket has no peer
            if not path.is_socket():
                continue
            with socket.socket(fileno=os.dup(int(path.name))) as connection:
                if connection.family in _INTERNET and connection.getsockname()[1] == port:
                    yield connection.getpeername(), connection


def _traffic(connection: socket.socket) -> Traffic:
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    unacked, sent_ms, received_ms, taken_bytes, received_bytes, unsent_bytes = _TCP_INFO.unpack(raw)
    waiting_bytes = unsent_bytes + (1 if unacked else 0)
    return Traffic(sent_ms / 1000, received_ms / 1000, received_bytes, taken_bytes, waiting_bytes)
