"""The commands with the real SDK on a simulated transport."""

import io
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
from cliff.commandmanager import CommandManager
from openstack.connection import Connection
from requests.adapters import BaseAdapter

from covey.client import plugin

COMMANDS = CommandManager("openstack.covey.v1")
COMMANDS.load_commands("openstack.compute.v2")
ROOT = "http://cloud"
VERSION = {"id": "v2.1", "status": "CURRENT", "min_version": "2.1", "version": "2.1000"}
DISCOVERED = {
    "/compute/v2.1": {"version": VERSION | {"links": [{"rel": "self", "href": f"{ROOT}/compute/v2.1/"}]}},
    "/image": {
        "versions": [{"id": "v2.9", "status": "CURRENT", "links": [{"rel": "self", "href": f"{ROOT}/image/v2/"}]}]
    },
    "/identity/v3": {
        "version": {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{ROOT}/identity/v3/"}]}
    },
}

Answer = tuple[int, object]


@dataclass(frozen=True)
class SentRequest:
    """A request that the client has sent."""

    route: str
    body: Any
    query: dict[str, str]
    version: str | None


@dataclass
class Wire(BaseAdapter):
    """Responds by method and path with the next response of a list; the last one repeats. Unknown paths are 404."""

    answers: Mapping[str, Answer | list[Answer]]
    beside_nova: bool = False  # Covey has an endpoint of its own, /covey/v2.1
    sent: list[SentRequest] = field(default_factory=list)

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        url = urlsplit(str(request.url))
        if url.path.rstrip("/") in DISCOVERED:
            return _response(request, 200, DISCOVERED[url.path.rstrip("/")])
        route = f"{request.method} {url.path.removeprefix('/compute/v2.1')}"
        body = json.loads(request.body) if request.body else None
        self.sent.append(
            SentRequest(route, body, dict(parse_qsl(url.query)), request.headers.get("OpenStack-API-Version"))
        )
        answer = self.answers.get(route, (404, {"itemNotFound": {"code": 404, "message": "There is no such thing."}}))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return _response(request, *answer)

    def close(self) -> None:
        pass

    def last(self) -> SentRequest:
        return self.sent[-1]

    def run(self, command: str) -> Any:
        """Run `openstack COMMAND -f json` and return its output. Raises the client's exceptions."""
        return json.loads(self.output(command, "-f", "json"))

    def output(self, command: str, *options: str) -> str:
        """Run `openstack COMMAND` and return its output."""
        factory, name, arguments = COMMANDS.find_command(shlex.split(command))
        app = _app(self)
        running = factory(app, None, cmd_name=name)
        running.run(running.get_parser(f"openstack {name}").parse_args([*arguments, *options]))
        written: str = app.stdout.getvalue()
        return written


def help_of(command: str) -> str:
    factory, name, _ = COMMANDS.find_command(command.split())
    return " ".join(factory(_app(Wire({})), None, cmd_name=name).get_parser(f"openstack {name}").format_help().split())


def _app(wire: Wire) -> Any:
    own: dict[str, Any] = {"covey_endpoint_override": f"{ROOT}/covey/v2.1"} if wire.beside_nova else {}
    connection = Connection(
        auth_type="none",
        auth={"endpoint": f"{ROOT}/none"},
        compute_endpoint_override=f"{ROOT}/compute/v2.1",
        image_endpoint_override=f"{ROOT}/image",
        identity_endpoint_override=f"{ROOT}/identity/v3",
        **own,
    )
    session = requests.Session()
    session.mount("http://", wire)
    connection.session.session = session
    manager = SimpleNamespace(sdk_connection=connection, compute=connection.compute)
    manager.covey = plugin.make_client(manager)
    return SimpleNamespace(
        client_manager=manager, command_manager=SimpleNamespace(namespace="openstack.cli"), stdout=io.StringIO()
    )


def _response(request: requests.PreparedRequest, status: int, body: object) -> requests.Response:
    response = requests.Response()
    response.status_code, response.reason = status, "Somehow"
    response.request, response.url = request, str(request.url)
    response.headers["Content-Type"] = "application/json"
    response._content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return response
