"""A Neutron without networks: Nova asks for ports even of servers that have none."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_COLLECTION = re.compile(r"^/v2\.0/([a-z_-]+)(?:\.json)?$")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the version document, or with an empty collection."""
        path = self.path.partition("?")[0].rstrip("/")
        collection = _COLLECTION.match(path)
        if path in {"", "/v2.0"}:
            link = {"rel": "self", "href": f"http://{self.headers['Host']}/v2.0/"}
            self._answer(200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]})
        elif "/quotas/" in path:
            self._answer(200, {"quota": {}})
        elif collection:
            self._answer(200, {collection[1].replace("-", "_"): []})
        else:
            self._answer(404, {"NeutronError": {"type": "NotFound", "message": "There is none.", "detail": ""}})

    def _answer(self, status: int, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def running_network() -> Iterator[str]:
    """Serve until the context ends; yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
