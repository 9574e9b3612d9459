"""Sign-in: the authentication strategy, and tokens from Keystone."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import falcon

from covey.api.authentication import Authenticator
from covey.api.requests import Request, read_body
from covey.api.validation import JsonSchema, Schema
from covey.model.access import Actor
from covey.model.errors import Invalid, Unauthorized, Unavailable

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from covey.api.authentication.keystone_calls import KeystoneCalls

_TEXT: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255}
_SIGN_IN = Schema(
    {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "password": {"type": "string", "minLength": 1, "maxLength": 4096},
            "project": _TEXT,
            "domain": _TEXT,
        },
        "required": ["name", "password", "project"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The input of the sign-in form: names, and the domain of both user and project."""

    name: str
    password: str
    project: str
    domain: str

    def __repr__(self) -> str:
        return f"Credentials({self.name!r})"


@dataclass(frozen=True, slots=True)
class Token:
    """A Keystone token and its expiry time."""

    id: str
    expires_at: str


SignIn = Callable[[Credentials], Token]
"""Returns a token. Raises Unauthorized, Unavailable, Busy."""


@dataclass(frozen=True, slots=True)
class KeystoneSignIn:
    """Requests a token from Keystone."""

    auth_url: str
    calls: "KeystoneCalls"
    verify: bool | str = True

    def __call__(self, credentials: Credentials) -> Token:
        from keystoneauth1 import exceptions  # noqa: PLC0415 -- slow to import, seldom needed
        from keystoneauth1.identity import v3  # noqa: PLC0415

        from covey.api.authentication.keystone_calls import DeadlineSession  # noqa: PLC0415

        plugin = v3.Password(
            auth_url=self.auth_url,
            username=credentials.name,
            password=credentials.password,
            user_domain_name=credentials.domain,
            project_name=credentials.project,
            project_domain_name=credentials.domain,
        )
        try:
            with self.calls.calling():
                access = plugin.get_access(DeadlineSession(verify=self.verify))
        except exceptions.Unauthorized as error:
            raise Unauthorized("The name, the password, the project or the domain is wrong.") from error
        except exceptions.ClientException as error:
            raise Unavailable("The identity service does not answer. Try again in a moment.") from error
        return Token(str(access.auth_token), "" if access.expires is None else access.expires.isoformat())


@dataclass(frozen=True, slots=True)
class Session:
    """GET returns the authentication strategy; POST exchanges a password for a token. Neither is authenticated."""

    auth: str
    sign_in: SignIn | None

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.cache_control = ["no-store"]
        resp.media = {"auth": self.auth, "version": version("covey")}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        resp.cache_control = ["no-store"]
        if self.sign_in is None:
            raise Invalid(f"auth_strategy={self.auth} has no tokens; send credentials with every request.")
        body = read_body(req, _SIGN_IN)
        credentials = Credentials(body["name"], body["password"], body["project"], body.get("domain", "Default"))
        token = self.sign_in(credentials)
        resp.media = {"token": token.id, "expires_at": token.expires_at}


@dataclass(frozen=True, slots=True)
class WithoutBrowserPrompt:
    """The same authenticator, with a challenge that does not open the browser's sign-in dialog."""

    inner: Authenticator
    challenge: str = 'Covey realm="covey"'

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        return self.inner(environ)


def is_open(req: Request) -> bool:
    """Return whether a path needs no authentication: the page, its files, and sign-in."""
    return req.path in {"/", "/session"} or req.path.startswith("/assets/")
