"""A subscriber to the dashboard's events, in process, that records everything."""

import json
from typing import Any

import falcon.testing

from tests.functional.fleets import Cloud

Events = dict[str, list[str]]


class Listener:
    """One stream of events, or another response that is read piece by piece."""

    def __init__(self, cloud: Cloud, token: str, seconds: int = 60, path: str = "/dashboard/events") -> None:
        environ = falcon.testing.create_environ(
            path, headers={"X-Auth-Token": token}, query_string=f"seconds={seconds}"
        )
        self.headers: dict[str, str] = {}
        self.status = ""
        self.received = ""
        self.body: Any = cloud.service.app(environ, self._start)
        self.pieces = iter(self.body)

    def _start(self, status: str, headers: list[tuple[str, str]], _: Any = None) -> Any:
        self.status, self.headers = status, dict(headers)

    def next(self) -> Events:
        """Return the next events."""
        piece = ":"
        while piece.startswith(":"):
            piece = next(self.pieces).decode()
            self.received += piece
        lines = [event.split("\n") for event in piece.strip().split("\n\n")]
        return {kind.removeprefix("event: "): json.loads(data[6:]).get("ids") for kind, data in lines}

    def close(self) -> None:
        self.body.close()


def listening(cloud: Cloud, token: str) -> Listener:
    """Return a stream after its `hello` event."""
    listener = Listener(cloud, token)
    assert listener.headers["content-type"] == "text/event-stream"
    assert listener.next() == {"hello": None}
    return listener
