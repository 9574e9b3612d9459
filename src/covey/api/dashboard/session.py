"""Signing in: how the page learns what to send, and how it gets a token where Keystone gives them out."""

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
from covey.request_slots import RequestSlots

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

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
_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """What somebody typed into the form; names, and the domain of both user and project."""

    name: str
    password: str
    project: str
    domain: str

    def __repr__(self) -> str:
        return f"Credentials({self.name!r})"


@dataclass(frozen=True, slots=True)
class Ticket:
    """A token, and until when it is good."""

    token: str
    expires_at: str


SignIn = Callable[[Credentials], Ticket]
"""Gets a token. Raises Unauthorized, Unavailable."""


@dataclass(frozen=True, slots=True)
class KeystoneSignIn:
    """Asks Keystone for a token, as any of its clients would."""

    auth_url: str
    request_slots: RequestSlots
    verify: bool | str = True

    def __call__(self, given: Credentials) -> Ticket:
        from keystoneauth1 import exceptions  # noqa: PLC0415 -- slow to import, seldom needed
        from keystoneauth1.identity import v3  # noqa: PLC0415
        from keystoneauth1.session import Session  # noqa: PLC0415

        asked = v3.Password(
            auth_url=self.auth_url,
            username=given.name,
            password=given.password,
            user_domain_name=given.domain,
            project_name=given.project,
            project_domain_name=given.domain,
        )
        try:
            with self.request_slots.aside():
                found = asked.get_access(Session(verify=self.verify, timeout=_PATIENCE_S))
        except exceptions.Unauthorized as error:
            raise Unauthorized("The name, the password, the project or the domain is wrong.") from error
        except exceptions.ClientException as error:
            raise Unavailable("The identity service does not answer. Try again in a moment.") from error
        return Ticket(str(found.auth_token), "" if found.expires is None else found.expires.isoformat())


@dataclass(frozen=True, slots=True)
class Session:
    """GET says how to sign in, POST does it where that takes a request of its own. Both are open to anybody."""

    auth: str
    sign_in: SignIn | None

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.cache_control = ["no-store"]
        resp.media = {"auth": self.auth, "version": version("covey")}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        resp.cache_control = ["no-store"]
        if self.sign_in is None:
            raise Invalid(f"There are no tokens here (auth_strategy={self.auth}): send credentials with every request.")
        body = read_body(req, _SIGN_IN)
        given = Credentials(body["name"], body["password"], body["project"], body.get("domain", "Default"))
        ticket = self.sign_in(given)
        resp.media = {"token": ticket.token, "expires_at": ticket.expires_at}


@dataclass(frozen=True, slots=True)
class Unprompted:
    """The same authenticator with a challenge that makes no browser open a form of its own."""

    inner: Authenticator
    challenge: str = 'Covey realm="covey"'

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        return self.inner(environ)


def is_open(req: Request) -> bool:
    """The page, its files, and how to sign in need no identity."""
    return req.path in {"/", "/session"} or req.path.startswith("/assets/")
