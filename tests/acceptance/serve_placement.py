"""Serves the real Placement on loopback. Runs in the virtual environment that has it: PORT is the argument."""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from placement.wsgi.api import application  # type: ignore[import-not-found]


class Server(ThreadingMixIn, WSGIServer):
    """A thread for each request."""

    daemon_threads = True
    request_queue_size = 64


class Handler(WSGIRequestHandler):
    """Writes no line for each request."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


make_server("127.0.0.1", int(sys.argv[1]), application, Server, Handler).serve_forever()
