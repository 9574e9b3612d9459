"""CORS: answers preflight requests and marks responses for web pages of other origins."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import falcon
from falcon import CORSMiddleware

from covey.api.requests import Request

_WILDCARD = "*"
_ALLOW_ORIGIN = "Access-Control-Allow-Origin"
_SIMPLE_HEADERS = frozenset(
    {
        "accept",
        "accept-language",
        "cache-control",
        "content-language",
        "content-type",
        "expires",
        "last-modified",
        "pragma",
    }
)


class Cors:
    """Falcon's middleware, and a preflight that applies the operator's lists of methods and headers."""

    def __init__(
        self,
        origins: Sequence[str],
        methods: Sequence[str],
        headers: Sequence[str] = (),
        expose_headers: Sequence[str] = (),
        max_age_s: int = 0,
        *,
        credentials: bool = True,
    ) -> None:
        any_origin = _WILDCARD in origins
        self._falcon: CORSMiddleware[Any, Any] = CORSMiddleware(
            _WILDCARD if any_origin else origins,
            expose_headers or None,
            # Falcon echoes the origin to allow credentials. For a wildcard that would admit every site on the web.
            _WILDCARD if credentials and not any_origin else None,
        )
        self._origins = None if any_origin else frozenset(origins)
        self._methods = frozenset(methods)
        self._headers = _SIMPLE_HEADERS | {name.lower() for name in headers}
        self._max_age_s = max_age_s

    def allows(self, origin: str) -> bool:
        """Return whether web pages of the origin may send requests."""
        return self._origins is None or origin in self._origins

    def process_response(self, req: Request, resp: falcon.Response, resource: object, succeeded: bool) -> None:  # noqa: FBT001
        """Add the headers that an allowed origin needs; answer OPTIONS in place of the API."""
        if req.method == "OPTIONS":
            self._answer_preflight(req, resp)
        else:
            self._falcon.process_response(req, resp, resource, succeeded)
        if resp.get_header(_ALLOW_ORIGIN) is not None:
            resp.append_header("Vary", "Origin")

    def _answer_preflight(self, req: Request, resp: falcon.Response) -> None:
        """Browsers send OPTIONS without credentials, so a preflight is always 200."""
        if not HTTPStatus.OK <= resp.status_code < HTTPStatus.MULTIPLE_CHOICES:
            resp.status, resp.text = HTTPStatus.OK, ""
            resp.delete_header("WWW-Authenticate")
        method = req.get_header("Access-Control-Request-Method")
        requested = req.get_header("Access-Control-Request-Headers") or ""
        headers = [name.strip() for name in requested.split(",") if name.strip()]
        if method not in self._methods or not self._headers.issuperset(name.lower() for name in headers):
            return
        self._falcon.process_response(req, resp, None, req_succeeded=False)  # sets origin and credentials only
        if resp.get_header(_ALLOW_ORIGIN) is None:
            return
        resp.delete_header("Access-Control-Expose-Headers")
        resp.set_header("Access-Control-Allow-Methods", method)
        if headers:
            resp.set_header("Access-Control-Allow-Headers", ",".join(headers))
        if self._max_age_s:
            resp.set_header("Access-Control-Max-Age", str(self._max_age_s))
