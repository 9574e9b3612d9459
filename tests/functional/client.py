"""A test client of the application, with a token, a microversion and JSON bodies."""

from dataclasses import dataclass, field, replace
from typing import Any

import falcon.testing

HOST_NAME = "localhost"  # auth_strategy=none answers to loopback names only


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    json: Any
    headers: dict[str, str]
    text: str
    content: bytes = b""

    @property
    def message(self) -> str:
        """Return the message of a fault of any name."""
        (fault,) = [self.json["error"]] if "error" in self.json else self.json.values()
        return str(fault["message"])


@dataclass(frozen=True)
class Service:
    """The application under test."""

    app: Any

    def as_(self, token: str | None, version: str | None = None) -> "Client":
        return Client(falcon.testing.TestClient(self.app), token, version)


@dataclass(frozen=True)
class Client:
    """A caller of the application."""

    http: falcon.testing.TestClient
    token: str | None
    version: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    prefix: str = "/compute/v2.1"

    def at(self, version: str) -> "Client":
        """Return the client at a compute microversion."""
        return replace(self, version=version)

    def below(self, prefix: str) -> "Client":
        """Return the client of another API."""
        return replace(self, prefix=prefix)

    def sending(self, **headers: str) -> "Client":
        """Return the client with further headers (underscores stand for dashes)."""
        return replace(self, headers=self.headers | {k.replace("_", "-"): v for k, v in headers.items()})

    def get(self, path: str, **query: str) -> Answer:
        return self.ask("GET", path, params=query)

    def post(self, path: str, body: Any = None) -> Answer:
        return self.ask("POST", path, json=body)

    def put(self, path: str, body: Any = None) -> Answer:
        return self.ask("PUT", path, json=body)

    def patch(self, path: str, body: Any = None) -> Answer:
        return self.ask("PATCH", path, json=body)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        """Send a request with the arguments of Falcon's test client."""
        headers = dict(self.headers)
        if self.token is not None:
            headers["X-Auth-Token"] = self.token
        if self.version is not None:
            headers["OpenStack-API-Version"] = f"compute {self.version}"
        if "body" in more:
            headers["Content-Type"] = "application/json"
        headers |= more.pop("headers", {})
        if more.get("json") is None:
            more.pop("json", None)
        got = self.http.simulate_request(method, self.prefix + path, headers=headers, **{"host": HOST_NAME} | more)
        text = got.content.decode(errors="replace")
        is_json = "json" in got.headers.get("content-type", "") and bool(got.content)
        return Answer(got.status_code, got.json if is_json else None, dict(got.headers), text, got.content)
