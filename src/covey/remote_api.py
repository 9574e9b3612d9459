"""Calls the API of another OpenStack service, by a session of keystoneauth1."""

import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec
from oslo_config import cfg

from covey.model.errors import (
    Conflict,
    CoveyError,
    Forbidden,
    Invalid,
    NotFound,
    ServiceFault,
    Unauthorized,
    Unavailable,
)
from covey.model.extras import requires

if TYPE_CHECKING:
    from keystoneauth1.adapter import Adapter
    from keystoneauth1.exceptions import HttpError
    from keystoneauth1.session import Session

_TIMEOUT_S = 60.0
_RETRIES = 3  # after a refused connection, and after 503
# 502, 503 and 504 are answers of a proxy whose service does not answer.
_ERRORS: dict[int, type[CoveyError]] = {401: Unauthorized, 403: Forbidden, 404: NotFound, 500: ServiceFault}
_OF_PROJECT = re.compile(r"(.*/v\d+(?:\.\d+)?)/[^/]+/?")
_WRITE_ERRORS = {**_ERRORS, 400: Invalid, 409: Conflict}


class RemoteApi:
    """Requests to one service, at a microversion that the caller sets. Thread-safe."""

    def __init__(self, adapter: "Adapter", service: str) -> None:
        self._adapter = adapter
        self._service = service
        self._url: str | None = None
        self.version: str | None = None

    @property
    def url(self) -> str:
        """The address of the service, or the last one known. Raises Unavailable while the catalogue can't be read."""
        from keystoneauth1 import exceptions  # noqa: PLC0415 -- optional; `connect` has imported it

        try:
            self._url = self._adapter.get_endpoint() or self._url
        except exceptions.ClientException as error:
            if self._url is None:
                raise Unavailable(f"{self._service} cannot be reached: {error}") from error
        if self._url is None:
            raise Unavailable(f"{self._service} has no address in the catalogue.")
        return self._url

    def get(self, path: str, *, version: str | None = None, **query: str) -> Any:  # noqa: ANN401 -- a JSON document
        """Return the document at a path, by another microversion if given.

        Raises NotFound, Unauthorized, Forbidden, Unavailable; for 500, the ServiceFault among these.
        """
        from keystoneauth1 import exceptions  # noqa: PLC0415 -- optional; `connect` has imported it

        try:
            answer = self._adapter.get(path, params=query, microversion=version or self.version)
        except exceptions.HttpError as error:
            status = error.http_status
            raise _ERRORS.get(status, Unavailable)(f"{self._service} answered {status} to GET {path}.") from error
        except exceptions.ClientException as error:
            raise Unavailable(f"{self._service} cannot be reached: {error}") from error
        try:
            return msgspec.json.decode(answer.content)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"{self._service} did not answer GET {path} with JSON: is {self.url} its address?"
            ) from error

    def send(self, method: str, path: str, body: object = None) -> None:
        """Send a request that changes something, once: after no answer, it may have done so or not.

        Raises Invalid, Conflict, NotFound, Unauthorized, Forbidden and ServiceFault in the words of the service, and
        Unavailable.
        """
        from keystoneauth1 import exceptions  # noqa: PLC0415 -- optional; `connect` has imported it

        try:
            self._adapter.request(
                path,
                method,
                json=body,
                microversion=self.version,
                connect_retries=0,
                status_code_retries=0,
            )
        except exceptions.HttpError as error:
            kind = _WRITE_ERRORS.get(error.http_status, Unavailable)
            raise kind(f"{self._service} answered {error.http_status} to {method} {path}: {_words(error)}") from error
        except exceptions.ClientException as error:
            raise Unavailable(f"{self._service} cannot be reached: {error}") from error


def _words(error: "HttpError") -> str:
    """Return what the service said. Nova names its fault: {"badRequest": {"message": …}}."""
    try:
        faults = [] if error.response is None else list(error.response.json().values())
    except (AttributeError, ValueError):
        faults = []
    messages = [str(fault["message"]) for fault in faults if isinstance(fault, dict) and fault.get("message")]
    return "\n".join(messages) or str(error.message)


def connect(
    service: str,
    *,
    cloud: str | None = None,
    url: str | None = None,
    token: str | None = None,
    connections: int = 8,
    timeout_s: float = _TIMEOUT_S,
    retries: int = _RETRIES,
) -> RemoteApi:
    """Return the API of a service of a cloud. Raises Invalid, MissingExtra.

    The credentials are those of clouds.yaml and the OS_* variables, or a token for a service at a URL.
    """
    with requires("client", "The API of another service"):
        from keystoneauth1 import adapter  # noqa: PLC0415 -- optional
    logging.getLogger("keystoneauth").addHandler(logging.NullHandler())  # a retry is nothing to print
    session, place = _by_cloud(service, cloud) if token is None else (_by_token(url, token), {})
    session.timeout = timeout_s
    for transport in session.session.adapters.values():
        transport.init_poolmanager(connections, connections)  # type: ignore[attr-defined]
    if url is not None:
        place["endpoint_override"] = url
    made = adapter.Adapter(
        session,
        service_type=service,
        connect_retries=retries,
        status_code_retries=retries,
        user_agent="covey",
        **place,
    )
    return RemoteApi(made, service.capitalize())


def connect_by_options(
    service: str,
    conf: cfg.ConfigOpts,
    group: str,
    *,
    url: str | None = None,
    timeout_s: float = _TIMEOUT_S,
    retries: int = _RETRIES,
) -> RemoteApi | None:
    """Return the API of a service by keystoneauth's options in a group; None if they have no auth_type.

    The address is that of endpoint_override, or the URL, or the one in the catalogue.

    Raises Invalid, MissingExtra.
    """
    with requires("client", f"The options of [{group}]"):
        from keystoneauth1 import exceptions, loading  # noqa: PLC0415 -- optional
    for register in (
        loading.register_auth_conf_options,
        loading.register_session_conf_options,
        loading.register_adapter_conf_options,
    ):
        register(conf, group)
    conf.set_default("service_type", service, group)
    conf.set_default("valid_interfaces", ["internal", "public"], group)
    conf.set_default("endpoint_override", url, group)
    logging.getLogger("keystoneauth").addHandler(logging.NullHandler())
    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        if auth is None:
            return None
        session = loading.load_session_from_conf_options(conf, group, auth=auth)
        session.timeout = session.timeout or timeout_s
        made = loading.load_adapter_from_conf_options(
            conf, group, session=session, connect_retries=retries, status_code_retries=retries, user_agent="covey"
        )
    except exceptions.ClientException as error:
        raise Invalid(f"The options of [{group}] are incomplete: {error}") from error
    return RemoteApi(made, service.capitalize())


def connect_by_token(
    service: str, conf: cfg.ConfigOpts, group: str, *, url: str, token: str, timeout_s: float
) -> RemoteApi:
    """Return the API of a service at a URL to the owner of a token, once per request. Raises MissingExtra.

    A call ends at the deadline of the request.

    The options of the session are those of keystoneauth in a group, such as cafile.
    """
    with requires("client", f"The options of [{group}]"):
        from keystoneauth1 import adapter, loading, token_endpoint  # noqa: PLC0415 -- optional

        from covey.timed_session import TimedSession  # noqa: PLC0415 -- it needs keystoneauth1
    loading.register_session_conf_options(conf, group)
    auth = token_endpoint.Token(url, token)
    plain = loading.load_session_from_conf_options(conf, group, auth=auth)
    session = TimedSession(auth, verify=plain.verify, cert=plain.cert, timeout=timeout_s)
    made = adapter.Adapter(
        session,
        service_type=service,
        endpoint_override=url,
        connect_retries=0,
        status_code_retries=0,
        user_agent="covey",
    )
    return RemoteApi(made, service.capitalize())


def without_project(url: str) -> str:
    """Return the URL of a service for the tokens of all projects: without the project id of an older catalogue."""
    of_project = _OF_PROJECT.fullmatch(url)
    return url if of_project is None else of_project[1]


def _by_token(url: str | None, token: str) -> "Session":
    from keystoneauth1 import session, token_endpoint  # noqa: PLC0415

    if url is None:
        raise Invalid("A token needs the URL of the service.")
    return session.Session(auth=token_endpoint.Token(url, token))


def _by_cloud(service: str, cloud: str | None) -> tuple["Session", dict[str, Any]]:
    with requires("client", "clouds.yaml"):
        from openstack import config, exceptions  # noqa: PLC0415
    try:
        region = config.get_cloud_region(cloud=cloud)
        session = region.get_session()
    except exceptions.SDKException as error:
        raise Invalid(f"The credentials of the cloud are incomplete: {error}") from error
    return session, {
        "interface": region.get_interface(service),
        "region_name": region.get_region_name(service),
        "endpoint_override": region.get_endpoint(service),
    }
