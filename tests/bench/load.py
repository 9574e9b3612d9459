"""The load generator, a separate process, so that its CPU time is not counted as the server's.

Reads its parameters as JSON from standard input and writes results as JSON to standard output. Each connection is
kept alive and has one pending request; the next is sent after the response (a closed loop). Requests are bytes
prepared in advance, and one thread polls all sockets, which costs a few dozen microseconds of CPU per request.
"""

import json
import selectors
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

_SILENCE_S = 1.0
_NO_CONTENT = b"204"


@dataclass(slots=True)
class Connection:
    """A socket and its pending request."""

    socket: socket.socket
    sent_at: float = 0.0
    received: bytearray = field(default_factory=bytearray)
    missing: int | None = None  # bytes of the response body; None before the header is complete

    def send(self, request: bytes) -> None:
        self.received, self.missing = bytearray(), None
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def status(self) -> int | None:
        """Receive data; return the status of a complete response, else None. Raises OSError on failure."""
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionResetError("the server closed the connection")
        self.received += more
        if self.missing is None:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return None
            self.missing = end + 4 + _length(bytes(self.received[:end])) - len(self.received)
        else:
            self.missing -= len(more)
        return int(self.received[9:12]) if self.missing <= 0 else None


def _length(head: bytes) -> int:
    if head[9:12] == _NO_CONTENT:
        return 0
    lower = head.lower()
    start = lower.find(b"content-length:")
    if start < 0:
        raise ConnectionResetError(f"a response without Content-Length: {head!r}")
    return int(lower[start + 15 :].split(b"\r\n", 1)[0])


@dataclass(slots=True)
class Load:
    """Sends `total` requests in the given order, repeatedly."""

    port: int
    requests: list[bytes]
    connections: int
    total: int
    longest_s: float
    latencies_ms: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def run(self) -> dict[str, Any]:
        queue = islice(cycle(self.requests), self.total)
        selector = selectors.DefaultSelector()
        started, cpu = time.perf_counter(), time.process_time()
        for request in islice(queue, self.connections):
            self._open(selector).send(request)
        while selector.get_map() and time.perf_counter() - started < self.longest_s:
            for key, _ in selector.select(_SILENCE_S):
                self._on_readable(selector, key.data, queue)
        seconds = time.perf_counter() - started
        unanswered = self.total - sum(self.statuses.values())
        if unanswered:
            self.statuses["unanswered"] = unanswered
        return {
            "seconds": seconds,
            "cpu_s": time.process_time() - cpu,
            "latencies_ms": self.latencies_ms,
            "statuses": self.statuses,
        }

    def _open(self, selector: selectors.BaseSelector) -> Connection:
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=self.longest_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(opened)
        selector.register(opened, selectors.EVENT_READ, connection)
        return connection

    def _on_readable(self, selector: selectors.BaseSelector, connection: Connection, queue: "islice[bytes]") -> None:
        try:
            status = connection.status()
        except OSError:
            status = 0
        if status is None:
            return
        if status:
            self.latencies_ms.append((time.perf_counter() - connection.sent_at) * 1e3)
        self.statuses[str(status) if status else "broken"] += 1
        request = next(queue, None)
        if request is None or not status:
            selector.unregister(connection.socket)
            connection.socket.close()
        if request is not None:
            (connection if status else self._open(selector)).send(request)


def main() -> None:
    order = json.load(sys.stdin)
    order["requests"] = [request.encode() for request in order["requests"]]
    json.dump(Load(**order).run(), sys.stdout)


if __name__ == "__main__":
    main()
