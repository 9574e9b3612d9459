"""The requests of /agent/v1, and what they return."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec
import requests

from covey.agent.guests import Guest
from covey.agent.hypervisor import Progress
from covey.agent.transport import Refused, ServiceUnavailable, Transport

T = TypeVar("T")

_TIMEOUT_S = 10.0
_POLL_MARGIN_S = 10.0
_IMAGE_TIMEOUT_S = 60.0  # without a byte
_IMAGE_WAITS_S = (1, 2, 5, 10, 10, 10, 10, 10)  # while the service sends images to other agents
_CHUNK_BYTES = 1 << 20
_MAX_RESULT = 1 << 20  # characters, the last ones
_MAX_ERROR = 4000
_MAX_ORPHANS = 1000  # of one request, whose size is limited
_RETRY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}


class Conflict(Exception):
    """The request does not fit the service's state. A call has ended, or a newer epoch has taken it over: drop it."""


class UnknownHost(Exception):
    """The service does not know the host; the agent registers again."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What the service asks of a registered agent."""

    heartbeat_s: float = 10.0
    call_lease_s: float = 30.0


@dataclass(frozen=True, slots=True)
class ExpectedServer:
    """A server that the service has on this host. A task, or a location other than "here", means work under way."""

    guest: Guest
    epoch: int
    task: str | None = None
    location: str = "here"  # or "leaving", "arriving"


@dataclass(frozen=True, slots=True)
class Call:
    """Work for this host, under a lease."""

    id: int | str
    verb: str
    epoch: int
    guest: Guest
    arguments: Mapping[str, object] = field(default_factory=dict)

    @property
    def server(self) -> str:
        return self.guest.id

    @property
    def only_reads(self) -> bool:
        """Whether the call changes nothing, so that it needs no lease of the server's job."""
        return self.verb == "console_log"


@dataclass(frozen=True, slots=True)
class PowerEvent:
    """A guest's power state, as its host sees it."""

    server: str
    power: str
    epoch: int


@dataclass(frozen=True, slots=True)
class _Calls:
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class _Servers:
    servers: tuple[ExpectedServer, ...]


@dataclass(frozen=True, slots=True)
class _Location:
    id: str
    location: str


@dataclass(frozen=True, slots=True)
class _Locations:
    servers: tuple[_Location, ...]


@dataclass(frozen=True, slots=True)
class _Reported:
    abort: bool = False


@dataclass(frozen=True, slots=True)
class ServiceApi:
    """The service's agent API, for one host.

    Every method raises ServiceUnavailable, Refused, Conflict or UnknownHost.
    """

    transport: Transport
    host: str

    def register(self, document: Mapping[str, object]) -> Registration:
        """Register the host, which then takes no servers until its agent reports `up`."""
        return self._ask("PUT", "", document, Registration)

    def heartbeat(self, state: str, machine_id: str | None = None) -> Registration:
        return self._ask("PUT", "/heartbeat", {"state": state, "machine_id": machine_id}, Registration)

    def servers(self) -> tuple[ExpectedServer, ...]:
        """Return the servers that may or should be on this host."""
        return self._ask("GET", "/servers", None, _Servers).servers

    def locations(self, servers: Sequence[str]) -> dict[str, str]:
        """Return where the service has each of these servers.

        "here", "leaving", "arriving"; "elsewhere" on another host; "shelved" on none; "deleted"; "unknown".
        """
        pages = [servers[start : start + _MAX_ORPHANS] for start in range(0, len(servers), _MAX_ORPHANS)]
        found = [self._ask("POST", "/orphans", {"servers": list(page)}, _Locations) for page in pages]
        return {each.id: each.location for page in found for each in page.servers}

    def calls(self, wait_s: int, limit: int) -> tuple[Call, ...]:
        """Take up to `limit` calls under a lease; wait for one if there is none."""
        path = f"/calls?wait={wait_s}&limit={limit}"
        return self._ask("GET", path, None, _Calls, timeout_s=wait_s + _POLL_MARGIN_S).calls

    def report(
        self,
        call: Call,
        state: str,
        *,
        progress: Progress | None = None,
        result: str | None = None,
        error: str | None = None,
    ) -> bool:
        """Report a call as running, done or failed, and renew its lease. Return whether to abort it."""
        shown = None if progress is None else {"percent": progress.percent, **progress._asdict()}
        body = {
            "epoch": call.epoch,
            "state": state,
            "progress": shown,
            "result": result and result[-_MAX_RESULT:],
            "error": error and error[:_MAX_ERROR],
        }
        return self._ask("PUT", f"/calls/{call.id}", body, _Reported).abort

    def events(self, events: Sequence[PowerEvent]) -> None:
        self._send("POST", "/events", {"events": [msgspec.to_builtins(event) for event in events]})

    @contextmanager
    def image(self, image: str) -> Iterator[Iterator[bytes]]:
        """Open the data of an image, in chunks."""
        with self._image(f"/agent/v1/images/{quote(image, safe='')}/file") as response:
            _check(response)
            yield self._chunks(response)

    def _image(self, path: str) -> requests.Response:
        """Return the response to a download, once the service can send it."""
        for wait_s in (*_IMAGE_WAITS_S, None):
            response = self.transport.request("GET", path, timeout_s=_IMAGE_TIMEOUT_S, stream=True)
            if response.status_code != HTTPStatus.SERVICE_UNAVAILABLE or wait_s is None:
                break
            response.close()
            time.sleep(wait_s)
        return response

    @staticmethod
    def _chunks(response: requests.Response) -> Iterator[bytes]:
        try:
            yield from response.iter_content(_CHUNK_BYTES)
        except requests.RequestException as error:
            raise ServiceUnavailable(f"The download of an image was interrupted: {error}") from error

    def _ask(self, method: str, path: str, body: object, kind: type[T], timeout_s: float = _TIMEOUT_S) -> T:
        content = self._send(method, path, body, timeout_s)
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError as error:
            raise ServiceUnavailable(
                f"The service answered {method} {path} with an unknown document: {error}"
            ) from error

    def _send(self, method: str, path: str, body: object = None, timeout_s: float = _TIMEOUT_S) -> bytes:
        path = f"/agent/v1/hosts/{quote(self.host, safe='')}{path}"
        response = self.transport.request(method, path, body, timeout_s=timeout_s)
        _check(response)
        return response.content


def _check(response: requests.Response) -> None:
    """Raise the error of a response that is not a success."""
    status = response.status_code
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return
    message = _message(response)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRY:
        raise ServiceUnavailable(f"The service answered {status}: {message}")
    if status == HTTPStatus.CONFLICT:
        raise Conflict(message)
    if status == HTTPStatus.NOT_FOUND:
        raise UnknownHost(message)
    raise Refused(f"The service refuses the agent ({status}): {message}")


def _message(response: requests.Response) -> str:
    """Return the message of an error document, or the status line."""
    try:
        faults = list(response.json().values())
    except (ValueError, AttributeError):
        faults = []
    messages = [str(fault["message"]) for fault in faults if isinstance(fault, dict) and fault.get("message")]
    return " ".join(messages) or str(response.reason)
