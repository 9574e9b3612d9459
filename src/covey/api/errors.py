"""The HTTP status of each error code, and the error body of each API."""

from collections.abc import Callable
from http import HTTPStatus

import falcon
import msgspec
import structlog

from covey.api.requests import Request
from covey.model.errors import Busy, CoveyError

log = structlog.get_logger()

STATUS = {
    "not_found": HTTPStatus.NOT_FOUND,
    "invalid": HTTPStatus.BAD_REQUEST,
    "conflict": HTTPStatus.CONFLICT,
    "concurrent_update": HTTPStatus.CONFLICT,
    "policy_violation": HTTPStatus.CONFLICT,
    "read_only": HTTPStatus.CONFLICT,
    "duplicate_name": HTTPStatus.CONFLICT,
    "inventory_in_use": HTTPStatus.CONFLICT,
    "provider_in_use": HTTPStatus.CONFLICT,
    "provider_has_children": HTTPStatus.CONFLICT,
    "unknown_provider": HTTPStatus.BAD_REQUEST,
    "duplicate_key": HTTPStatus.BAD_REQUEST,
    "bad_value": HTTPStatus.BAD_REQUEST,
    "missing_value": HTTPStatus.BAD_REQUEST,
    "forbidden": HTTPStatus.FORBIDDEN,
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "missing_extra": HTTPStatus.NOT_IMPLEMENTED,
    "over_quota": HTTPStatus.FORBIDDEN,
    "busy": HTTPStatus.SERVICE_UNAVAILABLE,
    "stale_claim": HTTPStatus.SERVICE_UNAVAILABLE,
    "no_host": HTTPStatus.BAD_REQUEST,
    "no_valid_host": HTTPStatus.BAD_REQUEST,
    "driver_fault": HTTPStatus.SERVICE_UNAVAILABLE,
    "lease_lost": HTTPStatus.SERVICE_UNAVAILABLE,
    "operation_in_progress": HTTPStatus.SERVICE_UNAVAILABLE,
    "not_acceptable": HTTPStatus.NOT_ACCEPTABLE,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "unsupported_media": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "malformed": HTTPStatus.BAD_REQUEST,
    "plain": HTTPStatus.BAD_REQUEST,
    "no_version": HTTPStatus.BAD_REQUEST,
    "not_in_version": HTTPStatus.BAD_REQUEST,
    "ambiguous": HTTPStatus.BAD_REQUEST,
    "bad_spec": HTTPStatus.BAD_REQUEST,
    "binding_not_found": HTTPStatus.NOT_FOUND,
    "locked": HTTPStatus.CONFLICT,
    "action_conflict": HTTPStatus.CONFLICT,
    "cooldown": HTTPStatus.CONFLICT,
    "in_progress": HTTPStatus.CONFLICT,
    "immutable": HTTPStatus.CONFLICT,
    "still_in_use": HTTPStatus.CONFLICT,
    "not_supported": HTTPStatus.CONFLICT,
}

Render = Callable[[HTTPStatus, str], object]
"""Returns the error body of one API."""

NoRoute = Callable[[Request, falcon.Response], None]
"""Responds to an unknown path, or to an unknown method on a path."""

COMPUTE_NAMES = {
    HTTPStatus.BAD_REQUEST: "badRequest",
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "itemNotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "badMethod",
    HTTPStatus.CONFLICT: "conflictingRequest",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "overLimit",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "badMediaType",
    HTTPStatus.NOT_IMPLEMENTED: "notImplemented",
    HTTPStatus.SERVICE_UNAVAILABLE: "serviceUnavailable",
}


def compute_fault(status: HTTPStatus, message: str) -> object:
    """Return Nova's error body: the fault's name, then code and message."""
    fault: dict[str, object] = {"code": status.value, "message": message}
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        fault["retryAfter"] = 0
    return {COMPUTE_NAMES.get(status, "computeFault"): fault}


def plain_error(status: HTTPStatus, message: str) -> object:
    """Return the error body of the identity and image APIs."""
    return {"error": {"code": status.value, "title": status.phrase, "message": message}}


def no_such_route(_: Request, resp: falcon.Response) -> None:
    """Respond 404 to an unknown path or method, in the common form."""
    resp.status = falcon.HTTP_404
    resp.content_type = falcon.MEDIA_JSON
    resp.data = msgspec.json.encode(plain_error(HTTPStatus.NOT_FOUND, "The resource could not be found."))


Respond = Callable[[Request, falcon.Response, HTTPStatus, str], None]
"""Writes an error response in the form of one API."""


def handle_unexpected_errors(app: falcon.App[Request, falcon.Response], respond: Respond) -> None:
    """Handle Falcon's HTTP errors, and unexpected exceptions as a 500 without a stack trace."""

    def http_error(req: Request, resp: falcon.Response, error: falcon.HTTPError, _: object) -> None:
        respond(req, resp, HTTPStatus(error.status_code), error.description or error.title or "")

    def unexpected(req: Request, resp: falcon.Response, error: Exception, _: object) -> None:
        path = req.context.logged_path or req.path
        log.error("http.crashed", request_id=req.context.request_id, path=path, exc_info=error)
        message = f"Unexpected API Error. Please report the request id {req.context.request_id} to your operator."
        respond(req, resp, HTTPStatus.INTERNAL_SERVER_ERROR, message)

    app.add_error_handler(Exception, unexpected)
    app.add_error_handler(falcon.HTTPError, http_error)


def install(app: falcon.App[Request, falcon.Response], render: Render, no_route: NoRoute) -> None:
    """Handle every error of an application in its own form."""

    def respond(_: Request, resp: falcon.Response, status: HTTPStatus, message: str) -> None:
        resp.status = status
        resp.content_type = "application/json; charset=UTF-8"
        resp.data = msgspec.json.encode(render(status, message))

    def expected(req: Request, resp: falcon.Response, error: CoveyError, _: object) -> None:
        respond(req, resp, STATUS[error.code], error.message)
        if isinstance(error, Busy):
            resp.retry_after = error.retry_after_s

    def unknown_route(req: Request, resp: falcon.Response, _: falcon.HTTPError, __: object) -> None:
        no_route(req, resp)

    handle_unexpected_errors(app, respond)
    app.add_error_handler(falcon.HTTPRouteNotFound, unknown_route)
    app.add_error_handler(falcon.HTTPMethodNotAllowed, unknown_route)
    app.add_error_handler(CoveyError, expected)
