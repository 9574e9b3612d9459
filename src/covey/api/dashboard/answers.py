"""Answers of the dashboard: JSON or a file, packed where the client takes that, and not sent twice when it is known."""

import gzip
import hashlib
from dataclasses import dataclass, field

import falcon
import msgspec

from covey.api.requests import Request, query_lists
from covey.model.errors import Invalid

REVALIDATE = "private, no-cache"  # a browser may keep it, and has to ask whether it still holds
_WORTH_IT = 1400  # bytes: less goes in one packet anyway
_QUICK = 1  # of gzip's levels


@dataclass(slots=True)
class Body:
    """The bytes of an answer; packed once, when somebody takes them so."""

    plain: bytes
    content_type: str = falcon.MEDIA_JSON
    tag: str = field(init=False)
    _packed: bytes | None = None

    def __post_init__(self) -> None:
        self.tag = hashlib.blake2b(self.plain, digest_size=12).hexdigest()

    @property
    def packed(self) -> bytes:
        if self._packed is None:
            self._packed = gzip.compress(self.plain, _QUICK, mtime=0)
        return self._packed


def as_json(value: object) -> Body:
    """A value as the body of an answer."""
    return Body(msgspec.json.encode(value))


def send(req: Request, resp: falcon.Response, body: Body) -> None:
    """The body, or just 304 to who has it already."""
    packs = len(body.plain) >= _WORTH_IT and "gzip" in req.get_header("Accept-Encoding", default="").lower()
    tag = f"{body.tag}-gzip" if packs else body.tag
    resp.set_headers({"Cache-Control": REVALIDATE, "Vary": "Accept-Encoding, Authorization, X-Auth-Token"})
    resp.etag = falcon.ETag(tag)
    if any(known in {"*", tag} for known in req.if_none_match or ()):
        resp.status = falcon.HTTP_304
        return
    resp.content_type = body.content_type
    if packs:
        resp.set_header("Content-Encoding", "gzip")
    resp.data = body.packed if packs else body.plain


def number(req: Request, name: str, default: int, most: int) -> int:
    """A number from the query, from 0 to the most that it may be. Raises Invalid."""
    given = query_lists(req).get(name, [str(default)])[-1]
    if not (given.isascii() and given.isdecimal() and len(given) < len(str(2**31)) and int(given) <= most):
        raise Invalid(f"Invalid input for query parameter {name}: {given!r} is not a number from 0 to {most}.")
    return int(given)


class Guarded:
    """What every answer tells a browser: trust nothing but what comes from here, and tell nobody else of it."""

    def process_response(self, _: Request, resp: falcon.Response, __: object, ___: bool) -> None:  # noqa: FBT001
        resp.set_headers(_HEADERS)


_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
