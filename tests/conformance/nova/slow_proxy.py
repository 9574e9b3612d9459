"""Covey behind a connection that delays each answer."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class SlowProxy(ThreadingHTTPServer):
    """Forwards requests to a port of loopback, each after `delay_s`."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.delay_s, self.requests = port, 0.0, 0

    def handle_error(self, *_: object) -> None:
        """Write no log of clients that did not wait."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SlowProxy

    def do_POST(self) -> None:
        """Wait, forward, and answer."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests += 1
        time.sleep(self.server.delay_s)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request("POST", self.path, body, dict(self.headers.items()))
        answer = connection.getresponse()
        raw = answer.read()
        connection.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def running_proxy(port: int) -> Iterator[SlowProxy]:
    """Serve until the context ends."""
    with SlowProxy(port) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
