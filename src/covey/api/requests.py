"""Requests: their context, JSON body and query parameters."""

from collections.abc import Collection, Mapping
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
_MAX_QUERY_PARAMETERS = 1000
_MAX_FILTER_VALUES = 50  # a server has no more tags


class TooLarge(Invalid):
    """A JSON body is longer than `[api] max_body_bytes`."""

    code = "too_large"


class UnsupportedMedia(Invalid):
    """The route does not accept this content type."""

    code = "unsupported_media"


@dataclass(slots=True)
class Context:
    """What the middleware sets before a resource handles the request."""

    request_id: str = ""
    logged_path: str = ""
    actor: Actor | None = None
    version: Version | None = None
    started: float = 0.0
    base_url: str = ""  # of this API as the caller reaches it, without a trailing slash
    max_body_bytes: int = 0


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
    def version(self) -> Version:
        """The requested microversion."""
        assert self.context.version is not None
        return self.context.version

    def link(self, path: str) -> str:
        """Return the absolute URL of a path of this API."""
        return f"{self.context.base_url}{path}"

    def links(self, path: str) -> list[Json]:
        """Return the links of a resource, as Nova writes them: below the version, and its bookmark without it."""
        return [{"rel": "self", "href": self.link(f"/v2.1{path}")}, {"rel": "bookmark", "href": self.link(path)}]


def read_bytes(request: Request) -> bytes:
    """Return the whole body. Raises TooLarge above max_body_bytes, and reads no more than that."""
    limit = request.context.max_body_bytes
    body: bytes = b"" if (request.content_length or 0) > limit else body_stream(request).read(limit + 1)
    if len(body) > limit or (request.content_length or 0) > limit:
        raise TooLarge("Request is too large.")
    return body


def body_stream(request: Request) -> Any:  # noqa: ANN401 -- WSGI's own input has no type
    """Return the body as a stream; the server delimits one without a length (chunked)."""
    return request.stream if request.content_length is None else request.bounded_stream


def read_json(request: Request) -> Any:  # noqa: ANN401 -- unknown until a schema has validated it
    """Return the body as JSON; None for an empty one. Raises UnsupportedMedia, TooLarge, Invalid."""
    media_type = (request.content_type or "application/json").partition(";")[0].strip().lower()
    if media_type not in _JSON_TYPES:
        raise UnsupportedMedia("Unsupported Content-Type")
    return parse_json(read_bytes(request))


def parse_json(body: bytes) -> Any:  # noqa: ANN401
    """Parse JSON. Raises Invalid, also for U+0000 in a string, which PostgreSQL cannot store."""
    if not body:
        return None
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("Malformed request body") from error
    try:
        has_zero = b"\\u0000" in body and _has_zero_byte(parsed)
    except RecursionError:
        has_zero = True  # nested deeper than any request of this API
    if has_zero:
        raise Invalid("Malformed request body: a string may not contain the character U+0000.")
    return parsed


def read_body(request: Request, schema: Schema) -> Json:
    """Return the validated body. Raises Invalid with the schema's message."""
    body = read_json(request)
    schema.check(body)
    validated: Json = body
    return validated


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


def _has_zero_byte(value: object) -> bool:
    match value:
        case str():
            return "\0" in value
        case list():
            return any(_has_zero_byte(item) for item in value)
        case dict():
            return any("\0" in key or _has_zero_byte(item) for key, item in value.items())
    return False
