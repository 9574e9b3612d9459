"""The Clustering API's errors: what kind it is stands inside, next to the sentence; and none has a version."""

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
    HTTPStatus.BAD_REQUEST: "The request is not as it has to be.",
    HTTPStatus.UNAUTHORIZED: "It is not known who is asking.",
    HTTPStatus.FORBIDDEN: "This is not allowed.",
    HTTPStatus.NOT_FOUND: "There is no such resource.",
    HTTPStatus.NOT_ACCEPTABLE: "The API does not speak this version.",
    HTTPStatus.CONFLICT: "This can't be done at the moment.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Something went wrong that should not have.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The service can't answer at the moment.",
}
_PLAIN = frozenset({"no_version", "plain"})  # told as text


class Malformed(Invalid):
    """A body or a query of the Clustering API that can't be read."""

    code = "malformed"


class Plain(Invalid):
    """A body or a query of the Clustering API that can't be read, where that API says so in plain text."""

    code = "plain"


def install(app: falcon.App[Request, falcon.Response]) -> None:
    """Makes an application answer every error as this API does."""

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
    req.context.version = None  # an error says of no version that it has answered
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
