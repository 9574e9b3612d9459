"""Reading requests: their context, their JSON, their query."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import falcon
import msgspec

from covey.api.validation import Query, Schema
from covey.api.versions import Version
from covey.model.access import Actor
from covey.model.errors import Invalid

Json = dict[str, Any]

_JSON_TYPES = frozenset({"application/json", "application/vnd.openstack.compute+json"})
_MOST_PARAMETERS = 1000


class TooLarge(Invalid):
    """A JSON body is longer than `[api] max_body_bytes`."""

    code = "too_large"


class UnsupportedMedia(Invalid):
    """The body is of another type than the route reads."""

    code = "unsupported_media"


@dataclass(slots=True)
class Context:
    """What the middleware knows of a request before a resource sees it."""

    request_id: str = ""
    actor: Actor | None = None
    version: Version | None = None
    started: float = 0.0
    base_url: str = ""  # how the caller reaches this API, without a slash at the end
    max_body_bytes: int = 0


class Request(falcon.Request):
    """A request with our own context."""

    context_type = Context
    context: Context  # type: ignore[assignment]

    @property
    def actor(self) -> Actor:
        """Who is asking; only discovery is open to nobody."""
        assert self.context.actor is not None
        return self.context.actor

    @property
    def version(self) -> Version:
        """The microversion that was asked for."""
        assert self.context.version is not None
        return self.context.version

    def link(self, path: str) -> str:
        """An absolute URL for a path of this API."""
        return f"{self.context.base_url}{path}"


def read_bytes(request: Request) -> bytes:
    """The whole body. Raises TooLarge rather than read more than the service means to."""
    most = request.context.max_body_bytes
    body: bytes = b"" if (request.content_length or 0) > most else body_stream(request).read(most + 1)
    if len(body) > most or (request.content_length or 0) > most:
        raise TooLarge("Request is too large.")
    return body


def body_stream(request: Request) -> Any:  # noqa: ANN401 -- WSGI's own input has no type
    """The body as it arrives; one without a length (chunked) ends where the server says so."""
    return request.stream if request.content_length is None else request.bounded_stream


def read_json(request: Request) -> Any:  # noqa: ANN401 -- it is whatever the caller sent, until a schema saw it
    """The body as JSON; None for an empty one. Raises UnsupportedMedia, TooLarge, Invalid."""
    declared = (request.content_type or "application/json").partition(";")[0].strip().lower()
    if declared not in _JSON_TYPES:
        raise UnsupportedMedia("Unsupported Content-Type")
    return parse_json(read_bytes(request))


def parse_json(body: bytes) -> Any:  # noqa: ANN401
    """JSON, but for what no database could keep: a zero byte inside a string."""
    if not body:
        return None
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("Malformed request body") from error
    try:
        zero = b"\\u0000" in body and _has_zero_byte(parsed)
    except RecursionError:
        zero = True  # nested far deeper than anything that is asked for here
    if zero:
        raise Invalid("Malformed request body: a string may not contain the character U+0000.")
    return parsed


def read_body(request: Request, schema: Schema) -> Json:
    """The body, checked. Raises Invalid in the words of the schema."""
    body = read_json(request)
    schema.check(body)
    checked: Json = body
    return checked


def read_query(request: Request, query: Query) -> Mapping[str, str]:
    """The query's known parameters, checked; of a repeated one, the last counts. Raises Invalid."""
    return query.check(query_lists(request), request.version)


def query_lists(request: Request) -> dict[str, list[str]]:
    """All values of each parameter. Raises Invalid when there are absurdly many."""
    given: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(request.query_string, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise Invalid(f"A request may have {_MOST_PARAMETERS} query parameters at the most.") from error
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    return given


def _has_zero_byte(value: object) -> bool:
    match value:
        case str():
            return "\0" in value
        case list():
            return any(_has_zero_byte(item) for item in value)
        case dict():
            return any("\0" in key or _has_zero_byte(item) for key, item in value.items())
    return False
