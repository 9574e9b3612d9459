"""Authenticators: each turns a request's credentials into an Actor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from covey.model.access import Actor
from covey.ports import Accounts

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class Authenticator(Protocol):
    """An authentication method."""

    @property
    def challenge(self) -> str:
        """The WWW-Authenticate header of a 401."""

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        """Return the request's actor. Raises Unauthorized."""


class AuthenticationMethod(Authenticator, Accounts, Protocol):
    """An authenticator that knows its users' accounts."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project, as the clients look it up."""

    id: str
    name: str


class Projects(Protocol):
    """The projects of an authenticator that keeps its own."""

    def project(self, project_id: str) -> Project | None: ...

    def projects_named(self, name: str | None) -> Sequence[Project]: ...
