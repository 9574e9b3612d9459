"""What happens to every request before and after its resource: id, identity, version, log line, metrics."""

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import falcon
import structlog

from covey.api.authentication import Authenticator
from covey.api.metrics import Metrics
from covey.api.requests import Request
from covey.api.versions import NotAcceptable, Version, VersionRange
from covey.model.errors import Invalid

log = structlog.get_logger("covey.http")


@dataclass(frozen=True, slots=True)
class RequestMiddleware:
    """One API's way of meeting its callers."""

    api: str
    authenticate: Authenticator
    metrics: Metrics
    is_open: Callable[[Request], bool]  # discovery, which needs no identity
    max_body_bytes: int
    public_url: str | None = None
    spoken: VersionRange | None = None
    rewrite: Callable[[Request], None] | None = None
    id_header: str | None = None
    root_has_version: bool = False  # whether even the document of all versions is asked for in one of them
    routes_options: bool = False  # whether OPTIONS goes the way of every method

    def process_request(self, req: Request, _: falcon.Response) -> None:
        """Puts request id, actor and version on the context. Raises Unauthorized, Invalid, NotAcceptable."""
        context = req.context
        context.started = time.perf_counter()
        context.request_id = f"req-{uuid.UUID(int=random.getrandbits(128), version=4)}"
        context.max_body_bytes = self.max_body_bytes
        context.base_url = f"{self.public_url}{req.root_path}" if self.public_url else req.prefix
        if "\0" in req.path or "%00" in req.query_string:
            raise Invalid("A request may not contain the character U+0000.")
        if not self.is_open(req):
            context.actor = self.authenticate(req.env)
        if self.spoken is not None and (self.root_has_version or req.path != "/"):
            context.version = self._version(req, self.spoken)
        if self.rewrite is not None:
            self.rewrite(req)
        # Falcon would answer this one by itself, on every path that there is.
        if req.method == "OPTIONS" and not self.routes_options:
            raise falcon.HTTPMethodNotAllowed([])

    def process_response(self, req: Request, resp: falcon.Response, _: object, succeeded: bool) -> None:  # noqa: FBT001
        """Says which request and version this was, then counts and logs it."""
        context = req.context
        resp.set_header("x-openstack-request-id", context.request_id)
        if self.id_header:
            resp.set_header(self.id_header, context.request_id)
        if self.spoken is not None and context.version is not None and resp.content_type != falcon.MEDIA_HTML:
            resp.set_headers(self.spoken.headers(context.version))
        if resp.status_code == HTTPStatus.UNAUTHORIZED:
            resp.set_header("WWW-Authenticate", self.authenticate.challenge)
        self._account(req, resp.status_code)

    def _version(self, req: Request, spoken: VersionRange) -> Version:
        try:
            return spoken.chosen_by(req)
        except NotAcceptable as error:
            req.context.version = error.asked  # the answer's headers repeat it
            raise

    def _account(self, req: Request, status: int) -> None:
        context = req.context
        seconds = time.perf_counter() - context.started
        self.metrics.count(self.api, req.uri_template or "", req.method, status, seconds)
        log.info(
            "http.request",
            request_id=context.request_id,
            api=self.api,
            method=req.method,
            path=req.path,
            status=status,
            ms=round(seconds * 1000, 2),
            user=context.actor.user_id if context.actor else None,
            project=context.actor.project_id if context.actor else None,
        )
