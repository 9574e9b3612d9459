"""The error responses of the Clustering API. They carry no version header."""

from http import HTTPStatus

import falcon
import msgspec

from covey.api.errors import STATUS, handle_unexpected_errors
from covey.api.requests import Json, Request
from covey.model.errors import CoveyError, Invalid

TYPES = {
    "malformed": "HTTPBadRequest",
    "not_in_version": "MethodVersionNotFound",
    "not_acceptable": "InvalidGlobalAPIVersion",
    "not_found": "ResourceNotFound",
    "binding_not_found": "PolicyBindingNotFound",
    "ambiguous": "MultipleChoices",
    "bad_spec": "InvalidSpec",
    "locked": "ResourceIsLocked",
    "action_conflict": "ActionConflict",
    "cooldown": "ActionCooldown",
    "in_progress": "ActionInProgress",
    "immutable": "ActionImmutable",
    "still_in_use": "ResourceInUse",
    "not_supported": "FeatureNotSupported",
    "too_large": "RequestLimitExceeded",
}
_BY_STATUS = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "ResourceNotFound",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}
_EXPLANATIONS = {
    HTTPStatus.BAD_REQUEST: "The request is invalid.",
    HTTPStatus.UNAUTHORIZED: "Authentication is required.",
    HTTPStatus.FORBIDDEN: "Access is denied.",
    HTTPStatus.NOT_FOUND: "The resource does not exist.",
    HTTPStatus.NOT_ACCEPTABLE: "The API does not support this version.",
    HTTPStatus.CONFLICT: "The request conflicts with the current state.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "An unexpected error occurred.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The service is unavailable.",
}
_PLAIN = frozenset({"no_version", "plain"})  # answered in plain text


class Malformed(Invalid):
    """A body or query of the Clustering API is malformed."""

    code = "malformed"


class Plain(Invalid):
    """A body or query of the Clustering API is malformed, and Senlin answers in plain text."""

    code = "plain"


def install(app: falcon.App[Request, falcon.Response]) -> None:
    """Install the error handlers of this API."""

    def expected(req: Request, resp: falcon.Response, error: CoveyError, _: object) -> None:
        status = STATUS[error.code]
        if error.code in _PLAIN:
            _text(req, resp, status, error.message)
        else:
            _answer(req, resp, status, error.message, TYPES.get(error.code))

    def no_route(req: Request, resp: falcon.Response, _: falcon.HTTPError, __: object) -> None:
        _text(req, resp, HTTPStatus.NOT_FOUND, "404 Not Found\n\nThe resource could not be found.\n")

    handle_unexpected_errors(app, _answer)
    app.add_error_handler(falcon.HTTPRouteNotFound, no_route)
    app.add_error_handler(falcon.HTTPMethodNotAllowed, no_route)
    app.add_error_handler(CoveyError, expected)


def _answer(req: Request, resp: falcon.Response, status: HTTPStatus, message: str, kind: str | None = None) -> None:
    req.context.version = None  # no version header
    error: Json = {
        "code": status.value,
        "message": message,
        "type": kind or _BY_STATUS.get(status, "InternalError"),
    }
    explanation = _EXPLANATIONS.get(status, status.phrase)
    resp.status, resp.content_type = status, falcon.MEDIA_JSON
    resp.data = msgspec.json.encode(
        {"code": status.value, "title": status.phrase, "explanation": explanation, "error": error}
    )


def _text(req: Request, resp: falcon.Response, status: HTTPStatus, message: str) -> None:
    req.context.version = None
    resp.status, resp.content_type, resp.text = status, falcon.MEDIA_TEXT, message
