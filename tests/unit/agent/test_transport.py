"""HTTP with credentials, against a real HTTPS server."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from covey.agent.service_api import ServiceApi
from covey.agent.transport import PlainTransport, Refused, ServiceUnavailable
from tests.tls import make_certificate


class Handler(BaseHTTPRequestHandler):
    """Answers with the credentials that it got, or with a redirect."""

    seen: "list[tuple[str, str | None]]"

    def do_PUT(self) -> None:
        self.seen.append((self.path, self.headers["Authorization"]))
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        if "moved" in self.path:
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"heartbeat_s": 2.5, "lease_s": null}')

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server(certificate: Path) -> Iterator[HTTPServer]:
    handler = type("Recording", (Handler,), {"seen": []})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def api(server: HTTPServer, verify: bool | str, host: str = "node-1") -> ServiceApi:
    url = f"https://127.0.0.1:{server.server_port}"
    return ServiceApi(PlainTransport(url, credentials=("agent", "secret"), verify=verify), host)


def test_cafile_verifies_the_service(server: HTTPServer, certificate: Path) -> None:
    assert api(server, str(certificate)).heartbeat("up").heartbeat_s == 2.5
    assert server.RequestHandlerClass.seen == [  # type: ignore[attr-defined]
        ("/agent/v1/hosts/node-1/heartbeat", "Basic YWdlbnQ6c2VjcmV0")
    ]


def test_unknown_certificate_is_not_trusted_with_the_password(server: HTTPServer) -> None:
    with pytest.raises(ServiceUnavailable, match=r"certificate of https://127\.0\.0\.1:\d+ cannot be verified"):
        api(server, verify=True).heartbeat("up")
    assert server.RequestHandlerClass.seen == []  # type: ignore[attr-defined]


def test_redirect_is_not_followed(server: HTTPServer, certificate: Path) -> None:
    with pytest.raises(Refused, match="302"):
        api(server, str(certificate), "moved").heartbeat("up")
    assert len(server.RequestHandlerClass.seen) == 1  # type: ignore[attr-defined]


def test_name_of_a_host_stays_one_part_of_the_path(server: HTTPServer, certificate: Path) -> None:
    api(server, str(certificate), "a/../b").heartbeat("up")
    ((path, _),) = server.RequestHandlerClass.seen  # type: ignore[attr-defined]
    assert path == "/agent/v1/hosts/a%2F..%2Fb/heartbeat"
