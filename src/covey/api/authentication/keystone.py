"""auth_strategy=keystone: tokens, validated by keystonemiddleware."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import structlog
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import AuthPluginException, ClientException, NotFound
from keystoneauth1.plugin import AUTH_INTERFACE
from keystonemiddleware.auth_token import AuthProtocol
from keystonemiddleware.opts import list_auth_token_opts
from oslo_config import cfg

from covey.api.authentication.keystone_calls import CALL_S, DeadlineLock, DeadlineSession, KeystoneCalls
from covey.model.access import Actor
from covey.model.errors import Invalid, Unauthorized, Unavailable
from covey.model.ids import ProjectId, UserId
from covey.request_slots import RequestSlots

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = structlog.get_logger()

_VALIDATED_ENVIRON = "covey.keystone_environ"
_GROUP = "keystone_authtoken"
_TOKEN_CACHE_S = 10  # keystonemiddleware's own default is 300; a revoked token is valid until then
_NO_ANSWER = "The identity service does not answer. Try again in a moment."
_NEEDS = "auth_strategy=keystone needs auth_type, auth_url and credentials in [keystone_authtoken]."


class KeystoneAuth:
    """Runs keystonemiddleware around an empty application and reads the identity headers that it sets.

    The middleware removes identity headers that a caller sent.
    """

    def __init__(self, conf: cfg.ConfigOpts, request_slots: RequestSlots, max_calls: int) -> None:
        self._slots = request_slots
        self._calls = KeystoneCalls(request_slots, max_calls)
        for group, registered in list_auth_token_opts():
            conf.register_opts(registered, group)
        conf.set_default("token_cache_time", _TOKEN_CACHE_S, _GROUP)
        conf.set_default("http_connect_timeout", CALL_S, _GROUP)
        conf.set_default("http_request_max_retries", 1, _GROUP)
        try:
            self._middleware = _DeadlineMiddleware(conf, self._calls)
        except AuthPluginException as error:
            raise Invalid(f"{_NEEDS} {error}") from error
        options = conf.keystone_authtoken
        if not options.auth_type:
            raise Invalid(_NEEDS)
        self._conf = conf
        self.challenge = f"Keystone uri='{options.www_authenticate_uri or options.auth_url}'"

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        identity: dict[str, Any] = {}
        statuses: list[str] = []
        try:
            with self._slots.released():  # a cache in memcached may be slow, too
                self._middleware({**environ, _VALIDATED_ENVIRON: identity}, lambda status, *_: statuses.append(status))
        except ClientException as error:  # the middleware does not handle all of them
            raise Unavailable(_NO_ANSWER) from error
        if statuses[0].startswith("401"):
            raise Unauthorized("The request you have made requires authentication.")
        if not identity:
            raise Unavailable(_NO_ANSWER)
        project = identity.get("HTTP_X_PROJECT_ID")  # absent for tokens of a domain or of the system
        return Actor(
            user_id=UserId(identity["HTTP_X_USER_ID"]),
            project_id=ProjectId(project) if project else None,
            roles=frozenset(role.lower() for role in identity.get("HTTP_X_ROLES", "").split(",") if role),
            user_name=identity.get("HTTP_X_USER_NAME", ""),
            project_name=identity.get("HTTP_X_PROJECT_NAME") or "",
            system_scoped=bool(identity.get("HTTP_OPENSTACK_SYSTEM_SCOPE")),
        )

    def remaining_roles(self, user: UserId, project: ProjectId, roles: frozenset[str]) -> frozenset[str]:
        """Return those of the roles that Keystone still assigns, also by groups; none for a disabled user.

        Raises Unavailable if Covey's own user may not show users and list role assignments; Busy.
        """
        try:
            with self._calls.calling():
                return roles & self._assigned_roles(user, project)
        except NotFound:
            return frozenset()
        except ClientException as error:
            log.warning("keystone.roles_unknown", user=user, project=project, reason=str(error))
            raise Unavailable(
                "The identity service does not list the roles of the user. Ask an operator to permit it."
            ) from error

    def _assigned_roles(self, user: str, project: str) -> frozenset[str]:
        options = self._conf.keystone_authtoken
        verify = False if options.insecure else options.cafile or True
        session = DeadlineSession(loading.load_auth_from_conf_options(self._conf, _GROUP), verify=verify)
        keystone = Adapter(session, interface=cast("str", AUTH_INTERFACE), version="3")
        if not keystone.get(f"/users/{user}").json()["user"]["enabled"]:
            return frozenset()
        query = {"user.id": user, "scope.project.id": project, "effective": "", "include_names": ""}
        assignments = keystone.get("/role_assignments", params=query).json()["role_assignments"]
        return frozenset(assignment["role"]["name"].lower() for assignment in assignments)


class _DeadlineMiddleware(AuthProtocol):  # type: ignore[misc]  # it has no types
    """The middleware around an empty application. It waits for Keystone up to the deadline of a request."""

    def __init__(self, conf: cfg.ConfigOpts, calls: KeystoneCalls) -> None:
        self._calls = calls
        # With delay_auth_decision the middleware reports every token as invalid while Keystone is unreachable.
        super().__init__(_keep_environ, {"oslo_config_config": conf, "delay_auth_decision": False})

    @property
    def _reject_auth_headers(self) -> list[tuple[str, str]]:
        """No headers: without www_authenticate_uri the middleware would ask Keystone for them."""
        return []

    def _create_auth_plugin(self) -> Any:  # noqa: ANN401
        plugin = super()._create_auth_plugin()
        if plugin is not None:
            plugin._lock = DeadlineLock()  # noqa: SLF001 -- its own waits without a limit
        return plugin

    def _create_session(self, **options: Any) -> DeadlineSession:  # noqa: ANN401
        plain = super()._create_session(**options)
        return DeadlineSession(
            verify=plain.verify, cert=plain.cert, timeout=plain.timeout, user_agent=self._conf.user_agent
        )

    def _create_identity_server(self) -> Any:  # noqa: ANN401
        server = super()._create_identity_server()
        verify = server.verify_token

        def verify_token(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 -- tokens that are not cached
            with self._calls.calling():
                return verify(*arguments, **options)

        server.verify_token = verify_token
        return server


def _keep_environ(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    environ[_VALIDATED_ENVIRON].update(environ)
    start_response("200 OK", [])
    return []
