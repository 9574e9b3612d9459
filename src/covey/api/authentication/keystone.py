"""auth_strategy=keystone: tokens, checked by keystonemiddleware against a real Keystone."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from keystonemiddleware.auth_token import AuthProtocol
from oslo_config import cfg

from covey.model.access import Actor
from covey.model.errors import Unauthorized, Unavailable
from covey.model.ids import ProjectId, UserId

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_FOUND = "covey.keystone_environ"


class Keystone:
    """Runs the middleware around nothing, and reads what it found out.

    So it is one of three ways to learn who is asking, and not a layer that all other code lives inside.
    The middleware itself removes identity headers that a caller sent.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._middleware = AuthProtocol(_note, {"oslo_config_config": conf, "delay_auth_decision": True})
        uri = conf.keystone_authtoken.www_authenticate_uri or conf.keystone_authtoken.auth_url
        self.challenge = f"Keystone uri='{uri}'"

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        seen: dict[str, Any] = {**environ, _FOUND: {}}
        self._middleware(seen, _ignore)
        found = seen[_FOUND]
        if not found:
            message = "The identity service does not answer. Try again in a moment."
            raise Unavailable(message)
        if found.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            message = "The request you have made requires authentication."
            raise Unauthorized(message)
        return Actor(
            user_id=UserId(found["HTTP_X_USER_ID"]),
            project_id=ProjectId(found.get("HTTP_X_PROJECT_ID") or ""),
            roles=frozenset(role.lower() for role in found.get("HTTP_X_ROLES", "").split(",") if role),
            user_name=found.get("HTTP_X_USER_NAME", ""),
            project_name=found.get("HTTP_X_PROJECT_NAME") or "",
        )


def _note(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    environ[_FOUND].update(environ)
    start_response("200 OK", [])
    return []


def _ignore(*_: object) -> Any:  # noqa: ANN401 -- WSGI wants a write function, which nobody calls
    return lambda data: None  # noqa: ARG005
