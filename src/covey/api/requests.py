"""Requests: their context, JSON body and query parameters."""

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import falcon
import msgspec

from covey.api.validation import Query, Schema
from covey.api.versions import Version
from covey.model.access import Actor
from covey.model.control_characters import CONTROL, CONTROL_IN_TEXT
from covey.model.errors import Busy, Invalid, TooLarge
from covey.model.ids import ProjectId
from covey.request_slots import ProjectLimit, RequestSlots, deadline_paused

Json = dict[str, Any]

_BROWSER_HEADERS = ("Origin", "Sec-Fetch-Site")  # every browser sends one of them with a change
_JSON_TYPES = frozenset({"application/json", "application/vnd.openstack.compute+json"})
_MAY_CONTROL = re.compile(rb"\\u00[0189]|\\u007[fF]|\\[bfnrt]|\x7f|\xc2[\x80-\x9f]")  # as JSON writes them
_PIECE_BYTES = 16 << 10
_BODY_S = 30
_BODY_BYTES_S = 64 << 10
_MAX_QUERY_PARAMETERS = 1000
_MAX_FILTER_VALUES = 50  # a server has no more tags


class UnsupportedMedia(Invalid):
    """The route does not accept this content type."""

    code = "unsupported_media"


@dataclass(frozen=True, slots=True)
class BodyReads:
    """The request bodies that are being read. A body that arrives slowly occupies a thread, but no request slot."""

    request_slots: RequestSlots = field(default_factory=RequestSlots)
    limit: ProjectLimit = field(default_factory=lambda: ProjectLimit(32, 16))
    by_user: bool = False  # for agents: one project has many of them, and a user each

    def reading(self, actor: Actor | None) -> AbstractContextManager[None]:
        """Give up the request slot while the block reads a body of the actor. Raises Busy beyond the limits.

        The time that the client takes does not count against the deadline of the request.
        """
        sender = None if actor is None else actor.user_id if self.by_user else actor.project_id
        return _Reading(self, sender)


class _Reading:
    """A block that reads a body. Every change of an API is one, and a generator would cost several times as much."""

    __slots__ = ("_bodies", "_pause", "_released", "_sender")

    def __init__(self, bodies: BodyReads, sender: str | None) -> None:
        self._bodies = bodies
        self._sender = sender
        self._released = bodies.request_slots.released()
        self._pause = deadline_paused()

    def __enter__(self) -> None:
        if not self._bodies.limit.take(self._sender):
            raise Busy("Too many requests are incomplete. Retry in 1 second.")
        self._released.__enter__()
        self._pause.__enter__()

    def __exit__(self, *error: object) -> None:
        self._bodies.limit.release(self._sender)
        self._pause.__exit__(None, None, None)
        self._released.__exit__(None, None, None)


@dataclass(slots=True)
class Context:
    """What the middleware sets before a resource handles the request."""

    request_id: str = ""
    global_request_id: str | None = None  # of the request that the caller serves, by which logs are joined
    logged_path: str = ""
    actor: Actor | None = None
    version: Version | None = None
    started: float = 0.0
    base_url: str = ""  # of this API as the caller reaches it, without a trailing slash
    max_body_bytes: int = 0
    max_limit: int = 0  # of the page of a list
    bodies: BodyReads = field(default_factory=BodyReads)


class Request(falcon.Request):
    """A Falcon request with a typed context."""

    context_type = Context
    context: Context  # type: ignore[assignment]

    @property
    def actor(self) -> Actor:
        """The authenticated actor; absent only for version discovery."""
        assert self.context.actor is not None
        return self.context.actor

    @property
    def project_id(self) -> ProjectId:
        """The actor's project. Raises Forbidden for an actor without one."""
        return self.actor.project_id or self.actor.own_project

    @property
    def version(self) -> Version:
        """The requested microversion."""
        assert self.context.version is not None
        return self.context.version

    def link(self, path: str) -> str:
        """Return the absolute URL of a path of this API."""
        return f"{self.context.base_url}{path}"

    def links(self, path: str) -> list[Json]:
        """Return the links of a resource, as Nova writes them: below the version, and its bookmark without it."""
        return links(self.context.base_url, path)


def links(base_url: str, path: str) -> list[Json]:
    """Return what Request.links returns, for the many resources of a list."""
    return [{"rel": "self", "href": f"{base_url}/v2.1{path}"}, {"rel": "bookmark", "href": f"{base_url}{path}"}]


def read_bytes(request: Request) -> bytes:
    """Return the whole body. Raises TooLarge above max_body_bytes, and reads no more than that; Invalid; Busy."""
    limit, length = request.context.max_body_bytes, request.content_length
    if length is not None and length > limit:
        raise TooLarge("Request is too large.")
    if length == 0:
        return b""
    with request.context.bodies.reading(request.context.actor):
        body = _read_in_time(body_stream(request), limit + 1 if length is None else length)
    if len(body) > limit:
        raise TooLarge("Request is too large.")
    if length is not None and len(body) < length:
        raise Invalid("The request body is shorter than its Content-Length.")
    return body


def _read_in_time(stream: Any, most: int, clock: Callable[[], float] = time.monotonic) -> bytes:  # noqa: ANN401
    """Return up to this number of bytes. Raises Invalid if they take longer than a slow line needs.

    `idle_connections` closes the connection of a client that sends almost nothing.
    """
    began, body = clock(), bytearray()
    while len(body) < most and (piece := stream.read(min(_PIECE_BYTES, most - len(body)))):
        body += piece
        if clock() - began > _BODY_S + len(body) / _BODY_BYTES_S:
            raise Invalid(f"The request body takes too long: more than {_BODY_S} s and 1 s for each 64 KiB.")
    return bytes(body)


def body_stream(request: Request) -> Any:  # noqa: ANN401 -- Falcon's, or the server's
    """Return the body as a stream, to be read while `bodies.reading`; the server delimits one without a length."""
    return request.stream if request.content_length is None else request.bounded_stream


def read_json(request: Request) -> Any:  # noqa: ANN401 -- unknown until a schema has validated it
    """Return the body as JSON; None for an empty one. Raises UnsupportedMedia, TooLarge, Invalid."""
    return parse_json(_read_typed(request))


def _read_typed(request: Request) -> bytes:
    """Return the body. From a browser it needs its type, which a page of another site cannot send without asking.

    Senlin's own clients send some bodies without a type.
    """
    media_type = (request.content_type or "").partition(";")[0].strip().lower()
    if media_type and media_type not in _JSON_TYPES:
        raise UnsupportedMedia("Unsupported Content-Type")
    body = read_bytes(request)
    if body and not media_type and any(request.get_header(name) for name in _BROWSER_HEADERS):
        raise UnsupportedMedia("Unsupported Content-Type: send application/json.")
    return body


def parse_json(body: bytes) -> Any:  # noqa: ANN401
    """Parse JSON. Raises Invalid, also for control characters in a string, except tabs and line ends in a value."""
    parsed = _decode(body)
    _reject_control_characters(body, parsed)
    return parsed


def _decode(body: bytes) -> Any:  # noqa: ANN401
    if not body:
        return None
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("Malformed request body") from error
    if b"\\u0000" in body:  # PostgreSQL cannot store it
        _reject_control_characters(body, parsed)
    return parsed


def _reject_control_characters(body: bytes, parsed: object) -> None:
    try:
        found = _find_control(parsed) if _MAY_CONTROL.search(body) else None
    except RecursionError as error:  # nested deeper than any request of this API
        raise Invalid("Malformed request body") from error
    if found is not None:
        raise Invalid(f"Malformed request body: a string may not contain the character U+{ord(found):04X}.")


def read_body(request: Request, schema: Schema) -> Json:
    """Return the validated body. Raises Invalid with the schema's message, or for a control character."""
    raw = _read_typed(request)
    body: Json = _decode(raw)
    schema.check(body)
    _reject_control_characters(raw, body)
    return body


def read_output(request: Request, schema: Schema) -> Json:
    """Return the validated body, whose texts are what programs print: only NUL is removed. Raises Invalid."""
    try:
        body: Json = without_nul(msgspec.json.decode(_read_typed(request) or b"null"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("Malformed request body") from error
    schema.check(body)
    return body


def without_nul(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return JSON without the character that PostgreSQL cannot store."""
    match value:
        case str():
            return value.replace("\0", "")
        case list():
            return [without_nul(part) for part in value]
        case dict():
            return {without_nul(key): without_nul(part) for key, part in value.items()}
    return value


def read_query(request: Request, query: Query) -> Mapping[str, str]:
    """Return the known query parameters, validated; the last one of a repeated parameter. Raises Invalid."""
    if not request.query_string:
        return {}  # no parameter is required
    return query.check(query_lists(request), request.version)


def query_lists(request: Request) -> dict[str, list[str]]:
    """Return all values of each parameter. Raises Invalid above the maximum number of parameters."""
    parameters: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(request.query_string, keep_blank_values=True, max_num_fields=_MAX_QUERY_PARAMETERS)
    except ValueError as error:
        raise Invalid(f"Too many query parameters; the limit is {_MAX_QUERY_PARAMETERS}.") from error
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    return parameters


def limited(name: str, values: Collection[str], limit: int = _MAX_FILTER_VALUES) -> tuple[str, ...]:
    """Return the values of a filter. Raises Invalid above the maximum number."""
    if len(values) > limit:
        raise Invalid(f"The filter {name} has {len(values)} values; the limit is {limit}.")
    return tuple(values)


def _find_control(value: object) -> str | None:
    """Return a control character that a text may not have, or a key."""
    match value:
        case str():
            found = CONTROL_IN_TEXT.search(value)
            return None if found is None else found[0]
        case list():
            return next(filter(None, map(_find_control, value)), None)
        case dict():
            in_keys = (found[0] for key in value if (found := CONTROL.search(key)))
            return next(in_keys, None) or _find_control(list(value.values()))
    return None
