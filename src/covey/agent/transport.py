"""HTTP with the agent's credentials: none, HTTP Basic, or a token of Keystone."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Protocol

import requests
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from keystoneauth1.session import Session as KeystoneSession

_CONNECT_TIMEOUT_S = 5.0


class ServiceUnavailable(Exception):
    """The service, or Keystone, did not answer, or asked to try again later."""


class Refused(Exception):
    """The service refuses the request, whenever it is repeated: wrong credentials, a host of another user."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Transport(Protocol):
    """Sends requests with credentials, from several threads."""

    def request(
        self, method: str, path: str, body: object = None, *, timeout_s: float, stream: bool = False
    ) -> requests.Response:
        """Return the response, whatever its status. Raises ServiceUnavailable, and Refused by Keystone."""


@dataclass(frozen=True, slots=True)
class PlainTransport:
    """HTTP without a token: headers or HTTP Basic say who is calling."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    credentials: tuple[str, str] | None = None  # user and password
    verify: bool | str = True  # or a file of CA certificates
    connections: int = 32
    _session: requests.Session = field(default_factory=requests.Session)

    def __post_init__(self) -> None:
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=self.connections))
        self._session.headers.update(self.headers)
        self._session.auth = self.credentials
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # threads share the session

    def request(
        self, method: str, path: str, body: object = None, *, timeout_s: float, stream: bool = False
    ) -> requests.Response:
        with _connecting(self.url):
            return self._session.request(
                method,
                self.url + path,
                json=body,
                timeout=(_CONNECT_TIMEOUT_S, timeout_s),
                stream=stream,
                allow_redirects=False,
                verify=self.verify,  # that of the session gives way to REQUESTS_CA_BUNDLE
            )


@dataclass(frozen=True, slots=True)
class KeystoneTransport:
    """HTTP with a token, which is renewed before it expires and after a 401."""

    url: str
    session: "KeystoneSession"

    def request(
        self, method: str, path: str, body: object = None, *, timeout_s: float, stream: bool = False
    ) -> requests.Response:
        from keystoneauth1 import exceptions  # noqa: PLC0415 -- optional, and slow to import

        try:
            with _connecting(self.url):
                response: requests.Response = self.session.request(
                    self.url + path,
                    method,
                    json=body,
                    timeout=(_CONNECT_TIMEOUT_S, timeout_s),
                    stream=stream,
                    redirect=False,
                    raise_exc=False,
                    authenticated=True,
                    log=False,
                )
        except (exceptions.Unauthorized, exceptions.Forbidden) as error:
            raise Refused(f"Keystone refuses the credentials in [agent_auth]: {error}") from error
        except exceptions.ClientException as error:
            raise ServiceUnavailable(str(error)) from error
        return response


@contextmanager
def _connecting(url: str) -> Iterator[None]:
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise ServiceUnavailable(f"The certificate of {url} cannot be verified: {error}") from error
    except requests.RequestException as error:
        raise ServiceUnavailable(f"{url} does not answer: {error}") from error
