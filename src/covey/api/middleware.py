"""Dispatch to an API; request id, authentication, microversion, log line and metrics of every request."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import falcon
import structlog

from covey.api.authentication import Authenticator
from covey.api.metrics import Metrics
from covey.api.requests import BodyReads, Request
from covey.api.versions import NotAcceptable, Version, VersionRange
from covey.clock_and_ids import random_uuid
from covey.model.control_characters import CONTROL
from covey.model.errors import Busy, Forbidden, Invalid
from covey.request_slots import BUSY

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = structlog.get_logger("covey.http")

_RETRY_AFTER_S = "1"
_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION_HEADER = "OpenStack-API-Version"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset(
    {"same-origin", "none"}
)  # values of Sec-Fetch-Site; none is a request of the user, not of a page


@dataclass(frozen=True, slots=True)
class RequestMiddleware:
    """Falcon middleware of one API."""

    api: str
    authenticate: Authenticator
    metrics: Metrics
    is_open: Callable[[Request], bool]  # whether a request needs no authentication
    max_body_bytes: int
    bodies: BodyReads
    max_limit: int
    public_url: str | None = None
    versions: VersionRange | None = None
    rewrite: Callable[[Request], None] | None = None
    loggable: Callable[[str], str] | None = None  # removes secrets from a path
    id_header: str | None = None
    root_has_version: bool = False  # whether the root's version document negotiates a version too
    routes_options: bool = False  # whether OPTIONS is routed like other methods
    allows_origin: Callable[[str], bool] | None = None  # whether pages of another origin may request changes
    is_routine: Callable[[Request], bool] | None = None  # requests that are logged at the level debug if they succeed

    def process_request(self, req: Request, _: falcon.Response) -> None:
        """Set request id, actor and version on the context.

        Raises Unauthorized, Forbidden, Invalid, Busy, NotAcceptable.
        """
        context = req.context
        context.started = time.perf_counter()
        context.request_id = f"req-{random_uuid()}"
        sent = req.get_header("X-OpenStack-Request-ID")
        context.global_request_id = sent if sent is not None and _REQUEST_ID.fullmatch(sent) else None
        context.logged_path = req.path if self.loggable is None else self.loggable(req.path)
        context.max_body_bytes = self.max_body_bytes
        context.bodies = self.bodies
        context.max_limit = self.max_limit
        context.base_url = f"{self.public_url}{req.root_path}" if self.public_url else req.prefix
        if BUSY in req.env:
            raise Busy("Too many requests wait for this process. Retry in 1 second.")
        if "\0" in req.path or "%00" in req.query_string:
            raise Invalid("A request may not contain the character U+0000.")
        if CONTROL.search(req.path):
            raise Invalid("A path may not contain control characters.")
        if req.method not in _READS:
            self._reject_cross_site(req)
        if not self.is_open(req):
            context.actor = self.authenticate(req.env)
        if self.versions is not None and (self.root_has_version or req.path != "/"):
            context.version = negotiate(req, self.versions)
        if self.rewrite is not None:
            self.rewrite(req)
        # Falcon answers OPTIONS by itself on every route; Nova does not.
        if req.method == "OPTIONS" and not self.routes_options:
            raise falcon.HTTPMethodNotAllowed([])

    def process_response(self, req: Request, resp: falcon.Response, _: object, succeeded: bool) -> None:  # noqa: FBT001
        """Add the request id and version headers, then count and log the request."""
        context = req.context
        resp.set_header("x-openstack-request-id", context.request_id)
        if self.id_header:
            resp.set_header(self.id_header, context.request_id)
        if self.versions is not None and context.version is not None and resp.content_type != falcon.MEDIA_HTML:
            resp.set_headers(self.versions.headers(context.version, req.get_header(_VERSION_HEADER) or ""))
        if resp.status_code == HTTPStatus.UNAUTHORIZED:
            resp.set_header("WWW-Authenticate", self.authenticate.challenge)
        if resp.status_code == HTTPStatus.SERVICE_UNAVAILABLE and resp.get_header("Retry-After") is None:
            resp.set_header("Retry-After", _RETRY_AFTER_S)
        self._record(req, resp.status_code)

    def _reject_cross_site(self, req: Request) -> None:
        """Raise Forbidden for a change that a browser requests for a page of another origin.

        The browser may add the user's credentials. Clients other than browsers send neither header.
        """
        site, origin = req.get_header("Sec-Fetch-Site"), req.get_header("Origin")
        if site is None:
            is_own = origin is None or origin.partition("://")[2] == req.get_header("Host")
        else:
            is_own = site in _OWN_SITES
        if not is_own and not (origin and self.allows_origin and self.allows_origin(origin)):
            raise Forbidden("A web page of another origin may request no changes, unless [cors] allows that origin.")

    def _record(self, req: Request, status: int) -> None:
        context = req.context
        seconds = time.perf_counter() - context.started
        self.metrics.count(self.api, req.uri_template or "", req.method, status, seconds)
        joined = {} if context.global_request_id is None else {"global_request_id": context.global_request_id}
        routine = self.is_routine is not None and status < HTTPStatus.BAD_REQUEST and self.is_routine(req)
        write = log.debug if routine else log.info
        write(
            "http.request",
            request_id=context.request_id,
            api=self.api,
            method=req.method,
            path=context.logged_path,
            status=status,
            ms=round(seconds * 1000, 2),
            user=context.actor.user_id if context.actor else None,
            project=context.actor.project_id if context.actor else None,
            **joined,
        )


def negotiate(req: Request, versions: VersionRange) -> Version:
    """Return the version that a request asks for. Raises Invalid if malformed and NotAcceptable if out of range."""
    legacy = versions.legacy_header
    try:
        return versions.negotiate(req.get_header(_VERSION_HEADER) or "", req.get_header(legacy) if legacy else None)
    except NotAcceptable as error:
        req.context.version = error.requested  # the headers of the response repeat it
        raise


@dataclass(frozen=True, slots=True)
class VersionedPaths:
    """The paths of an API below its version, where a project id may come first: /v2.1/{project_id}/servers."""

    prefix: str
    open_paths: frozenset[str]
    roots: frozenset[str]  # first segments of the routes

    def is_open(self, req: Request) -> bool:
        """Return whether a path needs no authentication: the open paths, and paths outside the version."""
        return req.path.rstrip("/") in self.open_paths or not req.path.startswith(f"{self.prefix}/")

    def remove_project(self, req: Request) -> None:
        """Remove the project id from the path. Raises Invalid if it is not the caller's own."""
        if not req.path.startswith(f"{self.prefix}/"):
            return
        first, slash, rest = req.path[len(self.prefix) + 1 :].partition("/")
        if not slash or first in self.roots:
            return
        if first != req.actor.project_id:
            raise Invalid(
                f"Malformed request URL: URL's project_id '{first}' doesn't match "
                f"Context's project_id '{req.actor.project_id}'"
            )
        req.path = f"{self.prefix}/{rest}"


class Mounts:
    """Calls the application that is mounted at the first path segment, or the root application."""

    def __init__(self, below: Mapping[str, "WSGIApplication"], root: "WSGIApplication") -> None:
        self._below = below
        self._root = root

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        first = path[1:].partition("/")[0]
        app = self._below.get(first)
        if app is None:
            return self._root(environ, start_response)
        environ["SCRIPT_NAME"] = f"{environ.get('SCRIPT_NAME', '')}/{first}"
        environ["PATH_INFO"] = path[len(first) + 1 :] or "/"
        return app(environ, start_response)
