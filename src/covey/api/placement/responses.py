"""Bodies and response headers that the resources of the Placement API share."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import falcon
import jsonschema
from jsonschema.exceptions import best_match

from covey.api.placement.microversions import LAST_MODIFIED
from covey.api.requests import Request, UnsupportedMedia, parse_json, read_bytes
from covey.api.validation import FORMATS, JsonSchema, check_pattern, fast_validator
from covey.model.errors import Invalid

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def _is_integer(_: object, value: object) -> bool:
    """Return whether the value is an int. JSON Schema also admits 1.0."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    {"pattern": check_pattern},
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


_MAX_ERRORS = 100  # of a body, from which the message is chosen


class Body:
    """The schema of a body, with error messages of jsonschema, as Placement's."""

    def __init__(self, schema: JsonSchema) -> None:
        self._is_surely_valid = fast_validator(schema)
        self._validator = _Validator(schema, format_checker=FORMATS)

    def check(self, value: object) -> None:
        """Raise Invalid for an invalid value."""
        if self._is_surely_valid(value):
            return
        try:
            error = best_match(islice(self._validator.iter_errors(value), _MAX_ERRORS))
            message = None if error is None else f"JSON does not validate: {error}"
        except RecursionError:
            message = "JSON does not validate: it is nested too deeply."
        if message is not None:
            raise Invalid(message)


def read(req: Request, body: Body) -> Any:  # noqa: ANN401 -- the schema decides its type
    """Return the validated body. Raises UnsupportedMedia, TooLarge, Invalid."""
    media_type = (req.content_type or "None").partition(";")[0].strip()
    if media_type.lower() != falcon.MEDIA_JSON:
        raise UnsupportedMedia(f"The media type {media_type} is not supported, use {falcon.MEDIA_JSON}")
    raw = read_bytes(req)
    try:
        value = parse_json(raw)
    except Invalid as error:
        raise Invalid(f"Malformed JSON: {error.message}") from error
    if not raw.strip():
        raise Invalid("Malformed JSON: there is no body.")
    body.check(value)
    return value


def set_last_modified(req: Request, resp: falcon.Response, updated_at: datetime) -> None:
    """Add the Last-Modified and Cache-Control headers, from 1.15 on."""
    if req.version >= LAST_MODIFIED:
        resp.last_modified = updated_at.replace(tzinfo=UTC)
        resp.cache_control = ["no-cache"]


def href(req: Request, path: str) -> str:
    """Return a link for a body: the path below the mount point."""
    return f"{req.root_path}{path}"


def no_content(resp: falcon.Response) -> None:
    """Respond 204."""
    resp.status = falcon.HTTP_204


def typeless_when_empty(app: "WSGIApplication") -> "WSGIApplication":
    """Wrap an application: empty responses have no Content-Type."""

    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Callable[[bytes], object]:  # noqa: ANN401
            if ("content-length", "0") in headers:
                headers = [(name, value) for name, value in headers if name != "content-type"]
            return start_response(status, headers, *error)

        return app(environ, start)

    return wrapped


def created(resp: falcon.Response, location: str) -> None:
    """Respond 201 with a Location and no body."""
    resp.status = falcon.HTTP_201
    resp.location = location
