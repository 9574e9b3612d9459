"""The Placement API's error bodies, and its checks of methods and media types."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import falcon
import msgspec

from covey.api.errors import STATUS, handle_unexpected_errors
from covey.api.placement.microversions import ERROR_CODES, VERSIONS
from covey.api.requests import Json, Request
from covey.model.errors import CoveyError, Invalid

_UNDEFINED = "placement.undefined_code"
CODES = {
    "concurrent_update": "placement.concurrent_update",
    "policy_violation": "covey.policy_violation",
    "duplicate_name": "placement.duplicate_name",
    "inventory_in_use": "placement.inventory.inuse",
    "provider_in_use": "placement.resource_provider.inuse",
    "provider_has_children": "placement.resource_provider.cannot_delete_parent",
    "unknown_provider": "placement.resource_provider.not_found",
    "duplicate_key": "placement.query.duplicate_key",
    "bad_value": "placement.query.bad_value",
    "missing_value": "placement.query.missing_value",
}
_GENERIC = {
    HTTPStatus.BAD_REQUEST: "The server could not comply with the request since it is either malformed or otherwise "
    "incorrect.",
    HTTPStatus.FORBIDDEN: "Access was denied to this resource.",
    HTTPStatus.NOT_FOUND: "The resource could not be found.",
    HTTPStatus.NOT_ACCEPTABLE: "The resource could not be given in a form that is acceptable to the client.",
    HTTPStatus.CONFLICT: "There was a conflict when trying to complete your request.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The request's media type is not supported by this server.",
}
_ANY_ACCEPT = frozenset({"/", "/traits/{name}"})  # routes that do not check the Accept header


@dataclass(frozen=True, slots=True)
class MethodPolicy:
    """Middleware that checks the method and the media types of every request."""

    methods: Mapping[str, Sequence[str]]  # by route template

    def process_request(self, req: Request, _: falcon.Response) -> None:
        """Raise Invalid for a body without a Content-Type."""
        if (req.content_length or 0) > 0 and not req.content_type:
            raise Invalid("content-type header required when content-length > 0")

    def process_resource(self, req: Request, _: falcon.Response, __: object, ___: object) -> None:
        """Raise an HTTP error for an unknown method, or for a caller that does not accept JSON."""
        template = req.uri_template or ""
        if req.method not in self.methods[template]:
            raise falcon.HTTPMethodNotAllowed(self.methods[template])
        if req.method == "GET" and template not in _ANY_ACCEPT and not req.client_accepts(falcon.MEDIA_JSON):
            raise falcon.HTTPNotAcceptable(description="Only application/json is provided")


def install(app: falcon.App[Request, falcon.Response]) -> None:
    """Handle every error of an application as Placement does."""

    def expected(req: Request, resp: falcon.Response, error: CoveyError, _: object) -> None:
        _respond(req, resp, STATUS[error.code], error.message, CODES.get(error.code, _UNDEFINED))

    def no_route(req: Request, resp: falcon.Response, _: falcon.HTTPError, __: object) -> None:
        _respond(req, resp, HTTPStatus.NOT_FOUND, "")

    def no_method(req: Request, resp: falcon.Response, error: falcon.HTTPMethodNotAllowed, _: object) -> None:
        resp.set_headers(error.headers or {})
        _respond(req, resp, HTTPStatus.METHOD_NOT_ALLOWED, f"The method {req.method} is not allowed for this resource.")

    handle_unexpected_errors(app, _respond)
    app.add_error_handler(falcon.HTTPRouteNotFound, no_route)
    app.add_error_handler(falcon.HTTPMethodNotAllowed, no_method)
    app.add_error_handler(CoveyError, expected)


def _respond(req: Request, resp: falcon.Response, status: HTTPStatus, message: str, code: str = _UNDEFINED) -> None:
    resp.status = status
    generic = _GENERIC.get(status, "")
    detail = f"{generic}\n\n {message}  " if generic else message
    if req.client_accepts(falcon.MEDIA_JSON) or not req.client_accepts(falcon.MEDIA_HTML):
        resp.content_type = falcon.MEDIA_JSON
        resp.data = msgspec.json.encode({"errors": [_error(req, status, detail, code)]})
    else:
        resp.content_type = falcon.MEDIA_HTML
        resp.text = f"<html><title>{status.phrase}</title><body>{html.escape(detail)}</body></html>"


def _error(req: Request, status: HTTPStatus, detail: str, code: str) -> Json:
    context = req.context
    error: Json = {"status": status.value, "title": status.phrase, "detail": detail}
    if context.version is not None and context.version >= ERROR_CODES:
        error["code"] = code
    error["request_id"] = context.request_id
    if status == HTTPStatus.NOT_ACCEPTABLE and context.version is None:
        error |= {"max_version": str(VERSIONS.maximum), "min_version": str(VERSIONS.minimum)}
    return error
