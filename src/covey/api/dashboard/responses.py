"""Responses of the dashboard: compressed where the client accepts it, and 304 when it has them already."""

import gzip
import hashlib
from dataclasses import dataclass, field

import falcon
import msgspec

from covey.api.requests import Request, query_lists
from covey.model.errors import Invalid

REVALIDATE = "private, no-cache"  # a browser may cache it, and must revalidate it
_MIN_COMPRESSED_BYTES = 1400  # a smaller body fits one packet
_GZIP_LEVEL = 1


@dataclass(slots=True)
class Body:
    """The bytes of a response; compressed once, on first use."""

    plain: bytes
    content_type: str = falcon.MEDIA_JSON
    etag: str = field(init=False)
    _compressed: bytes | None = None

    def __post_init__(self) -> None:
        self.etag = hashlib.blake2b(self.plain, digest_size=12).hexdigest()

    @property
    def compressed(self) -> bytes:
        if self._compressed is None:
            self._compressed = gzip.compress(self.plain, _GZIP_LEVEL, mtime=0)
        return self._compressed


def as_json(value: object) -> Body:
    """Return a value as a JSON body."""
    return Body(msgspec.json.encode(value))


def send(req: Request, resp: falcon.Response, body: Body) -> None:
    """Respond with the body, or 304 if the client has it already."""
    accepts_gzip = "gzip" in req.get_header("Accept-Encoding", default="").lower()
    compress = accepts_gzip and len(body.plain) >= _MIN_COMPRESSED_BYTES
    etag = f"{body.etag}-gzip" if compress else body.etag
    resp.set_headers({"Cache-Control": REVALIDATE, "Vary": "Accept-Encoding, Authorization, X-Auth-Token"})
    resp.etag = falcon.ETag(etag)
    if any(cached in {"*", etag} for cached in req.if_none_match or ()):
        resp.status = falcon.HTTP_304
        return
    resp.content_type = body.content_type
    if compress:
        resp.set_header("Content-Encoding", "gzip")
    resp.data = body.compressed if compress else body.plain


def number(req: Request, name: str, default: int, maximum: int) -> int:
    """Return a query parameter from 0 to the maximum. Raises Invalid."""
    text = query_lists(req).get(name, [str(default)])[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(2**31)) and int(text) <= maximum):
        raise Invalid(f"Invalid input for query parameter {name}: {text!r} is not a number from 0 to {maximum}.")
    return int(text)


class SecurityHeaders:
    """Middleware that adds the security headers of the page to every response."""

    def process_response(self, _: Request, resp: falcon.Response, __: object, ___: bool) -> None:  # noqa: FBT001
        resp.set_headers(_HEADERS)


_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
