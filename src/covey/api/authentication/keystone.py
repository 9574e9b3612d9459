"""auth_strategy=keystone: tokens, validated by keystonemiddleware."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from keystoneauth1.exceptions import AuthPluginException
from keystonemiddleware.auth_token import AuthProtocol
from oslo_config import cfg

from covey.model.access import Actor
from covey.model.errors import Invalid, Unauthorized, Unavailable
from covey.model.ids import ProjectId, UserId
from covey.request_slots import RequestSlots

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_VALIDATED_ENVIRON = "covey.keystone_environ"
_NEEDS = "auth_strategy=keystone needs auth_type, auth_url and credentials in [keystone_authtoken]."


class KeystoneAuth:
    """Runs keystonemiddleware around an empty application and reads the identity headers that it sets.

    The middleware removes identity headers that a caller sent.
    """

    def __init__(self, conf: cfg.ConfigOpts, request_slots: RequestSlots) -> None:
        self._slots = request_slots
        try:
            # With delay_auth_decision the middleware reports every token as invalid while Keystone is unreachable.
            self._middleware = AuthProtocol(_keep_environ, {"oslo_config_config": conf, "delay_auth_decision": False})
        except AuthPluginException as error:
            raise Invalid(f"{_NEEDS} {error}") from error
        options = conf.keystone_authtoken
        if not options.auth_type:
            raise Invalid(_NEEDS)
        self.challenge = f"Keystone uri='{options.www_authenticate_uri or options.auth_url}'"

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        identity: dict[str, Any] = {}
        statuses: list[str] = []
        with self._slots.released():  # the middleware may call Keystone
            self._middleware({**environ, _VALIDATED_ENVIRON: identity}, lambda status, *_: statuses.append(status))
        if statuses[0].startswith("401"):
            raise Unauthorized("The request you have made requires authentication.")
        if not identity:
            raise Unavailable("The identity service does not answer. Try again in a moment.")
        return Actor(
            user_id=UserId(identity["HTTP_X_USER_ID"]),
            project_id=ProjectId(identity.get("HTTP_X_PROJECT_ID") or ""),
            roles=frozenset(role.lower() for role in identity.get("HTTP_X_ROLES", "").split(",") if role),
            user_name=identity.get("HTTP_X_USER_NAME", ""),
            project_name=identity.get("HTTP_X_PROJECT_NAME") or "",
            system_scoped=bool(identity.get("HTTP_OPENSTACK_SYSTEM_SCOPE")),
        )


def _keep_environ(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    environ[_VALIDATED_ENVIRON].update(environ)
    start_response("200 OK", [])
    return []
